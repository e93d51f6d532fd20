// How an event comes into outbox.deliveries, and into which line.
#pragma once

#include "lines.h"
#include "rows_at_start.h"
#include "told.h"

#include "bgworker/engine/world.h"

namespace outbox
{

// For the stream and for redelivery; all in a step. One that is refused becomes the head of a line,
// which it blocks, unless it comes from the stream and has to wait itself; others join a line.
class SettingAside
{
public:
    SettingAside(const World &world, Lines &lines, RowsAtStart &rows_at_start,
                 Agenda &agenda) noexcept
        : source_(world.source), destination_(world.destination), deliveries_(world.deliveries),
          clock_(world.clock), tally_(world.tally), lines_(lines), rows_at_start_(rows_at_start),
          agenda_(agenda)
    {
    }

    struct Refusal
    {
        const Failure &failure;
        Lane lane = 0; // of the partition that is refused; 0: what the failure's class says
        bool from_stream = true;
        int attempts_before = 0;
        Lane row_lane = 0; // that it was sent from, if it was set aside before
        // It has a place in its line; one that nothing waited for has lost it for good.
        bool placed = true;
        // Of the stream: its partition's lane, if known, and its tag.
        Lane partition = 0;
        std::uint64_t tag = 0;
    };
    // Sets a refused event aside. False: a person holds the row, or has discarded it, and it stays
    // as it was.
    bool refuse(const Event &event, const Refusal &refusal, const FailurePolicy &policy);
    // Sets an event of the stream aside that has to wait in this lane.
    void set_aside_waiting(const Event &event, Lane lane);
    // Sets one aside that was refused together with others of its partition, see Lines::isolate().
    void set_aside_suspect(const Event &event, Lane partition, std::uint64_t tag);
    // Sets one aside that is afloat. Returns the lane that it is in.
    Lane set_aside_stuck(const Event &event, const Failure &failure, Lane partition,
                         std::uint64_t tag, const FailurePolicy &policy);

private:
    Lane line_blocked_by(const Event &event, const Refusal &refusal) const noexcept;
    bool is_unplaced(const Refusal &refusal) const noexcept;
    Lane line_to_join(const Event &event, const Refusal &refusal) const noexcept;
    Time next_attempt_after(int attempts, const FailurePolicy &policy);
    bool is_new_to_log(const Event &event, const Refusal &refusal, const FailurePolicy &policy);
    void log_refusal(const Event &event, const Failure &failure, bool given_up, bool blocking);
    void log_more(bool given_up) noexcept;

    Source &source_;
    const Destination &destination_;
    Deliveries &deliveries_;
    Clock &clock_;
    Tally &tally_;
    Lines &lines_;
    RowsAtStart &rows_at_start_;
    Agenda &agenda_;
    Told told_;
    NamedAnHour topics_named_;
    NamedAnHour events_named_; // that have failed
};

} // namespace outbox
