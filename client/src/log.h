// The caller's log function, which may not throw where we log.
#pragma once

#include <functional>
#include <string>

#include "outbox/consumer.h"

namespace outbox::v0::detail
{

class Log
{
public:
    using Function = std::function<void(LogLevel, const std::string &)>;

    explicit Log(Function function);

    void info(const std::string &line) const noexcept { write(LogLevel::info, line); }
    void warning(const std::string &line) const noexcept { write(LogLevel::warning, line); }
    void error(const std::string &line) const noexcept { write(LogLevel::error, line); }
    // Whatever the text is, it is one line in the log.
    void write(LogLevel level, const std::string &text) const noexcept;

private:
    Function function_;
};

} // namespace outbox::v0::detail
