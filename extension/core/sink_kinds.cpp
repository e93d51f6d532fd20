#include "sink_kinds.h"

namespace outbox
{

namespace
{

// Set before any registration: it needs no initialisation at run time.
const RegisteredSink *first = nullptr;

} // namespace

RegisteredSink::RegisteredSink(const SinkKind &kind) noexcept : kind_(kind), next_(first)
{
    first = this;
}

const SinkKind *
find_sink_kind(std::string_view name) noexcept
{
    for (const RegisteredSink *sink = first; sink != nullptr; sink = sink->next())
        if (name == sink->kind().name)
            return &sink->kind();
    return nullptr;
}

const RegisteredSink *
first_sink() noexcept
{
    return first;
}

bool
is_among(const char *const *names, std::string_view name) noexcept
{
    for (; *names != nullptr; names++)
        if (name == *names)
            return true;
    return false;
}

} // namespace outbox
