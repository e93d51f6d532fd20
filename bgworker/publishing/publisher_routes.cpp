// How the publisher takes up a change of outbox.routes, or of the settings behind them.
//
// Events in flight were handed over by the routes before. If one of them is refused now, it is sent
// again by the routes of then, and a later event of its key may be there already. So nothing is
// handed over until all that is in flight has been acknowledged, or set aside; then what was set
// aside moves to where it now belongs, before anything newer goes out.

#include "publisher.h"

#include "bgworker/relation_lock.h"

namespace outbox
{

bool
Publisher::awaits_routes() const noexcept
{
    return (reload_routes_ || routes_changed()) && outstanding() > 0;
}

bool
Publisher::has_routes() const noexcept
{
    return is_routing_known();
}

// Told once for each reason: the table is only read again when it changes.
void
Publisher::note_routes(RoutesLoaded loaded, const Verdict &verdict)
{
    if (loaded != RoutesLoaded::broken)
    {
        routes_problem_[0] = '\0';
        return;
    }
    snprintf(routes_problem_, sizeof(routes_problem_), "outbox.routes: %s%s%s", verdict.reason,
             verdict.hint[0] != '\0' ? "; " : "", verdict.hint);
    ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                      errmsg("outbox relay: outbox.routes is not usable: %s", verdict.reason),
                      has_routes() ? errdetail("The routes of before are used.")
                                   : errdetail("Nothing is published."),
                      verdict.hint[0] != '\0' ? errhint("%s", verdict.hint) : 0));
}

// In a transaction. Returns idle when events may be handed over by the routes of now.
StepResult
Publisher::follow_routes()
{
    if (reload_routes_ || routes_changed())
    {
        if (outstanding() > 0)
            return StepResult::full;
        // What was refused was so by the topics of before.
        park_refused_tags();
        redelivery_.lose_in_flight(&tables_, policy_);
        Verdict verdict;
        const RoutesLoaded loaded = load_routing(&verdict);
        if (loaded == RoutesLoaded::locked)
        {
            note_in_the_way("routes");
            return StepResult::locked;
        }
        note_routes(loaded, verdict);
        reload_routes_ = false;
        moved_up_to_ = PG_INT64_MIN;
    }
    if (!has_routes())
        return StepResult::full;
    if (moved_up_to_ == PG_INT64_MAX)
        return StepResult::idle;
    routes_moved_ = true;
    moved_up_to_ = move_set_aside(&tables_, moved_up_to_);
    redelivery_.forget_in_flight(); // nothing is; the lines are read again
    return moved_up_to_ == PG_INT64_MAX ? StepResult::idle : StepResult::busy;
}

} // namespace outbox
