// Statements on the tables that decide about a partition of the ring; no decisions.
#pragma once

#include "bgworker/source/events/event_reader.h"

namespace outbox
{

// All of these need a transaction with an active snapshot and raise PostgreSQL's errors.

struct RingRow
{
    // 0 when that has never happened.
    TimestampTz began_at;
    TimestampTz ended_at;
    TimestampTz restored_at;
    bool held_back; // outbox.ring has a reason
};

// The rows of outbox.ring. Returns the current partition.
int read_ring(RingRow *rows);

// Reads the snapshots that decide about ages: all that `published` sees is published, and all that
// `old` sees was published by `cutoff`; false when it is not known of anything.
bool read_published(XidSnapshot *published);
bool read_old(TimestampTz cutoff, XidSnapshot *old);

// Times that decide about the ring and are more than a minute in the future, as the clock was set
// forward when they were written. Rewritten, they count as now.
bool has_later_times();
void make_later_times_now();

// How many events of a partition are set aside, counted as far as it matters; those that are not
// settled only of `default`.
constexpr int64 kMostCounted = 10000;
struct SetAside
{
    int64 unsettled; // tried again, or waiting; kMostCounted at most
    int64 settled;   // FAILED or DISCARDED; 1 at most
};
SetAside events_set_aside(int slot);

// Moves up to `count` FAILED or DISCARDED events of a partition to another one. Their numbers stay,
// so they are in no window, and are found as before. Returns how many.
uint64 move_settled(EventTables *tables, int from, int to, int count);

void write_current(int before, int slot);
void write_truncated(int slot);
// Writes why the partition is not emptied; null when nothing holds it back.
void write_held_back(int slot, const char *by);

// Removes up to `count` ticks that concern no event in the ring. Returns whether there may be more.
bool remove_ticks(int64 lowest, int count);

} // namespace outbox
