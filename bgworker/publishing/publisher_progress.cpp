// How far the publisher has got: what it writes into its table, and what it shows.

#include "publisher.h"

#include "bgworker/guard.h"
#include "bgworker/relation_lock.h"
#include "bgworker/short_transaction.h"

#include "extension/core/steady.h"
#include "extension/shared_state.h"

namespace outbox
{

std::int64_t
Publisher::published() const noexcept
{
    return static_cast<std::int64_t>(progress_.published_prefix() + redelivered_);
}

std::uint64_t
Publisher::backlog_base() const noexcept
{
    if (went_back_)
        return base_then_ + (progress_.acknowledged_prefix() - prefix_then_);
    return emitted_mark_ - keys_.remaining() - progress_.behind_prefix();
}

long
Publisher::redeliver_within_ms(TimestampTz now) const noexcept
{
    const TimestampTz due_at = redelivery_.due_at();
    if (due_at == 0 || paused() || halted_ || !producer_)
        return -1;
    if (due_at > now)
        return TimestampDifferenceMilliseconds(now, due_at);
    return outstanding() == 0 ? 0 : -1; // the last report wakes us
}

bool
Publisher::caught_up() const noexcept
{
    return !window_open_ && progress_.behind_prefix() == 0;
}

SaveResult
Publisher::save_if_due(bool at_once, long *wait_ms)
{
    // Under load as rarely as repeats after a crash allow; after a burst soon, somebody may wait.
    constexpr long kSaveMs = 200;
    constexpr long kSaveIdleMs = 20;
    *wait_ms = -1;
    static Position position;
    call_cpp([&] { position = progress_.position(); });
    const std::uint64_t prefix = progress_.acknowledged_prefix();
    // A position that only skips transactions without events is worth no write, but one without an
    // open window is: it says of whole slots that they are published.
    const bool moved = prefix != saved_prefix_ || redelivered_ != saved_redelivered_ ||
                       (saved_open_ && caught_up());
    if (!moved)
        return SaveResult::done;
    const long interval = caught_up() ? kSaveIdleMs : kSaveMs;
    const std::int64_t now = steady_now();
    const long age = saved_at_ == 0 ? interval : static_cast<long>((now - saved_at_) / 1000);
    if (age < interval && !at_once)
    {
        *wait_ms = interval - age;
        return SaveResult::done;
    }

    begin_transaction();
    const OpenResult locked = lock_relation(find_own_relation("relay_position"), RowExclusiveLock);
    const bool saved =
        locked == OpenResult::opened && save_position(position, published_before_ + published());
    end_transaction();
    if (!saved)
        return locked == OpenResult::locked ? SaveResult::locked : SaveResult::gone;
    saved_prefix_ = prefix;
    saved_open_ = !(position.from == position.to);
    saved_redelivered_ = redelivered_;
    saved_at_ = now;
    tick_due_ = true;
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    if (slot != nullptr)
        announce_position(slot);
    return SaveResult::done;
}

void
Publisher::tick_if_due()
{
    constexpr std::int64_t kTickUs = 1000000;
    const std::int64_t now = steady_now();
    if (!tick_due_ || (tick_at_ != 0 && now - tick_at_ < kTickUs))
        return;
    tick_due_ = false;
    tick_at_ = now;
    static Position position;
    call_cpp([&] { position = progress_.position(); });
    begin_transaction();
    if (lock_if_free("ticks", RowExclusiveLock))
        save_tick(position.from);
    end_transaction();
}

bool
Publisher::idle() const noexcept
{
    return caught_up() && outstanding() == 0 && redelivery_.in_flight() == 0;
}

void
Publisher::fill_report(RelayReport *report) const noexcept
{
    report->oldest_event_at = progress_.behind_prefix() > 0 ? progress_.oldest_created_at()
                              : window_open_                ? oldest_waiting_
                                                            : 0;
    report->in_flight_events = static_cast<int32>(progress_.in_flight());
    report->in_flight_bytes = static_cast<int64>(progress_.in_flight_bytes());
    report->published = static_cast<uint64>(published());
    report->last_published_at = last_published_at_;
    report->consecutive_failures = static_cast<int32>(backoff_.failures());
    report->next_attempt_at = backing_off() ? next_attempt_at_ : 0;
    report->last_error_at = last_failure_at_;
    if (last_failure_at_ != 0)
        snprintf(report->last_error, sizeof(report->last_error), "%s: %s", last_failure_.name,
                 last_failure_.text);
}

} // namespace outbox
