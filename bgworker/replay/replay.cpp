#include "bgworker/core/sooner.h"

#include "replay.h"

#include "bgworker/short_transaction.h"

#include "extension/settings.h"

namespace outbox
{

namespace
{

// What asks for a replay wakes the relay; this is for what did not.
constexpr int kLookMs = 10 * 1000;
constexpr int kSaveMs = 200;

} // namespace

// Everything that the process knows of the one before is forgotten; what is on its way may arrive.
void
Replay::leave_request() noexcept
{
    if (producer_ && producer_->outstanding() > 0)
        producer_->purge();
    drop_producer(0);
    active_ = false;
    look_ = true; // for the next one
}

void
Replay::drop_producer(int wait_ms) noexcept
{
    if (producer_)
        (void) producer_->close(wait_ms);
    producer_.reset();
}

void
Replay::begin_request(std::int64_t now)
{
    flight_.start(request_.counts, request_.total);
    bucket_.configure(request_.rate_per_second, now);
    backoff_ = Backoff();
    backoff_.configure(settings.backoff_initial_ms, settings.backoff_max_ms);
    active_ = true;
    halted_ = false;
    unsaved_ = false;
    held_ = false;
    next_attempt_at_ = 0;
    oversized_batches_ = 0;
    batch_too_large_ = false;
    chunk_number_ = -1;
    first_ = -1;
    published_at_ = 0;
    ereport(LOG, (errmsg("outbox: replay %s %s: " INT64_FORMAT " of " INT64_FORMAT " events left",
                         request_.id_text, request_.begun ? "goes on" : "begins",
                         request_.total - request_.counts.total(), request_.total)));
}

// Looks whether the replay under way was cancelled, and for the next one when there is none.
void
Replay::look(std::int64_t now)
{
    bool cancelled = false;
    bool taken = false;
    begin_transaction();
    const OpenResult opened = lock_replay_tables();
    const bool locked = opened == OpenResult::opened;
    look_ = false;
    look_at_ = TimestampTzPlusMilliseconds(now, opened == OpenResult::locked ? kHeldMs : kLookMs);
    if (locked && active_)
        cancelled = !is_running(request_);
    if (locked && (!active_ || cancelled))
    {
        end_foreign_replays();
        const TakeResult result = take_replay(&request_);
        taken = result == TakeResult::taken;
        if (result == TakeResult::held)
            look_at_ = TimestampTzPlusMilliseconds(now, kHeldMs);
    }
    end_transaction();
    if (cancelled)
        leave_request();
    if (taken)
        begin_request(now);
}

// False when a person holds the row; or it was cancelled, which the next look finds.
bool
Replay::save(std::int64_t now, const char *ended)
{
    begin_transaction();
    request_.counts = flight_.counts();
    const bool saved = lock_replay_tables() == OpenResult::opened && save_replay(request_, ended);
    end_transaction();
    saved_at_ = now;
    held_ = !saved;
    if (saved)
        unsaved_ = false;
    else
        look_at_ = TimestampTzPlusMilliseconds(now, kHeldMs);
    return saved;
}

void
Replay::end(std::int64_t now, const char *state)
{
    if (!save(now, state))
        return; // tried again
    const ReplayFlight::Counts &counts = flight_.counts();
    if (strcmp(state, "DONE") == 0)
        ereport(LOG, (errmsg("outbox: replay %s is done: " INT64_FORMAT
                             " events published, " INT64_FORMAT " refused, " INT64_FORMAT
                             " not there any more",
                             request_.id_text, counts.published, counts.refused, counts.missing)));
    else
        ereport(WARNING,
                (errmsg("outbox: replay %s has failed: %s", request_.id_text, request_.last_error),
                 errhint("See outbox.replays; ask for another one when it is mended.")));
    leave_request();
}

void
Replay::save_now(std::int64_t now)
{
    if (active_ && (flight_.settle() || unsaved_))
        (void) save(now, nullptr);
}

long
Replay::advance(const Chance &chance, std::int64_t now)
{
    // So many in a row are no exceptions.
    constexpr int kMostRefusedInARow = 100;
    if (flight_.settle())
        unsaved_ = true;
    const bool pause = held_ && !TimestampDifferenceExceeds(saved_at_, now, kHeldMs);
    if (pause)
        return kHeldMs;
    if (flight_.done() || flight_.refused_in_a_row() >= kMostRefusedInARow ||
        watch_stuck(chance, now))
    {
        end(now, flight_.done() ? "DONE" : "FAILED");
        return active_ ? kHeldMs : 0;
    }
    if (held_ || (unsaved_ && TimestampDifferenceExceeds(saved_at_, now, kSaveMs)))
        if (!save(now, nullptr))
            return kHeldMs;
    const long save_ms = unsaved_ ? kSaveMs : -1;
    const long wait_ms = halted_ ? recover(now) : chance.may_send ? send(chance, now) : -1;
    return sooner(wait_ms, save_ms);
}

long
Replay::step(const Chance &chance, std::int64_t now)
{
    hear();
    // None begins before it may go on.
    const bool may_look = active_ || chance.may_send;
    if (may_look && (look_ || look_at_ <= now))
        look(now);
    const long look_ms = may_look ? Max(1L, TimestampDifferenceMilliseconds(now, look_at_)) : -1;
    if (!active_)
        return look_ms;
    const long wait_ms = sooner(look_ms, advance(chance, now));
    return producer_ ? sooner(wait_ms, producer_->serve_within_ms()) : wait_ms;
}

} // namespace outbox
