// What the publisher does between its steps: hears the sinks, and after a failure sets refused
// events aside, makes room for a new sink, and has what is left handed over again.

#include "publisher.h"

#include "bgworker/engine/common/sooner.h"
#include "bgworker/engine/mutant.h"

namespace outbox
{

bool
Publisher::serve()
{
    constexpr std::size_t kEventsPerServe = 10000;
    constexpr std::size_t kOneByOne = 500; // as many reasons may come
    const Steady now = world_.clock.steady();
    const std::uint64_t redelivered = redelivery_.reports().published();
    bool any = redelivery_.serve(now, !backing_off());
    if (redelivery_.reports().published() > redelivered)
        sink_.end_trouble();
    const bool left = redelivery_.reports().left().cls == FailureClass::gone;
    if (left && !OUTBOX_MUTANT(calls_for_rows))
        sink_.leave(redelivery_.reports().left());
    if (!sink_.is_there())
        return any;
    const std::size_t most = sink_.refuses_batches() ? kEventsPerServe : kOneByOne;
    any = sink_->serve(reports_, most) > 0 || any;
    if (sink_->take_topics_changed())
        passage_.note_news();
    sink_.watch(now);
    return any;
}

// Returns -1 when all are; else in how many ms to continue, as a table is locked or there are many.
long
Publisher::set_refusals_aside(Steady now)
{
    constexpr long kLockedMs = 100;
    if (refusals_.is_empty())
        return -1;
    if (world_.source.begin() != Opened::opened)
        return kLockedMs;
    in_step_ = true;
    refusals_.set_refused_aside(policy_, now);
    refusals_.set_suspects_aside(policy_, now);
    (void) end_step();
    return refusals_.is_empty() ? -1 : 0;
}

// Whether others wait for what the stream has in flight, and are not seen to be acknowledged.
bool
Publisher::is_waited_for() const noexcept
{
    const bool behind = redelivery_.lines().waits_for_stream() || !start_gate_.is_open();
    return reading_.is_crowded() || (behind && !OUTBOX_MUTANT(waiting_is_never_stuck));
}

// What is never acknowledged may not fill the sink's queue, which takes twice the size of what may
// be in flight, nor keep it from sending the rest.
void
Publisher::watch_stuck(Steady now)
{
    const bool too_many = stuck_.afloat() > refusals_.capacity() / 2;
    const bool too_large = stuck_.afloat_bytes() > max_bytes_ && !OUTBOX_MUTANT(afloat_has_no_size);
    // A destination that is slow as a whole, as Kafka until a broker that was killed is no replica
    // any more (9 s by default), gets to its answers; another sink would repeat what it has stored.
    const bool may_hold_up = sink_.has_given_up() || sink_.is_full();
    if (!backing_off() &&
        (too_many || too_large || (may_hold_up && stuck_.holds_up_sink(now, sink_.is_full()))))
        sink_.purge();
    stuck_.watch(now, backing_off(), is_waited_for(), *sink_);
}

// All others wait no longer for what is not acknowledged in time. What is only afloat is not waited
// for.
void
Publisher::watch_routes(Steady now)
{
    routes_.note_awaiting(now, awaits_routes());
    const bool late = routes_.is_late(now);
    if (!awaits_routes() || backing_off())
        return;
    if (late && redelivery_.outstanding() > 0)
        redelivery_.give_up_in_flight();
    if (outstanding() > 0 && (late || outstanding() == stuck_.afloat()))
        sink_.purge();
}

long
Publisher::recover(Steady now)
{
    constexpr long kWatchMs = 100;
    const long last_reports_ms = sink_.last_reports_ms();
    if (sink_.is_left() && !OUTBOX_MUTANT(calls_again))
        return set_refusals_aside(now);
    if (!sink_.is_halted() && sink_.is_there())
    {
        watch_stuck(now);
        watch_routes(now);
    }
    if (!sink_.is_halted())
    {
        const long wait = sink_.attempt(now);
        return progress_.in_flight() > 0 || awaits_routes() ? sooner(wait, kWatchMs) : wait;
    }
    if (const long wait = sink_.drain(now, last_reports_ms); wait > 0)
        return wait;
    if (const long wait = set_refusals_aside(now); wait >= 0)
        return wait;
    const bool unanswered = outstanding() > 0;
    sink_.end_halt(now);
    stuck_.sink();
    resend(unanswered);
    return 0;
}

// What the sink that has died had not acknowledged goes to the next one, in the same order.
void
Publisher::resend(bool unanswered)
{
    const Steady now = world_.clock.steady();
    refusals_.drop_followers();
    passage_.resend(now);
    stuck_.restart_watch(now, unanswered);
    sink_.run();
}

} // namespace outbox
