#include "guarded.h"

#include "mutant.h"

#include <algorithm>
#include <cstdio>

namespace outbox
{

namespace
{

constexpr std::int64_t kFirstPauseMs = 1000;

} // namespace

long
Guarded::due_within_ms() const noexcept
{
    return failures_ == 0 ? -1 : std::max(1L, ms_between(clock_.steady(), next_at_));
}

// An error that comes again and again is shown, and logged once.
void
Guarded::note_error()
{
    logged_code_ = source_.roll_back(what_, logged_code_);
    const std::int64_t pause =
        std::min(kFirstPauseMs << std::min(failures_, 10), longest_pause_ms_);
    failures_ = OUTBOX_MUTANT(tries_each_round) ? 0 : std::min(failures_ + 1, 16);
    next_at_ = plus_ms(clock_.steady(), pause);
}

void
Guarded::note_success() noexcept
{
    if (failures_ > 0)
    {
        char text[128];
        (void) std::snprintf(text, sizeof text, "outbox relay: %s works again", what_);
        LogLine line;
        line.text = text;
        source_.log(line);
    }
    failures_ = 0;
    logged_code_ = 0;
}

} // namespace outbox
