// How the stream takes up a change of outbox.routes, or of the settings behind them.
#pragma once

#include "bgworker/engine/redelivery/redelivery.h"

#include <unordered_set>
#include <utility>
#include <vector>

namespace outbox
{

// Events in flight were handed over by the previous routes. If one of them is refused now, it is
// sent again by those, and a later event of its key may be there already. So nothing is handed over
// until all that is in flight has been acknowledged, or set aside; then what was set aside moves to
// where it now belongs, before anything newer goes out.
//
// Rows that were written by another key of lanes get the lanes of now: after a restore, which is
// followed like a change, or an update.
//
// It moves to the line of its key. Others of that key may wait in the line of the topic or of a
// partition there, and what is in the key's line counts as earlier than these. So they follow, and
// the rows are gone through again until no key has got a line since. At a start as well: the
// process before may not have come to that.
//
//     following ── a change ──▶ awaiting ── nothing in flight; load() ──▶ moving ── all is moved
//     ──▶ following
class RouteChange
{
public:
    explicit RouteChange(const World &world) noexcept
        : source_(world.source), deliveries_(world.deliveries)
    {
    }

    // A setting that routes fall back to was changed.
    void note_setting() noexcept { setting_changed_ = true; }
    bool has_changed() const noexcept { return setting_changed_ || source_.routes_changed(); }

    // Whether the change has been awaited for so long that what is in flight had better be taken
    // back. The destination may have some of it; what it acknowledges in time is not repeated.
    bool is_late(Steady now, bool awaiting) noexcept;

    // In a step, with nothing in flight. False: the table is locked.
    bool load(Redelivery &redelivery);
    bool is_moving() const noexcept { return moving_; }
    // In a step: moves some of what was set aside.
    void move_some(Redelivery &redelivery);
    // Rows that a person held then, and not their events' lines: what is new of these waits.
    bool has_left(const Redelivery &redelivery, Steady now) const noexcept;
    // In a step. Returns whether some could be moved.
    bool move_left(Redelivery &redelivery, Steady now);
    // The step has ended; or was rolled back: all is done again. Returns whether it has moved any.
    bool committed() noexcept { return std::exchange(moved_, false); }
    void rolled_back() noexcept
    {
        setting_changed_ = std::exchange(moved_, false) || setting_changed_;
    }

private:
    void move(Redelivery &redelivery, const MovedRow &row);
    // Gives the row the value of now for its lane, if it has another one. False: a person holds it.
    bool rename(const MovedRow &row, const Event &event, Lane key, Lane &lane);

    Source &source_;
    Deliveries &deliveries_;
    bool setting_changed_ = true; // or nothing was loaded yet
    Steady awaiting_since_;       // never: it is not
    bool moving_ = false;
    bool moved_ = false; // in the step under way
    std::int64_t moved_up_to_ = 0;
    std::unordered_set<Lane> lines_; // while moving: what may be the line of a key
    bool more_lines_ = false;        // than when the first row was looked at
    Steady left_looked_at_;
};

} // namespace outbox
