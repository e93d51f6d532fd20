// outboxctl with its output in a pipe whose reader goes away.
#pragma once

#include "ctl.h"

namespace outbox::test
{

struct Read
{
    std::optional<int> status; // as Ran's; none: it did not end in time, and was killed
    std::string out;           // what was read
    std::string err;
};

// Reads so many bytes (fewer when there are no more) and closes the pipe: at once, even before the
// program has begun, when there are none to read.
Read read_and_leave(const Environment &environment, const Words &arguments, std::size_t bytes,
                    Milliseconds limit = std::chrono::seconds(15));

// The same for output that goes to a file; "" closes it.
Read run_into(const Environment &environment, const Words &arguments, const std::string &file,
              Milliseconds limit = std::chrono::seconds(15));

} // namespace outbox::test
