// What the engine asks of the table outbox.deliveries: the events that were set aside, one row
// each, by seq. No decisions. All of it in a step; see source.h for how calls fail.
//
// A row is
//   WAITING    behind other ones of its lane;
//   RETRYING   refused; tried again at its time. Its lane waits if it is blocking;
//   FAILED     refused too often; a person retries or discards it. Its lane waits if it is
//              blocking;
//   DISCARDED  given up by a person, and blocks nothing.
// Persons change rows too: retry makes FAILED rows RETRYING, at once, discard makes any row
// DISCARDED and not blocking; each also reports a change, see Engine::deliveries_changed(). A
// person may hold a row in an open transaction. The engine waits for none of these: calls say so,
// or leave the row as it is. What writes throws NotWritten.
#pragma once

#include "event.h"
#include "failure.h"

#include "bgworker/engine/common/lanes.h"

#include <cstddef>
#include <string>
#include <vector>

namespace outbox
{

struct DeliveryRow
{
    EventNumbers numbers;
    Lane lane = 0;
    bool waiting = false;
    int attempts = 0;
    bool blocking = false; // what is behind it in its lane waits
};

struct MovedRow
{
    EventNumbers numbers;
    std::string topic;
    Lane lane = 0;
    bool in_line = false; // WAITING, or RETRYING and blocking
};

// What is to be said in a row of an event that was refused.
struct RefusalNote
{
    const Failure &failure;
    bool blocking;        // later events of the lane wait
    Time next_attempt_at; // by the time of day
    int max_attempts;     // 0: it is retried for ever
};

// What became of that.
enum class Written
{
    kept, // the row is as it was: a person holds it, or has discarded it
    retrying,
    failed
};

class Deliveries
{
public:
    virtual ~Deliveries() = default;

    // Sets an event aside that waits in this lane. Nothing happens when it is there already: it was
    // read again after a crash or a refusal. Throws NotWritten as well when another event with its
    // number is there; the same below.
    virtual void add_waiting(const Event &event, Lane lane) = 0;
    // Sets an event aside that was refused, in this lane, or notes another refusal of one that was
    // set aside: RETRYING, or FAILED after max_attempts. A row that a person holds or has discarded
    // stays as it is.
    virtual Written add_refused(const Event &event, Lane lane, const RefusalNote &note) = 0;

    // Up to `count` RETRYING rows whose time has come by `now`, by their time, that no person
    // holds; none of `left_out`, and of those that block none of these lanes, nor one behind
    // another, RETRYING or FAILED, that blocks the same lane.
    virtual void due(Time now, const std::vector<std::int64_t> &left_out,
                     const std::vector<Lane> &lanes_left_out, int count,
                     std::vector<DeliveryRow> &rows) = 0;
    // The earliest time of those, less the same; 0: there are none.
    virtual Time next_due_at(const std::vector<std::int64_t> &left_out,
                             const std::vector<Lane> &lanes_left_out) = 0;
    // The first row of the lane before this seq that is WAITING, or RETRYING and blocking; none of
    // `left_out`.
    virtual bool first_before(Lane lane, std::int64_t seq,
                              const std::vector<std::int64_t> &left_out, DeliveryRow &row) = 0;
    // Up to `count` WAITING rows of a lane behind `after`, by seq; none of `left_out`.
    virtual void waiting_of(Lane lane, std::int64_t after,
                            const std::vector<std::int64_t> &left_out, int count,
                            std::vector<DeliveryRow> &rows) = 0;
    // Makes RETRYING and blocking rows of this topic due now whose lane is not that of their key: a
    // thousand at most.
    virtual void make_heads_due(std::string_view topic, Time now) = 0;

    // The highest seq of all rows; the lowest number when there is none.
    virtual std::int64_t last_seq() = 0;
    // Whether an event has a row, in whatever state.
    virtual bool has_row(const Event &event) = 0;
    // Whether a row behind `seq` waits in the lane, or blocks it.
    virtual bool has_behind(Lane lane, std::int64_t seq) = 0;

    // The lanes with a RETRYING or FAILED row that is blocking; and whether this is one.
    virtual void blocked_lanes(std::vector<Lane> &lanes) = 0;
    virtual bool is_lane_blocked(Lane lane) = 0;
    // The lanes with WAITING rows.
    virtual void waiting_lanes(std::vector<Lane> &lanes) = 0;

    // Moves a WAITING or RETRYING row to another lane, where it is WAITING. False: a person holds
    // it.
    virtual bool move_to_lane(std::int64_t seq, Lane lane) = 0;
    // Gives a row that is not DISCARDED another value for its lane; all else stays. False: a person
    // holds it.
    virtual bool rename_lane(std::int64_t seq, Lane lane) = 0;
    // Up to `count` rows behind `after`, by seq, that are not DISCARDED.
    virtual void rows_behind(std::int64_t after, int count, std::vector<MovedRow> &rows) = 0;
    // The same of this key, whatever their topics, and of others by chance.
    virtual void rows_of_key(std::string_view key, std::int64_t after, int count,
                             std::vector<MovedRow> &rows) = 0;
    // Gives a row another topic, in this lane. RETRYING and blocking, it becomes WAITING; RETRYING
    // and not blocking it is due at once. FAILED stays FAILED; of others attempts begin anew.
    // False: a person holds it.
    virtual bool move_to_topic(std::int64_t seq, std::string_view topic, Lane lane) = 0;
    // Removes the rows of events that were published. Those that a person holds stay, and stay in
    // `seqs`; those that one has DISCARDED stay, with who and why. Returns how many were removed:
    // none while the position is locked, which counts them.
    virtual std::size_t remove_delivered(std::vector<std::int64_t> &seqs) = 0;
    // The same step adds so many to published_total.
    virtual void count_published(std::size_t count) = 0;

    // Whether a person has paused the relay.
    virtual bool is_paused() = 0;
};

} // namespace outbox
