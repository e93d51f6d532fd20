// One relay's work: windows of committed events go to a sink, acknowledgements become the position.
#pragma once

#include "reading.h"
#include "saving.h"

namespace outbox
{

// The stream of new events: what commits goes to the sink in order, as far as there is room.
//
//     running ── a failure, or the sink's end ──▶ halted
//     halted ── nothing outstanding, the pause is over, refusals are set aside: recover() ──▶
//     resending ── all that was in flight is handed over again ──▶ running
//
// Its parts are classes of their own: what is read (Reading), whether it may go (Passage), the sink
// and what that reports (StreamSink, StreamReports), what was refused (Refusals), is not
// acknowledged (Stuck), or was set aside (Redelivery), and how far all is (Progress, Saving).
class Publisher
{
public:
    // Throws std::bad_alloc.
    Publisher(const World &world, std::size_t max_events, std::size_t max_bytes);

    // Continues from the position. Throws std::bad_alloc.
    void start(const StoredPosition &stored, const StoredBacklog &backlog);
    void configure(const FailurePolicy &policy) noexcept;

    // Opens a sink when there is none.
    void connect();
    bool is_connected() const noexcept { return sink_.is_there(); }
    // Closes the stream's sink, and redelivery's, for whose threads it waits so long.
    void close(int wait_ms) noexcept;

    // Hands the next events over, in one short transaction. Opens a new window when the one before
    // is through and `look` is set.
    StepResult publish(bool look);
    // There is nothing more to hand over for the moment.
    void send_now() noexcept
    {
        if (sink_.is_there())
            sink_->send_now();
    }

    // Hears what the sinks have to say. Returns true when there was something.
    bool serve();
    // What is to be done between rounds, and after a failure. Returns how long to wait at most
    // before the next call, in ms; -1: there is no limit.
    long recover(Steady now);

    // After NotWritten of publish() or recover(), when that is rolled back: nothing that the step
    // has set aside is, and it is handed over again. What is on its way stays so.
    void rolled_back();
    // How many steps have set events aside, or noted what became of such.
    std::uint64_t writes() const noexcept { return writes_; }

    // outbox.deliveries or outbox.pauses was changed by a person.
    void reload_deliveries() noexcept { redelivery_.reload(); }
    // A setting that routes fall back to was changed.
    void reload_routes() noexcept { routes_.note_setting(); }

    // See Saving.
    SaveResult save_if_due(bool at_once, long *wait_ms)
    {
        return saving_.save_if_due(progress_, reached(), at_once, wait_ms);
    }
    // The end: notes what has become of events that were set aside. What cannot be noted goes out
    // again.
    void note_last();
    bool has_unsaved() const noexcept { return saving_.is_behind(reached()); }
    std::uint64_t unsaved() const noexcept { return saving_.unsaved(reached()); }
    void tick_if_due() { saving_.tick_if_due(progress_); }

    // How often a batch of several events was too large for its topic; the next sink should make
    // smaller ones.
    int oversized_batches() const noexcept;

    // See Backlog.
    bool backlog_known() const noexcept { return reading_.backlog().is_known(); }
    bool backlog_counted() const noexcept { return reading_.backlog().is_counted(); }
    std::uint64_t backlog_base() const noexcept { return reading_.backlog_base(); }

    bool paused() const noexcept { return redelivery_.paused(); }
    bool backing_off() const noexcept { return sink_.is_backing_off(); }
    // Null, or why the destination asks never to be called again: nothing goes out any more.
    const Failure *gone() const noexcept { return sink_.is_left() ? &sink_.left() : nullptr; }
    void leave(const Failure &why) noexcept { sink_.leave(why); }
    // Nothing read is unpublished, and nothing is in flight.
    bool caught_up() const noexcept
    {
        return !reading_.has_window() && progress_.behind_prefix() == 0;
    }
    // The same, and no refused or waiting event is on its way either.
    bool idle() const noexcept;
    std::size_t outstanding() const noexcept { return sink_.outstanding(); }
    // Redelivery's included.
    std::size_t all_outstanding() const noexcept
    {
        return outstanding() + redelivery_.outstanding();
    }
    Moment last_published() const noexcept;
    EngineReport report() const noexcept;

    // How long the caller may wait before the next round, in ms; -1: there is no limit.
    long redeliver_within_ms(const Moment &now) const noexcept;
    long serve_within_ms() const noexcept;

private:
    // A step.
    StepResult step(std::uint64_t mark, bool look, bool may_go, bool read, const Moment &now);
    StepResult follow_routes(Steady now);
    bool has_chores(Steady now) const noexcept;
    bool do_chores(Steady now);
    bool end_step();
    bool awaits_routes() const noexcept { return routes_.has_changed() && all_outstanding() > 0; }

    // Between steps, and after a failure.
    void watch_stuck(Steady now);
    bool is_waited_for() const noexcept;
    void watch_routes(Steady now);
    long set_refusals_aside(Steady now);
    void resend(bool unanswered);
    Saving::Reached reached() const noexcept;

    const World world_;
    const std::size_t max_bytes_;
    FailurePolicy policy_;
    Progress progress_;
    LastReports last_reports_;
    Redelivery redelivery_;
    StreamSink sink_;
    Refusals refusals_;
    Stuck stuck_;
    StreamReports reports_;
    StartGate start_gate_;
    RouteChange routes_;
    Passage passage_;
    Reading reading_;
    Saving saving_;
    std::uint64_t writes_ = 0;
    bool in_step_ = false;
    bool failed_ = false; // the step before was rolled back
};

} // namespace outbox
