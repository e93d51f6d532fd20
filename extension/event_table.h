// The events table as emit() writes it.
#pragma once

#include "for_relay.h"
#include "pg.h"

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

// The next emission number. Taken after the key's lock, so that numbers of a key follow its order.
int64 next_seq();

// With outbox.serialize_keys, waits until no other transaction that emitted for this topic and key
// is open.
void lock_key(const text *aggregate_type, const text *key);

// A new UUIDv7, and the time that is in it.
void make_event_id(TimestampTz now, pg_uuid_t *id);

// Whether this is the id that make_event_id() made last in this session.
bool made_last(const pg_uuid_t *id);

// Fills columns[c - 1] with the number that column c of EventColumn has in a table of this
// description: columns may have been added and dropped, and a partition may have been attached that
// has them in another order. Raises undefined_column when one is missing.
OUTBOX_FOR_RELAY void find_event_columns(TupleDesc desc, AttrNumber *columns);

// Inserts a row of kEventColumns values into the partition `slot`, index entries included. Columns
// that somebody has added get their defaults. Raises undefined_table when the extension is not in
// this database, and object_not_in_prerequisite_state when the partition is detached.
OUTBOX_FOR_RELAY void insert_event(int slot, Datum *values, bool *nulls);

} // namespace outbox
