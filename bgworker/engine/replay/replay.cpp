#include "replay.h"

#include "bgworker/engine/common/sooner.h"

#include <algorithm>
#include <cstdio>

namespace outbox
{

namespace
{

// What asks for a replay wakes the relay; this is for what did not.
constexpr int kLookMs = 10 * 1000;
constexpr int kSaveMs = 200;

} // namespace

Replay::Replay(const World &world)
    : world_(world), source_(world.source), replays_(world.replays), clock_(world.clock)
{
}

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
Replay::begin_request(Steady now)
{
    flight_.start(request_.counts, request_.total);
    bucket_.configure(request_.rate_per_second, now.us);
    backoff_ = Backoff();
    backoff_.configure(policy_.backoff_initial_ms, policy_.backoff_max_ms);
    active_ = true;
    halted_ = false;
    unsaved_ = false;
    held_ = false;
    next_attempt_at_ = {};
    oversized_batches_ = 0;
    batch_too_large_ = false;
    chunk_number_ = -1;
    first_ = -1;
    published_at_ = {};
    char text[200];
    LogLine line;
    line.text = text;
    std::snprintf(text, sizeof text, "outbox: replay %s %s: %lld of %lld events left",
                  request_.id_text, request_.begun ? "continues" : "begins",
                  static_cast<long long>(request_.total - request_.counts.total()),
                  static_cast<long long>(request_.total));
    source_.log(line);
}

// Looks whether the replay under way was cancelled, and for the next one when there is none.
void
Replay::look(Steady now)
{
    look_ = false;
    look_at_ = plus_ms(now, kLookMs);
    if (active_)
    {
        const Replays::Found found = replays_.look_at(request_);
        if (found == Replays::Found::locked)
            look_at_ = plus_ms(now, kHeldMs);
        if (found != Replays::Found::cancelled)
            return;
        leave_request();
        look_ = false;
    }
    switch (replays_.take(request_))
    {
    case Replays::Taken::taken:
        begin_request(now);
        break;
    case Replays::Taken::held:
    case Replays::Taken::locked:
        look_at_ = plus_ms(now, kHeldMs);
        break;
    case Replays::Taken::none:
    case Replays::Taken::gone:
        break;
    }
}

// False when a person holds the row; or it was cancelled, which the next look finds.
bool
Replay::save(Steady now, const char *ended)
{
    request_.counts = flight_.counts();
    const bool saved = replays_.save(request_, ended);
    saved_at_ = now;
    held_ = !saved;
    if (saved)
        unsaved_ = false;
    else
        look_at_ = plus_ms(now, kHeldMs);
    return saved;
}

void
Replay::end(Steady now, const char *state)
{
    if (!save(now, state))
        return; // tried again
    const ReplayFlight::Counts &counts = flight_.counts();
    char text[700];
    LogLine line;
    line.text = text;
    if (flight_.done())
        std::snprintf(text, sizeof text,
                      "outbox: replay %s is done: %lld events published, %lld refused, %lld not "
                      "there any more",
                      request_.id_text, static_cast<long long>(counts.published),
                      static_cast<long long>(counts.refused),
                      static_cast<long long>(counts.missing));
    else
    {
        std::snprintf(text, sizeof text, "outbox: replay %s has failed: %s", request_.id_text,
                      request_.last_error);
        line.level = LogLine::Level::warning;
        line.hint = "See outbox.replays; ask for another one when it is mended.";
    }
    source_.log(line);
    leave_request();
}

void
Replay::save_now(Steady now)
{
    if (active_ && (flight_.settle() || unsaved_))
        (void) save(now, nullptr);
}

long
Replay::advance(const Chance &chance, Steady now)
{
    // So many in a row are no exceptions.
    constexpr int kMostRefusedInARow = 100;
    if (flight_.settle())
        unsaved_ = true;
    const bool pause = held_ && !has_passed(saved_at_, now, kHeldMs);
    if (pause)
        return kHeldMs;
    if (flight_.done() || flight_.refused_in_a_row() >= kMostRefusedInARow ||
        watch_stuck(chance, now))
    {
        end(now, flight_.done() ? "DONE" : "FAILED");
        return active_ ? kHeldMs : 0;
    }
    if (held_ || (unsaved_ && has_passed(saved_at_, now, kSaveMs)))
        if (!save(now, nullptr))
            return kHeldMs;
    const long save_ms = unsaved_ ? kSaveMs : -1;
    const long wait_ms = halted_ ? recover(now) : chance.may_send ? send(now) : -1;
    return sooner(wait_ms, save_ms);
}

long
Replay::step(const Chance &chance, Steady now)
{
    hear();
    // None begins before it may go on.
    const bool may_look = active_ || chance.may_send;
    if (may_look && (look_ || look_at_ <= now))
        look(now);
    const long look_ms = may_look ? std::max(1L, ms_between(now, look_at_)) : -1;
    if (!active_)
        return look_ms;
    const long wait_ms = sooner(look_ms, advance(chance, now));
    return producer_ ? sooner(wait_ms, producer_->serve_within_ms()) : wait_ms;
}

} // namespace outbox
