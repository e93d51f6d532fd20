// How the stream takes up a change of outbox.routes, or of the settings behind them.
#pragma once

#include "bgworker/engine/common/token_bucket.h"
#include "bgworker/engine/redelivery/redelivery.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace outbox
{

#ifdef OUTBOX_MUTANTS
// At once, and of a key: fewer, and it takes many steps also when there are few rows.
inline int most_rows_looked_at = 1024;
#endif

// Events in flight were handed over by the previous routes. If one of them is refused now, it is
// sent again by those, and a later event of its key may be there already. So nothing is handed over
// until all that is in flight has been acknowledged, or set aside. Then what was set aside moves to
// where it now belongs. At a start as well: routes may have changed since, and the process before
// may not have come to that.
//
//     following ── a change ──▶ awaiting ── nothing in flight; load() ──▶ moving ── all rows have
//     been looked at ──▶ gathering ── all lines have their rows ──▶ following
//
// There may be many rows, so they are looked at some at a time, while new events flow. What always
// holds while moving:
//
//   - Nothing of what was set aside goes out. So it can move at any time, and a line that it has
//     left or joined is not overtaken by what was in another one.
//   - Nothing new of a key is handed over before all rows of that key have been looked at, whatever
//     their topics: they are looked at out of their turn, look_at(). Of those that move, and so of
//     the lines that the event may have to join, nothing is unknown then.
//   - All these looks together take a quarter of the time at most. An event of a key that has too
//     many rows, or whose rows take too long to read, joins the line of its key; and so does every
//     one whose key has any, when that quarter is used up.
//   - What is new of a key that may have a line joins that, and nothing else.
//   - A line that gets a row is known at once, with a barrier.
//
// Rows that were written by another key of lanes get the lanes of now: after a restore, which is
// followed like a change, or an update. Until its rows have been looked at the lines of such lanes
// hold nobody up; only rows of an event's own key come before it, and these have.
//
// A row moves to the line of its key. Others of that key may wait in the line of the topic or of a
// partition there, and what is in the key's line counts as earlier than these. So they follow, and
// the rows are gone through again until no row has given its key a line since.
//
// When it was an event that did, the rows of its key are gathered: looked at once more, after all
// others, some at a time. Until this line has them nothing of it goes out, and what is new of the
// key joins it. All else goes out meanwhile: rows of the key that are met in a wider line join the
// key's, as always. One that is on its way from there is waited for: if it is refused, it stays in
// that line, before those behind it. However many such keys there are, only their own lines wait.
class RouteChange
{
public:
    RouteChange(const World &world, Redelivery &redelivery) noexcept
        : source_(world.source), deliveries_(world.deliveries), clock_(world.clock),
          redelivery_(redelivery)
    {
    }

    // A setting that routes fall back to was changed, or rows were by the source.
    void note_setting() noexcept { setting_changed_ = true; }
    bool has_changed() const noexcept { return setting_changed_ || source_.routes_changed(); }

    // At each look, so that it is known since when a change is awaited.
    void note_awaiting(Steady now, bool awaiting) noexcept;
    // Whether the change has been awaited for so long that what is in flight had better be taken
    // back. The destination may have some of it; what it acknowledges in time is not repeated.
    bool is_late(Steady now) const noexcept;

    // In a step, with nothing in flight. False: the table is locked.
    bool load();
    bool is_moving() const noexcept { return moving_; }
    // Whether there is something to look at: moving, or gathering.
    bool has_rows() const noexcept { return moving_ || !gathered_.empty(); }
    // The same, and nothing is waited for.
    bool has_more() const noexcept { return moving_ || (!gathered_.empty() && !waits_); }
    // In a step: looks at some of it.
    void look_at_some();

    enum class RowsOfKey
    {
        seen, // all, or there are none
        read, // just now
        many  // not all of them
    };
    // In a step: all rows of the key are looked at before its next event is handed over. Unless
    // they were seen the source may have read other events since.
    RowsOfKey look_at(std::string_view key);
    // In a step: the line of its key if the event joins that, whatever else it would wait for; 0:
    // it does not. `rows`: what look_at() said.
    Lane line_behind(const Event &event, RowsOfKey rows);

    // Rows that a person held then, and not their events' lines: what is new of these waits.
    bool has_left(Steady now) const noexcept;
    // In a step: moves some, if they can be. Returns true when no such row is left.
    bool move_left();
    // The step has ended; or was rolled back: all is done again. Returns whether it has moved any.
    bool committed() noexcept { return std::exchange(moved_, false); }
    void rolled_back() noexcept
    {
        setting_changed_ = std::exchange(moved_, false) || setting_changed_;
    }

private:
    // A line that is to have all rows of its key.
    struct Gathered
    {
        EventNumbers event; // the one that made the line
        std::int64_t up_to = kLowestSeq;
    };

    void look_at_all(Steady begun);
    // Looks until the time is over. Returns how many of these it has looked at.
    std::size_t look_at(const std::vector<MovedRow> &rows, Steady begun);
    RowsOfKey look_at_key(std::string_view key, int most, Steady begun);
    void gather(Lane lane, const EventNumbers &event);
    void gather_some(Steady begun);
    enum class Gathering
    {
        done,
        more,
        waits // for a row that is under way
    };
    Gathering gather_rows(Lane lane, Gathered &gathered, Steady begun);
    void gather(const MovedRow &row, Lane lane);
    void end_gathering() noexcept;
    // These return whether a key has got a line, or a row in the line of a partition.
    bool move(const MovedRow &row);
    bool add_line(Lane lane);
    // Gives the row the value of now for its lane, if it has another one. False: a person holds it.
    bool rename(const MovedRow &row, const Event &event, Lane key, Lane &lane, bool &line);
    bool move_to_lane(const MovedRow &row, Lane lane);
    bool follow(const LeftRows::Row &row);

    Source &source_;
    Deliveries &deliveries_;
    Clock &clock_;
    Redelivery &redelivery_;
    bool setting_changed_ = true; // or nothing was loaded yet
    Steady awaiting_since_;       // never: it is not
    bool moving_ = false;
    bool moved_ = false; // in the step under way
    // While moving:
    std::int64_t up_to_ = kLowestSeq;          // all rows until there were looked at
    bool again_ = false;                       // others have to follow one of them
    std::unordered_set<Lane> lines_;           // what may be the line of a key
    std::unordered_map<Lane, RowsOfKey> keys_; // by hash: those that were asked for
    TokenBucket looks_;                        // us that looks out of turn may take
    std::unordered_map<Lane, Gathered> gathered_;
    std::vector<std::int64_t> under_way_; // when some are gathered
    bool waits_ = false;
    Steady left_looked_at_;
};

} // namespace outbox
