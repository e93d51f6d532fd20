#include "publisher.h"

#include "bgworker/engine/common/sooner.h"
#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <utility>

namespace outbox
{

Publisher::Publisher(const World &world, std::size_t max_events, std::size_t max_bytes)
    : world_(world), max_bytes_(max_bytes), progress_(max_events),
      redelivery_(world, progress_, last_reports_), sink_(world, last_reports_),
      refusals_(world, progress_, redelivery_.lines(), redelivery_.setting_aside(), max_events),
      stuck_(world, progress_, redelivery_), reports_(world, progress_, sink_, refusals_, stuck_),
      routes_(world, redelivery_), passage_(world, policy_, progress_, redelivery_, start_gate_,
                                            routes_, refusals_, sink_, reports_),
      reading_(world, progress_, redelivery_, sink_, passage_, max_bytes),
      saving_(world.source, world.clock)
{
}

void
Publisher::start(const StoredPosition &stored, const StoredBacklog &backlog)
{
    reading_.start(stored, backlog);
    redelivery_.rows_at_start().begin(stored.position.from);
    saving_.start(stored, reading_.has_window());
}

void
Publisher::configure(const FailurePolicy &policy) noexcept
{
    policy_ = policy;
    sink_.trouble().configure(policy);
}

void
Publisher::connect()
{
    if (sink_.is_there())
        return;
    sink_.open(oversized_batches());
    if (sink_.is_there() && !sink_.refuses_batches())
        refusals_.expect_reasons();
}

void
Publisher::close(int wait_ms) noexcept
{
    redelivery_.close_sink(wait_ms);
    sink_.close();
}

// A window ends at its transaction's snapshot. The mark is read before that is taken: then every
// event is either in the window or counted after the mark; some may be both, none neither.
StepResult
Publisher::publish(bool look)
{
    const Moment now = world_.clock.now();
    // What could not be set aside may wait for what redelivery has to note: that comes first.
    const bool notes_first =
        std::exchange(failed_, false) && redelivery_.has_work(progress_.first_tag(), now);
    const bool may_go = !sink_.is_halted() && !awaits_routes() && !notes_first;
    const bool read = may_go && !passage_.has_to_resend() && reading_.may_read(look);
    if (!read && !(may_go && has_chores(now.steady)) && !routes_.has_more() &&
        !redelivery_.has_work(progress_.first_tag(), now))
        return reading_.has_window() || look || !may_go ? StepResult::full : StepResult::idle;

    const std::uint64_t mark = world_.source.emitted();
    const Opened opened = world_.source.begin();
    if (opened != Opened::opened)
        return opened == Opened::locked ? StepResult::locked : StepResult::gone;
    in_step_ = true;
    const StepResult result = step(mark, look, may_go, read, now);
    const bool set_aside = end_step();
    if (world_.source.must_end())
        return StepResult::idle;
    // What was set aside has made room.
    return result == StepResult::full && (set_aside || notes_first) ? StepResult::busy : result;
}

// Returns whether events were set aside.
bool
Publisher::end_step()
{
    world_.source.end();
    in_step_ = false;
    const bool set_aside = progress_.settle_aside();
    const bool noted = redelivery_.committed();
    const bool moved = routes_.committed();
    if (moved && !routes_.is_moving())
        redelivery_.rows_at_start().know();
    stuck_.committed();
    refusals_.committed();
    writes_ += set_aside || noted || moved ? 1 : 0;
    return set_aside;
}

void
Publisher::rolled_back()
{
    in_step_ = false;
    failed_ = true;
    progress_.drop_aside();
    stuck_.rolled_back();
    refusals_.rolled_back();
    refusals_.drop_followers();
    routes_.rolled_back();
    redelivery_.rolled_back();
    passage_.begin_again();
}

void
Publisher::note_last()
{
    if (in_step_)
        rolled_back(); // by the error that ends the relay
    if (!redelivery_.has_results() || OUTBOX_MUTANT(forgets_last_results) ||
        world_.source.begin() != Opened::opened)
        return;
    in_step_ = true;
    const Steady now = world_.clock.steady();
    (void) redelivery_.write_results(policy_, now); // the rest is tried again
    (void) end_step();
}

StepResult
Publisher::step(std::uint64_t mark, bool look, bool may_go, bool read, const Moment &now)
{
    const StepResult routed = follow_routes(now.steady);
    if (routed != StepResult::idle)
        return routed;
    const bool moving = routes_.is_moving();
    // While nothing gets through, a try says nothing of what is tried.
    const bool may_redeliver =
        start_gate_.is_open() && !awaits_routes() && !moving && !backing_off() && !sink_.is_left();
    // What has followed just now goes out in a slice of its own.
    const Moment begun = redelivery_.has_left() ? world_.clock.now() : now;
    bool more = redelivery_.step(policy_, progress_.first_tag(), may_redeliver, begun);
    more = (may_go && do_chores(now.steady)) || more;
    const bool after_held =
        passage_.is_passing_held() && !paused() && !OUTBOX_MUTANT(reads_past_held);
    const StepResult result = read && !sink_.is_halted() && !passage_.has_to_resend() && !after_held
                                  ? reading_.read(mark, look, paused())
                                  : StepResult::full;
    if (!moving &&
        start_gate_.watch(reading_.was_all_read(), progress_.next_tag(), progress_.first_tag()))
    {
        redelivery_.rows_at_start().end();
        redelivery_.reload();
    }
    return more || routes_.has_more() ? StepResult::busy : result;
}

// In a step. Returns idle when events may be handed over by the routes of now.
StepResult
Publisher::follow_routes(Steady now)
{
    if (routes_.has_changed())
    {
        if (all_outstanding() > 0)
            return StepResult::full;
        // What was refused was so by the previous topics. A step of its own writes it: written
        // again after one that had loaded the routes and was rolled back, it would get the new
        // topics, in the lines of the old ones.
        const bool any = !refusals_.is_empty() || redelivery_.has_refused();
        refusals_.set_refused_aside(policy_, now);
        refusals_.set_suspects_aside(policy_, now);
        if (!refusals_.is_all_done() || !redelivery_.write_results(policy_, now) ||
            (any && !OUTBOX_MUTANT(loads_with_results)))
            return StepResult::busy;
        if (!routes_.load())
            return StepResult::locked;
        // What is held goes to where it belongs now; after a failure recover() sees to it.
        if (!sink_.is_halted())
            resend(routes_.is_late(now) && !OUTBOX_MUTANT(waits_after_late_routes));
    }
    if (!world_.source.has_routes())
        return StepResult::full;
    if (routes_.has_left(now) && routes_.move_left())
        redelivery_.reload_lines();
    if (!routes_.has_rows())
        return StepResult::idle;
    const bool moving = routes_.is_moving();
    routes_.look_at_some();
    if (moving && !routes_.is_moving())
        redelivery_.reload(); // which lanes are blocked: their heads may have moved
    return routes_.is_moving() && OUTBOX_MUTANT(waits_for_rows) ? StepResult::busy
                                                                : StepResult::idle;
}

bool
Publisher::has_chores(Steady now) const noexcept
{
    return sink_.is_there() &&
           (passage_.has_to_resend() || refusals_.has_refused() || refusals_.has_followers() ||
            stuck_.has_work() || passage_.may_pass_held(now));
}

// What was handed over before. Returns true when there is more to do at once.
bool
Publisher::do_chores(Steady now)
{
    if (!sink_.is_there())
        return false;
    passage_.set_time(now);
    passage_.set_hurried(reading_.is_crowded() || stuck_.is_hurried(now));
    refusals_.take_followers([this](std::uint64_t tag, Lane partition)
                             { passage_.take_back(tag, partition); });
    refusals_.set_refused_aside(policy_, now);
    bool more = refusals_.has_refused();
    more = (stuck_.has_work() && stuck_.set_some_aside(now, policy_)) || more;
    if (passage_.has_to_resend() && !paused())
        more = (!refusals_.has_refused() && passage_.resend_some(now)) || more;
    else if (passage_.may_pass_held(now) && (!paused() || OUTBOX_MUTANT(passes_held_paused)))
        more = passage_.pass_held(now) || more;
    return more;
}

Saving::Reached
Publisher::reached() const noexcept
{
    const std::uint64_t redelivered = stuck_.landed() + redelivery_.reports().published();
    return {progress_.acknowledged_prefix(), redelivered,
            static_cast<std::int64_t>(progress_.published_prefix() + redelivery_.counted()),
            caught_up()};
}

bool
Publisher::idle() const noexcept
{
    return caught_up() && outstanding() == 0 && redelivery_.in_flight() == 0 &&
           stuck_.afloat() == 0;
}

Moment
Publisher::last_published() const noexcept
{
    const Moment redelivered = redelivery_.reports().last_published();
    const Moment published = reports_.published_at();
    return redelivered.steady > published.steady ? redelivered : published;
}

// A single event that was too large after all makes no batch of its topic too large.
int
Publisher::oversized_batches() const noexcept
{
    const OversizedBatches &redelivered = redelivery_.reports().oversized();
    const auto events = static_cast<std::int64_t>(redelivered.events());
    return static_cast<int>(
        std::max<std::int64_t>({redelivered.batches(), 0, refusals_.oversized_batches() - events}));
}

EngineReport
Publisher::report() const noexcept
{
    EngineReport report;
    report.oldest_event_at =
        progress_.behind_prefix() > 0 ? progress_.oldest_created_at() : reading_.oldest_waiting();
    report.in_flight_events = progress_.in_flight();
    report.in_flight_bytes = progress_.in_flight_bytes();
    report.published = reached().published;
    report.last_published_at = last_published().time;
    sink_.trouble().report(report);
    redelivery_.report(report);
    return report;
}

long
Publisher::redeliver_within_ms(const Moment &now) const noexcept
{
    // Nothing is done before there are routes to go by.
    return awaits_routes() || !world_.source.has_routes()
               ? -1
               : redelivery_.wait_ms(progress_.first_tag(), now);
}

long
Publisher::serve_within_ms() const noexcept
{
    constexpr long kHeldMs = 20;
    const long wait = sink_.is_there() ? sink_->serve_within_ms() : -1;
    return passage_.has_held() && !sink_.is_halted() ? sooner(wait, kHeldMs) : wait;
}

} // namespace outbox
