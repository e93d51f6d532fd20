// The table outbox.deliveries: statements, no decisions.
#pragma once

#include "bgworker/core/lanes.h"
#include "bgworker/kafka/failure.h"

#include "extension/pg.h"

extern "C"
{
#include "utils/array.h"
}

#include <vector>

namespace outbox
{

// All of these need a transaction with an active snapshot and raise PostgreSQL's errors.

// An event that is set aside. The texts are only looked at during the call.
struct ParkedEvent
{
    int64 seq;
    int64 xid;
    int slot;
    const pg_uuid_t *event_id;
    Lane lane;
    std::string_view topic;
    std::string_view key;
};

// Sets an event aside that waits behind another one of its lane. Nothing happens when it is there
// already: it was read again after a crash or a refusal.
void park_waiting(const ParkedEvent &event);

// Sets an event aside that Kafka refused, or notes another refusal of one that was set aside. After
// max_attempts it has FAILED; 0: it is retried for ever. Later events of the lane wait if blocking.
// Returns whether it has FAILED. A row that somebody holds in an open transaction stays as it is.
bool park_refused(const ParkedEvent &event, const kafka::Failure &failure, bool blocking,
                  TimestampTz next_attempt_at, int max_attempts);

// A row to be sent, in the current memory context.
struct DeliveryRow
{
    int64 seq;
    int64 xid;
    int slot;
    Lane lane;
    bool waiting;
    int attempts;
};

// The next event to be tried again that is due, if there is one whose row nobody holds.
bool next_due(TimestampTz now, DeliveryRow *row);

// When the next event is to be tried again; 0: none is.
TimestampTz next_due_at();

ArrayType *int8_array(Datum *elements, size_t count);

// Up to `count` waiting events of a lane behind `after`, in order, but none of `left_out`. Returns
// how many.
int waiting_of_lane(Lane lane, int64 after, ArrayType *left_out, DeliveryRow *rows, int count);

// Whether an event has a row and nothing waits for it, nor it for anything; and the last such.
bool has_settled_row(int64 seq, const pg_uuid_t &event_id);
int64 last_settled_seq();

// Moves a waiting event to another lane; false when somebody holds its row.
bool move_to_lane(int64 seq, Lane lane);

// Gives an event another topic, in the lane of its key there. One that was being retried, and that
// others wait for, waits at the head of them, with a fresh count of attempts. Nothing happens when
// somebody holds the row.
void move_to_topic(int64 seq, std::string_view topic, Lane lane);

// Removes the rows of events that were published. Those that somebody holds stay in `seqs`.
void remove_delivered(std::vector<std::int64_t> &seqs);

// The lanes of refused events that block, and (costlier) all lanes in which events wait. They are
// appended to `lanes`.
void blocked_lanes(std::vector<Lane> *lanes);
void waiting_lanes(std::vector<Lane> *lanes);

// Whether an operator has paused the relay.
bool is_paused();

// Whether the last ERROR was one of writing the table, as with a full disk; asked once.
bool take_write_failure() noexcept;

} // namespace outbox
