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
constexpr int kHeldMs = 100; // until a row that a person holds is tried again

} // namespace

Replay::Replay(const World &world) noexcept
    : source_(world.source), row_(world.replays), sink_(world, row_, list_),
      sending_(world, row_, list_, sink_)
{
}

// Everything that the process knows of the one before is forgotten; what is on its way may arrive.
void
Replay::leave_request() noexcept
{
    sink_.abandon();
    active_ = false;
    look_ = true; // for the next one
}

void
Replay::begin_request(Steady now)
{
    sending_.begin(now);
    sink_.begin(policy_);
    list_.forget();
    active_ = true;
    first_ = -1;
    const ReplayRequest &request = row_.request();
    char text[200];
    LogLine line;
    line.text = text;
    (void) std::snprintf(text, sizeof text, "outbox: replay %s %s: %lld of %lld events left",
                         request.id_text, request.begun ? "continues" : "begins",
                         static_cast<long long>(request.total - request.counts.total()),
                         static_cast<long long>(request.total));
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
        const Replays::Found found = row_.look();
        if (found == Replays::Found::locked)
            look_at_ = plus_ms(now, kHeldMs);
        if (found != Replays::Found::cancelled)
            return;
        leave_request();
        look_ = false;
    }
    switch (row_.take())
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

bool
Replay::save(Steady now, const char *ended)
{
    const bool saved = row_.save(now, ended);
    if (!saved)
        look_at_ = plus_ms(now, kHeldMs);
    return saved;
}

void
Replay::end(Steady now, const char *state)
{
    if (!save(now, state))
        return; // tried again
    const ReplayFlight &flight = row_.flight();
    const ReplayRequest &request = row_.request();
    char text[700];
    LogLine line;
    line.text = text;
    if (flight.done())
        (void) std::snprintf(
            text, sizeof text,
            "outbox: replay %s is done: %lld events published, %lld refused, %lld not "
            "there any more",
            request.id_text, static_cast<long long>(flight.counts().published),
            static_cast<long long>(flight.counts().refused),
            static_cast<long long>(flight.counts().missing));
    else
    {
        (void) std::snprintf(text, sizeof text, "outbox: replay %s has failed: %s", request.id_text,
                             request.last_error);
        line.level = LogLine::Level::warning;
        line.hint = "See outbox.replays; ask for another one when it is mended.";
    }
    source_.log(line);
    leave_request();
}

void
Replay::save_now(Steady now)
{
    if (!active_)
        return;
    row_.settle();
    if (row_.has_news())
        (void) save(now, nullptr);
}

// An event that does not come through while others do will not: its topic is not to be had, and
// librdkafka says nothing. While nothing comes through, it is Kafka, and the replay waits.
bool
Replay::watch_stuck(const Chance &chance, Steady now)
{
    constexpr int kStuckMs = 30 * 1000;
    const ReplayFlight &flight = row_.flight();
    if (flight.on_their_way() == 0 || flight.first() != first_ || sink_.is_halted())
    {
        first_ = flight.first();
        first_since_ = now;
        return false;
    }
    if (!has_passed(first_since_, now, kStuckMs))
        return false;
    const Steady half_ago = plus_ms(now, -kStuckMs / 2);
    const bool others_flow = std::max(chance.live_published_at, sink_.published_at()) > half_ago;
    row_.note_error("_TIMED_OUT",
                    others_flow ? "an event was not acknowledged for 30 seconds, while others "
                                  "were; is its topic there, and may be written?"
                                : "nothing was acknowledged for 30 seconds");
    first_since_ = now;
    return others_flow;
}

long
Replay::advance(const Chance &chance, Steady now)
{
    // So many in a row are no exceptions.
    constexpr int kMostRefusedInARow = 100;
    row_.settle();
    if (row_.is_held() && !has_passed(row_.saved_at(), now, kHeldMs))
        return kHeldMs;
    const ReplayFlight &flight = row_.flight();
    if (flight.done() || flight.refused_in_a_row() >= kMostRefusedInARow ||
        watch_stuck(chance, now))
    {
        end(now, flight.done() ? "DONE" : "FAILED");
        return active_ ? kHeldMs : 0;
    }
    if (row_.is_held() || (row_.has_news() && has_passed(row_.saved_at(), now, kSaveMs)))
        if (!save(now, nullptr))
            return kHeldMs;
    const long save_ms = row_.has_news() ? kSaveMs : -1;
    const long wait_ms = sink_.is_halted() ? sink_.recover(now)
                         : chance.may_send ? sending_.send(now)
                                           : -1;
    return sooner(wait_ms, save_ms);
}

long
Replay::step(const Chance &chance, Steady now)
{
    hear();
    // None begins before it could send anything.
    const bool may_look = active_ || chance.may_send;
    if (may_look && (look_ || look_at_ <= now))
        look(now);
    const long look_ms = may_look ? std::max(1L, ms_between(now, look_at_)) : -1;
    if (!active_)
        return look_ms;
    const long wait_ms = sooner(look_ms, advance(chance, now));
    return sink_.is_there() ? sooner(wait_ms, sink_->serve_within_ms()) : wait_ms;
}

} // namespace outbox
