// The border between C++ exceptions and PostgreSQL errors, in both directions.
#pragma once

#include "engine/source.h"

#include <exception>
#include <new>

#include "extension/server/pg.h"

namespace outbox
{

// Calls f, which may throw and must not call PostgreSQL but through from_postgres(): an error there
// would jump over its objects. An exception becomes an ERROR, raised when no C++ object of f is
// alive; a DatabaseError the one that PostgreSQL has raised.
template <typename F>
void
call_cpp(F f)
{
    int code = 0;
    bool raised = false;
    char message[256];
    try
    {
        f();
        return;
    }
    catch (const DatabaseError &)
    {
        raised = true;
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
    if (raised)
        PG_RE_THROW();
    ereport(ERROR, (errcode(code), errmsg_internal("%s", message)));
}

// Calls f, which calls PostgreSQL and may be left by longjmp: neither it nor what it calls keeps an
// object with a destructor on a frame, or throws. Its error stays on PostgreSQL's error stack, and
// continues as DatabaseError, or as a kind of it, through C++ frames, which are left as usual. They
// call PostgreSQL no more until call_cpp() has raised the error again, or it has been ended (see
// end_failed_transaction()).
template <typename Error = DatabaseError, typename F>
void
from_postgres(F f)
{
    volatile bool raised = false;
    PG_TRY();
    {
        f();
    }
    PG_CATCH();
    {
        raised = true;
    }
    PG_END_TRY();
    if (raised)
        throw Error();
}

} // namespace outbox
