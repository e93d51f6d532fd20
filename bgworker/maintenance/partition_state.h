// What state each partition of the ring is in, see "States of a partition" in bgworker/README.md.
#pragma once

#include "ring_store.h"

namespace outbox
{

enum class PartitionState
{
    current,
    empty,
    filled,       // not old enough to be emptied
    held,         // old enough, but see the reason
    failed_first, // as due, but failed events must move to the current partition first
    due
};

constexpr int kReasonSize = 160;

struct Judgement
{
    PartitionState state;
    bool is_missed; // by detached subscriptions, if it is emptied
    char reason[kReasonSize];
};

// What decides about the partitions. Lives as long as the process: no object with a destructor may
// be on a frame that an error leaves.
struct RingFacts
{
    int current;
    TimestampTz cutoff; // what was published before is old
    RingRow rows[kRingSlots];
    bool has_published; // the snapshots below are known
    bool has_old;
    XidSnapshot published;
    XidSnapshot old;
};

// Locks all tables that maintenance changes, before anything is changed: DROP EXTENSION takes the
// same locks in its own order. False when one of them is not free.
bool lock_ring_tables();

void read_facts(RingFacts *facts, TimestampTz cutoff);

// Decides by snapshots: an event is old when a snapshot saw it that was published by the cutoff. As
// reliable as the partition's rows are: only with an exclusive lock on it no transaction can have
// rows in it that are not committed yet.
void judge(EventTables *tables, const RingFacts &facts, int slot, Judgement *judgement);

// Puts the partition into the state `held`, for this reason.
void hold(Judgement *judgement, const char *format, ...) pg_attribute_printf(2, 3);

} // namespace outbox
