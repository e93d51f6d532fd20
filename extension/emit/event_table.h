// The events table as emit() writes it.
#pragma once

#include "extension/server/pg.h"
#include "extension/shared/for_relay.h"

namespace outbox
{

constexpr int kRingSlots = 8;

// Columns of outbox.events, as attribute numbers; sql/events.sql is the other side.
enum EventColumn : AttrNumber
{
    kSeq = 1,
    kXid,
    kCreatedAt,
    kId,
    kSchemaVersion,
    kSlot,
    kAggregateType,
    kAggregateId,
    kEventType,
    kPartitionKey,
    kPayload,
    kPayloadBytes,
    kHeaders,
    kEventColumns = kHeaders
};

// Number of the partition that new events go to: from shared memory, or from outbox.ring while the
// relay has not said it there.
int current_slot();

// The same, from outbox.ring, as the current snapshot shows it. Raises PostgreSQL's errors.
OUTBOX_FOR_RELAY int stored_slot();

// With outbox.serialize_keys, waits until no other transaction that emitted for this topic and key
// is open.
void lock_key(const text *aggregate_type, const text *key);

// A new UUIDv7, and the time that is in it.
void make_event_id(TimestampTz now, pg_uuid_t *id);

// Whether this is the id that make_event_id() made last in this session, and no event has taken it
// yet. Now one has.
bool take_made_id(const pg_uuid_t *id);

// Inserts a row of kEventColumns values into the partition `slot`, as INSERT does: with what
// was added to the table, index entries included. Raises undefined_table when the
// extension is not in this database, and what event_layout() and require_usable() raise.
void insert_event(int slot, Datum *values, bool *nulls);

// Whose row the trigger of the table is given. Raises triggered_data_change_violation when it is
// the one of insert_event(), but a trigger has given it other numbers.
enum class RowOf
{
    emit,
    statement,
    statement_in_trigger
};
RowOf row_of(bool numbered, int64 xid, int64 seq);

// Whether insert_event() is at the event of that id; of several, the innermost.
bool is_being_inserted(const pg_uuid_t *id);

// Raise triggered_data_change_violation: a trigger has changed the numbers, or the id, of an event.
[[noreturn]] void refuse_changed_numbers();
[[noreturn]] void refuse_changed_id();

// Copies the row of one partition to another one, with all columns that both have. Nobody else's
// code runs.
OUTBOX_FOR_RELAY void copy_event(Relation from, TupleTableSlot *row, int to);

} // namespace outbox
