#include "failure.h"

#include "extension/core/verdict.h"

#include <cstdarg>
#include <cstdio>
#include <string_view>
#include <type_traits>

namespace outbox
{

static_assert(std::is_trivially_copyable_v<Failure>);

namespace
{

template <std::size_t N>
void
copy_cut(char (&to)[N], std::string_view from) noexcept
{
    const std::string_view fitting = clip(from, N - 1);
    to[fitting.copy(to, N - 1)] = '\0';
}

} // namespace

void
set_failure(Failure &failure, FailureClass cls, const char *name, const char *format, ...) noexcept
{
    char text[2 * sizeof failure.text];
    va_list arguments;
    va_start(arguments, format);
    if (std::vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    failure = Failure();
    failure.cls = cls;
    copy_cut(failure.name, name);
    copy_cut(failure.text, text);
}

void
set_hint(Failure &failure, std::string_view hint) noexcept
{
    copy_cut(failure.hint, hint);
}

const char *
name_of(FailureClass cls) noexcept
{
    switch (cls)
    {
    case FailureClass::none:
        return "none";
    case FailureClass::retriable:
        return "retriable";
    case FailureClass::topic:
        return "topic";
    case FailureClass::event:
        return "event";
    case FailureClass::fatal:
        return "fatal";
    case FailureClass::config:
        return "config";
    case FailureClass::gone:
        return "gone";
    }
    return "?";
}

} // namespace outbox
