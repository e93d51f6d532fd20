#include "replay_row.h"

#include <cstdio>

namespace outbox
{

Replays::Taken
ReplayRow::take()
{
    const Replays::Taken taken = replays_.take(request_);
    if (taken == Replays::Taken::taken)
    {
        flight_.start(request_.counts, request_.total);
        unsaved_ = false;
        held_ = false;
    }
    return taken;
}

void
ReplayRow::note_error(const char *name, const char *text) noexcept
{
    (void) std::snprintf(request_.last_error, sizeof(request_.last_error), "%s: %s", name, text);
    unsaved_ = true;
}

void
ReplayRow::note_refusal(const EventNumbers &numbers, const Failure &failure) noexcept
{
    constexpr int kMost = sizeof(request_.last_error) - sizeof(failure.name) - 40;
    (void) std::snprintf(request_.last_error, sizeof(request_.last_error),
                         "event with seq %lld: %s: %.*s", static_cast<long long>(numbers.seq),
                         failure.name, kMost, failure.text);
    unsaved_ = true;
}

void
ReplayRow::settle() noexcept
{
    if (flight_.settle())
        unsaved_ = true;
}

bool
ReplayRow::save(Steady now, const char *ended)
{
    request_.counts = flight_.counts();
    const bool saved = replays_.save(request_, ended);
    saved_at_ = now;
    held_ = !saved;
    if (saved)
        unsaved_ = false;
    return saved;
}

} // namespace outbox
