// The tables of replays: statements, no decisions.
#pragma once

#include "bgworker/core/replay_flight.h"

#include "bgworker/relation_lock.h"

namespace outbox
{

// All of these need a transaction with an active snapshot and raise PostgreSQL's errors.

constexpr int kReplayChunk = 1000; // events in a row of outbox.replay_events
constexpr int kReplayErrorSize = 512;
constexpr int kReplayTopicSize = 256;

struct ReplayRequest
{
    pg_uuid_t id;
    char id_text[UUID_LEN * 2 + 5];
    int64 total;
    ReplayFlight::Counts counts;
    int rate_per_second;
    char topic[kReplayTopicSize]; // empty: where each event goes
    char last_error[kReplayErrorSize];
    bool begun;
};

// Locks the tables without waiting. An older version of the extension does not have them.
OpenResult lock_replay_tables();

// Ends replays that were asked for in the database that this one is a copy of.
void end_foreign_replays();

enum class TakeResult
{
    none,
    held, // a person holds its row
    taken
};

// The replay that is next, or was under way; it is RUNNING from then on.
TakeResult take_replay(ReplayRequest *request);

// Whether it has not been cancelled.
bool is_running(const ReplayRequest &request);

// An event's numbers.
struct ReplayPlace
{
    int64 seq;
    int64 xid;
    int slot;
};

// Reads a row of the list. Returns how many events it has; 0 when it is not there.
int read_replay_chunk(const ReplayRequest &request, int64 chunk, ReplayPlace *places);

// Writes how far it is, and the state in which it has ended unless that is null. False when a
// person holds its row, or it was cancelled.
bool save_replay(const ReplayRequest &request, const char *ended);

// The id of a replay that has not ended and has events in this slot, or null. In the current
// memory context.
const char *replay_that_needs(int slot);

} // namespace outbox
