#include "standard_error.h"

#include "passwords.h"
#include "units.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include <sys/types.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

thread_local bool masks = false;

std::string
harmless(std::string_view text)
{
    std::string result;
    while (!text.empty())
    {
        const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
        result += printable(text.substr(0, end));
        result += text.substr(end, 1);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return result;
}

// Whether all of it was written.
bool
write_all(std::string_view text)
{
    while (!text.empty())
    {
        const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
        if (count < 0 && errno != EINTR)
            return false;
        text.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    return true;
}

// For fopencookie(): 0 is an error.
ssize_t
write_harmless(void * /*cookie*/, const char *text, std::size_t size)
{
    try
    {
        return write_all(
                   harmless(masks ? without_passwords({text, size}) : std::string(text, size)))
                   ? static_cast<ssize_t>(size)
                   : 0;
    }
    catch (const std::exception &)
    {
        return 0; // no memory; the writer learns that it was not written
    }
}

} // namespace

void
escape_standard_error()
{
    cookie_io_functions_t functions = {};
    functions.write = &write_harmless;
    FILE *stream = fopencookie(nullptr, "w", functions);
    if (stream == nullptr)
        throw std::bad_alloc();
    // By lines, so that no character is cut in two, and nothing is kept back for long.
    (void) std::setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
    stderr = stream;
}

void
mask_errors_of_this_thread()
{
    masks = true;
}

void
write_raw_error(std::string_view text)
{
    (void) std::fflush(stderr); // in order; an error would show with the text itself
    (void) write_all(text);     // there is no other place to report a failure
}

} // namespace outbox::ctl
