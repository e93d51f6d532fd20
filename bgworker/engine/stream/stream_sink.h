// The sink of the stream of new events, and what halts that.
#pragma once

#include "library_log.h"
#include "trouble.h"

#include "bgworker/engine/common/last_reports.h"

#include <memory>

namespace outbox
{

//     closed ── open() ──▶ running
//     running ── a failure: halt(), fail() ──▶ halted
//     running, halted ── fatal: watch(), or purge() ──▶ dead
//     halted ── nothing outstanding, the pause is over: drain(), end_halt() ──▶ running
//     dead ── the same, or its reports were waited for: drain(), end_halt() ──▶ closed
//
// Nothing is handed over while it is halted or dead: what it would be given could be given up as
// well, behind which later events would arrive first.
class StreamSink
{
public:
    StreamSink(const World &world, LastReports &last_reports) noexcept
        : destination_(world.destination), source_(world.source), clock_(world.clock),
          last_reports_(last_reports), trouble_(world.clock)
    {
    }

    // Opens it when it is closed.
    void open(int oversized_batches);
    void close() noexcept { sink_.reset(); }

    bool is_there() const noexcept { return sink_ != nullptr; }
    // Needs is_there().
    Sink *operator->() const noexcept { return sink_.get(); }
    Sink &operator*() const noexcept { return *sink_; }
    std::size_t outstanding() const noexcept { return sink_ ? sink_->outstanding() : 0; }
    // Sink::offer(). Needs is_there().
    ProduceResult offer(const Record &record, Offer &offer, Failure &why) noexcept;
    // It has not taken the last event that it was offered.
    bool is_full() const noexcept { return full_; }
    // Needs is_there(): see Sink.
    bool refuses_batches() const noexcept { return sink_->refuses_batches(); }
    // It has given up an event. A producer that has counts its records anew before it sends others.
    void note_given_up() noexcept { given_up_ = true; }
    bool has_given_up() const noexcept { return given_up_; }

    bool is_halted() const noexcept { return halted_; }
    // When it was halted, or has died.
    Steady halted_since() const noexcept { return halted_since_; }
    void halt() noexcept;
    // The same, and it is the destination's fault unless it is a consequence.
    void fail(const Failure &why) noexcept;
    // It gives up all that it has, and ends.
    void purge() noexcept;
    // The destination asks never to be called again: this stays halted for good.
    void leave(const Failure &why) noexcept;
    bool is_left() const noexcept { return left_.cls == FailureClass::gone; }
    const Failure &left() const noexcept { return left_; }
    // Needs is_there(): sees whether it has died, and logs what it said.
    void watch(Steady now) noexcept;

    // How long its last reports are waited for at most.
    long last_reports_ms() const noexcept { return last_reports_.longest_wait_ms(halted_since_); }
    // While it is halted: how long to wait at least for these, or for the next attempt, in ms; 0:
    // no more.
    long drain(Steady now, long last_reports_ms) noexcept;
    // It is closed if it is dead. Events can be handed over from now on, or again.
    void end_halt(Steady now) noexcept;
    void run() noexcept;

    bool is_backing_off() const noexcept { return trouble_.is_failing(); }
    // While it backs off without being halted: asks the destination, when it is time. Returns when
    // to call again, in ms; -1: it does not back off.
    long attempt(Steady now) noexcept;
    // The destination has acknowledged something, which ends the trouble.
    void end_trouble() noexcept;
    Trouble &trouble() noexcept { return trouble_; }
    const Trouble &trouble() const noexcept { return trouble_; }
    LibraryLog &library_log() noexcept { return library_log_; }

private:
    Destination &destination_;
    Source &source_;
    Clock &clock_;
    LastReports &last_reports_;
    std::unique_ptr<Sink> sink_;
    Trouble trouble_;
    LibraryLog library_log_;
    bool halted_ = false;
    bool dead_ = false; // and halted
    Steady halted_since_;
    bool full_ = false;
    bool given_up_ = false;
    Failure left_; // class gone: it is
};

} // namespace outbox
