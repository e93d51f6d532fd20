#include "saving.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

namespace
{

// While somebody holds an old snapshot, each write leaves a version of the row that cannot be
// removed, and the next one reads all of them. So writes take a tenth of the time at most: the
// longer they take, the fewer there are, and of a day there are so few that nobody notices. One
// that is slow for once, as beside a checkpoint, does not count. While a session waits for the
// position they may take a third.
long
pause_after(std::int64_t took_ms, bool waited_for) noexcept
{
    constexpr std::int64_t kPauses = 10;
    constexpr std::int64_t kPausesWaitedFor = 2;
    constexpr std::int64_t kLongestMs = 10L * 1000;
    return static_cast<long>(
        std::min((waited_for ? kPausesWaitedFor : kPauses) * took_ms, kLongestMs));
}

} // namespace

SaveResult
Saving::save_if_due(const Progress &progress, const Reached &reached, bool at_once, long *wait_ms)
{
    // Under load as rarely as repeats after a crash allow; after a burst soon, a session may wait.
    constexpr long kSaveMs = 200;
    constexpr long kSaveIdleMs = 20;
    constexpr long kSaveSkippedMs = 1000;
    *wait_ms = -1;
    const std::uint64_t skipped = source_.skipped();
    const bool behind = is_behind(reached) || (saved_open_ && reached.caught_up);
    if (!behind && (skipped == saved_skipped_ || OUTBOX_MUTANT(forgets_left_out)))
        return SaveResult::done;
    const long interval = std::max(!behind             ? kSaveSkippedMs
                                   : reached.caught_up ? kSaveIdleMs
                                                       : kSaveMs,
                                   pause_after(usual_ms_, source_.is_waited_for()));
    const Steady now = clock_.steady();
    const long age = saved_at_.is_never() ? interval : ms_between(saved_at_, now);
    if (age < interval && (!at_once || OUTBOX_MUTANT(saves_not_at_end)))
    {
        *wait_ms = interval - age;
        return SaveResult::done;
    }

    const Position position = progress.position();
    const SaveResult saved = source_.save(position, published_before_ + reached.published);
    if (saved != SaveResult::done)
        return saved;
    const std::int64_t took = ms_between(now, clock_.steady());
    usual_ms_ = std::min(took, took_before_ms_) * (OUTBOX_MUTANT(saves_rarely) ? 1000 : 1);
    took_before_ms_ = took;
    saved_prefix_ = reached.prefix;
    saved_redelivered_ = reached.redelivered;
    saved_skipped_ = OUTBOX_MUTANT(writes_left_out_again) ? saved_skipped_ : skipped;
    saved_open_ = !(position.from == position.to);
    saved_at_ = now;
    tick_due_ = true;
    return SaveResult::done;
}

void
Saving::tick_if_due(const Progress &progress)
{
    constexpr int kTickMs = 1000;
    const Steady now = clock_.steady();
    if (!tick_due_ || (!tick_at_.is_never() && !has_passed(tick_at_, now, kTickMs)))
        return;
    tick_due_ = false;
    tick_at_ = now;
    const Position position = progress.position();
    source_.tick(OUTBOX_MUTANT(ticks_ahead) ? position.to : position.from);
}

} // namespace outbox
