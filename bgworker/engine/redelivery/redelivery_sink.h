// The sink of redelivery: whatever it meets there, the stream of new events does not notice.
#pragma once

#include "bgworker/engine/common/last_reports.h"
#include "bgworker/engine/report.h"
#include "bgworker/engine/world.h"

#include <memory>

namespace outbox
{

//     closed ── open(): it can be ──▶ open ── fatal, or given up: watch(), give_up() ──▶ dead
//     closed ── open(): it cannot be ──▶ closed, for a second at least
//     open ── nothing to do for half a minute: close_if_idle() ──▶ closed
//     dead ── all is reported, or was waited for: is_over(), then close() ──▶ closed
//
// A refused record kills it on purpose. Nothing is handed over to one that is dead.
class RedeliverySink
{
public:
    RedeliverySink(const World &world, LastReports &last_reports) noexcept
        : destination_(world.destination), source_(world.source), clock_(world.clock),
          last_reports_(last_reports)
    {
    }

    // Opens it when it is closed. Returns whether something can be handed over.
    bool open(int oversized_batches);
    // What is on its way may still arrive. Waits so long for the library's threads.
    void close(int wait_ms) noexcept;
    void close_if_idle(Steady now, bool idle) noexcept;

    bool is_there() const noexcept { return sink_ != nullptr; }
    // Needs is_there().
    Sink *operator->() const noexcept { return sink_.get(); }
    std::size_t outstanding() const noexcept { return sink_ ? sink_->outstanding() : 0; }

    // Whether it has died by now.
    bool watch(Steady now) noexcept;
    // What it has is not waited for.
    void give_up(Steady now) noexcept { dead_since_ = plus_ms(now, -LastReports::kFirstMs); }
    // Whether it is dead, and nothing more is heard of it. True once: it is to be closed.
    bool is_over(Steady now) noexcept;

    // What it meets at the destination, which it tries again by itself.
    void note_trouble(const Failure &why) noexcept
    {
        last_error_ = why;
        last_error_at_ = clock_.time_of_day();
    }

    Steady opened_at() const noexcept { return opened_at_; }
    // The last time that it could not be opened, or sent, if that is the last error.
    void report(EngineReport &report) const noexcept;

private:
    void log_opened() noexcept;
    void log_failure(const Failure &why) noexcept;

    Destination &destination_;
    Source &source_;
    Clock &clock_;
    LastReports &last_reports_;
    std::unique_ptr<Sink> sink_;
    Steady open_at_; // not before
    Steady opened_at_;
    Steady idle_since_;
    Steady dead_since_;   // never: it is not
    Failure unconnected_; // why it could not be opened; class none: it could, or is not needed
    Failure last_error_;  // of these the last one
    Time last_error_at_ = 0;
};

} // namespace outbox
