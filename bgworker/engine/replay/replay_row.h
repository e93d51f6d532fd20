// The row of the replay under way, and what of it is still to be written.
#pragma once

#include "replay_flight.h"

#include "bgworker/engine/failure.h"
#include "bgworker/engine/replays.h"

namespace outbox
{

//     written ── settle(), note_error(): there is news ──▶ to be written
//     to be written ── save(): it was written ──▶ written
//     both ── save(): it could not be ──▶ held: tried again, and nothing more goes out
//
// It cannot be written while a person holds the row; or when the replay was cancelled, which
// Replay::look() finds.
class ReplayRow
{
public:
    explicit ReplayRow(Replays &replays) noexcept : replays_(replays) {}

    // Takes the next one, if there is one. The counts of its row are where it continues.
    Replays::Taken take();
    Replays::Found look() { return replays_.look_at(request_); }

    const ReplayRequest &request() const noexcept { return request_; }
    // What of it is on its way.
    ReplayFlight &flight() noexcept { return flight_; }
    const ReplayFlight &flight() const noexcept { return flight_; }

    void note_error(const char *name, const char *text) noexcept;
    void note_refusal(const EventNumbers &numbers, const Failure &failure) noexcept;
    // Counts what has become known.
    void settle() noexcept;
    bool has_news() const noexcept { return unsaved_; }

    // `ended`: the state in which it ends; null: it continues. Returns whether it was written.
    bool save(Steady now, const char *ended);
    bool is_held() const noexcept { return held_; }
    Steady saved_at() const noexcept { return saved_at_; }

private:
    Replays &replays_;
    ReplayRequest request_ = {};
    ReplayFlight flight_;
    bool unsaved_ = false;
    bool held_ = false;
    Steady saved_at_; // or tried to
};

} // namespace outbox
