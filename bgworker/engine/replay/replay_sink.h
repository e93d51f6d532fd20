// The sink of a replay, and what becomes of the records that it has.
#pragma once

#include "replay_list.h"
#include "replay_row.h"

#include "bgworker/engine/common/backoff.h"
#include "bgworker/engine/world.h"

#include <memory>

namespace outbox
{

//     closed ── open(): it can be ──▶ open
//     closed ── open(): it cannot be ──▶ closed, until next_attempt_at()
//     open ── a record was refused by a broker, or could not be queued; the sink died ──▶ halted
//     halted ── recover(): all that it has is reported, or was waited for ──▶ closed
//
// While it is halted nothing is handed over. The methods of SinkListener ask no database.
class ReplaySink final : public SinkListener
{
public:
    ReplaySink(const World &world, ReplayRow &row, const ReplayList &list) noexcept
        : destination_(world.destination), clock_(world.clock), row_(row), list_(list)
    {
    }

    // For another replay. Needs that it is closed.
    void begin(const FailurePolicy &policy) noexcept;

    // Opens it when it is closed. Returns whether something can be handed over.
    bool open();
    // Hears what has become of records.
    void hear() noexcept;
    // Waits so long for the library's threads; those that do not end in time do by themselves.
    void close(int wait_ms) noexcept;
    // Nothing is heard of what is on its way; it may arrive all the same.
    void abandon() noexcept;

    bool is_there() const noexcept { return sink_ != nullptr; }
    // Needs is_there().
    Sink *operator->() const noexcept { return sink_.get(); }
    bool is_waiting() const noexcept { return sink_ && sink_->outstanding() > 0; }

    // The record could not be queued, and it is not the event's fault.
    void note_not_queued(const Failure &why) noexcept;
    // The event at this place was refused, for this reason.
    void note_refusal(std::int64_t place, const Failure &failure) noexcept;

    // Class gone: the destination asks never to be called again.
    const Failure &left() const noexcept { return left_; }

    bool is_halted() const noexcept { return halted_; }
    // Once what it had is known, that is taken back, and it is closed. Needs is_halted(). Returns
    // when to ask again, in ms; 0: it has ended.
    long recover(Steady now) noexcept;

    Steady next_attempt_at() const noexcept { return next_attempt_at_; }
    // When an event of this replay was acknowledged last.
    Steady published_at() const noexcept { return published_at_; }

    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const Failure &failure) noexcept override;
    void trouble(const Failure &failure) noexcept override;
    void log(int level, const char *facility, const char *text) noexcept override;

private:
    void halt() noexcept;
    void note_failure(const Failure &failure) noexcept;

    Destination &destination_;
    Clock &clock_;
    ReplayRow &row_;
    const ReplayList &list_;
    std::unique_ptr<Sink> sink_;
    int oversized_batches_ = 0; // the next sink makes smaller ones
    bool batch_too_large_ = false;
    bool halted_ = false;
    Steady halted_since_;
    Backoff backoff_;
    Steady next_attempt_at_;
    Steady published_at_;
    Failure left_;
};

} // namespace outbox
