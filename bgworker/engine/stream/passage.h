// Whether an event of the stream may go, has to wait in memory for a moment, or is set aside.
#pragma once

#include "held.h"
#include "refusals.h"
#include "route_change.h"
#include "start_gate.h"
#include "stream_reports.h"

#include "bgworker/engine/redelivery/rows_at_start.h"

#include <unordered_map>

namespace outbox
{

// An event that was read has a tag, and until that is acknowledged it is
//   queued     in the sink, on its way to its partition;
//   held       in memory: nothing is known of its topic yet, its partition's leader is being found,
//              or the line of its lane ends just now. Later events of it are held behind it;
//   to resend  after a sink has died: in the order of the tags, before anything new;
//   refused    until it is set aside, see Refusals.
// One that is set aside counts as acknowledged. It is afloat if the sink has it all the same, see
// Stuck. All in a step.
class Passage
{
public:
    Passage(const World &world, const FailurePolicy &policy, Progress &progress,
            Redelivery &redelivery, const StartGate &start_gate, RouteChange &routes,
            const Refusals &refusals, StreamSink &sink, const StreamReports &reports) noexcept
        : world_(world), policy_(policy), progress_(progress), lines_(redelivery.lines()),
          aside_(redelivery.setting_aside()), rows_at_start_(redelivery.rows_at_start()),
          start_gate_(start_gate), routes_(routes), refusals_(refusals), sink_(sink),
          reports_(reports)
    {
    }

    enum class HandOver
    {
        done, // handed over, set aside, held, or there is no such row
        held, // still in the line from which it was taken
        full,
        halted
    };

    // Before anything is decided of an event, see RouteChange.
    RouteChange::RowsOfKey look_at_rows(Event &event);
    bool looks_at_rows() const noexcept { return routes_.is_moving(); }
    // What is handed over from now on is so at this time, or some events later.
    void set_time(Steady now) noexcept { now_ = now; }
    // Others have waited for something else before, or have no room.
    void set_hurried(bool hurried) noexcept { hurried_ = hurried; }
    // The line that an event of which nothing is known yet joins at once, for which its record need
    // not be built; 0: that is not known. `rows`: what look_at_rows() said.
    Lane line_of(Event &event, RouteChange::RowsOfKey rows);
    // A new event. `record` is null if it cannot be built, for this reason.
    HandOver hand_over(Event &event, Record *record, const Failure &why, std::uint64_t tag);

    // The sink has given an event of this partition back, unsent, as one before it was refused: it
    // waits until that is set aside, and all that comes after it waits for it. Throws
    // std::bad_alloc.
    void take_back(std::uint64_t tag, Lane partition);

    // All that is not acknowledged is to be handed over again; nothing is held any more.
    void begin_again() noexcept;
    // The same, to another sink; what the one before had is unsent.
    void resend(Steady now) noexcept;
    bool has_to_resend() const noexcept { return resend_next_ != resend_end_; }
    bool has_held() const noexcept { return !held_.is_empty(); }
    bool may_pass_held(Steady now) const noexcept { return held_.is_due(now); }
    // What is held goes out just now. What is read meanwhile would have to be held behind it.
    bool is_passing_held() const noexcept { return held_.is_flowing(); }
    void note_news() noexcept { held_.note_news(); }
    // These return true when there is more to do at once.
    bool resend_some(Steady now);
    bool pass_held(Steady now);

private:
    // An event that is handed over, for the first time or again.
    struct Passing
    {
        Event &event;
        Record *record;     // null: it cannot be built
        const Failure &why; // if so
        std::uint64_t tag;
        Lane from = 0;      // the line in which it was held; 0: none
        Lane partition = 0; // that it was queued for last; 0: it never was, of this topic
        bool moved = false; // it was queued for another topic, by the previous routes
    };

    class Gate;

    HandOver pass(const Passing &passing);
    HandOver pass_built(const Passing &passing);
    HandOver refuse_unbuilt(const Passing &passing);
    bool is_unknown_for_long(Lane topic, Failure &why);
    HandOver hold(const Passing &passing, Lane lane, const Gate &gate, bool for_topic);
    HandOver stop(const Passing &passing, const Gate &gate);
    HandOver set_aside(const Passing &passing, Lane lane);
    HandOver refuse(const Passing &passing, const Failure &why, Lane partition, bool no_leader);
    HandOver hand_over_again(std::uint64_t tag, Lane from);

    const World world_;
    const FailurePolicy &policy_;
    Progress &progress_;
    Lines &lines_;
    SettingAside &aside_;
    const RowsAtStart &rows_at_start_;
    const StartGate &start_gate_;
    RouteChange &routes_;
    const Refusals &refusals_;
    StreamSink &sink_;
    const StreamReports &reports_;
    Held held_;
    std::uint64_t resend_next_ = 0;
    std::uint64_t resend_end_ = 0;
    Steady now_;
    bool hurried_ = false;
    // Topics that events are held for, as long as they are.
    std::unordered_map<Lane, Steady> unknown_since_;
};

} // namespace outbox
