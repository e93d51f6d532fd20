// The border between C++ exceptions and PostgreSQL errors.
#pragma once

#include <exception>
#include <new>

#include "extension/pg.h"

namespace outbox
{

// Calls f, which may throw and must not call PostgreSQL: an error there would jump over its
// objects. An exception becomes an ERROR, raised when no C++ object of f is alive any more.
template <typename F>
void
call_cpp(F f)
{
    int code = 0;
    char message[256];
    try
    {
        f();
        return;
    }
    catch (const std::bad_alloc &)
    {
        code = ERRCODE_OUT_OF_MEMORY;
        strlcpy(message, "out of memory in the outbox relay", sizeof(message));
    }
    catch (const std::exception &error)
    {
        code = ERRCODE_INTERNAL_ERROR;
        strlcpy(message, error.what(), sizeof(message));
    }
    catch (...)
    {
        code = ERRCODE_INTERNAL_ERROR;
        strlcpy(message, "unknown exception in the outbox relay", sizeof(message));
    }
    ereport(ERROR, (errcode(code), errmsg_internal("%s", message)));
}

} // namespace outbox
