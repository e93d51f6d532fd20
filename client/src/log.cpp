#include "log.h"

#include "text.h"

#include <cstdio>
#include <utility>

namespace outbox::v0::detail
{

namespace
{

void
write_to_stderr(LogLevel level, const std::string &line)
{
    if (level != LogLevel::info)
        (void) std::fprintf(stderr, "outbox consumer: %s\n", line.c_str()); // nowhere else to go
}

} // namespace

Log::Log(Function function) : function_(function ? std::move(function) : Function(&write_to_stderr))
{
}

// Messages of servers and handlers come in several lines, some of which say where in a statement.
void
Log::write(LogLevel level, const std::string &text) const noexcept
{
    try
    {
        function_(level, one_line(text));
    }
    catch (...)
    {
        // We may be below librdkafka, where no exception can pass; the line is not lost, though.
        (void) std::fprintf(stderr, "outbox consumer: %s\n", text.c_str());
    }
}

} // namespace outbox::v0::detail
