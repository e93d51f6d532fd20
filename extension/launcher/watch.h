// What the launcher knows of databases and their relays, for the files that make it up.
#pragma once

#include <cstdint>

#include "extension/shared/shared_state.h"

namespace outbox
{

// What the launcher knows of the relay of the entry with the same index.
struct Watch
{
    Oid database; // InvalidOid: not watched
    char name[NAMEDATALEN];
    bool wanted;
    bool lacks_worker; // all of max_worker_processes were in use
    bool seen;         // in pg_database, this turn
    BackgroundWorkerHandle *handle;
    int failures;
    std::int64_t started_at; // by the steady clock
    std::int64_t start_after;
};

extern Watch watches[kMaxDatabases];

DatabaseSlot &slot_of(const Watch &watch);
RelayState reported_state(DatabaseSlot &slot);
bool is_running(const Watch &watch);

// Shows in outbox.relay_status that there is no free background worker; the log has it once, until
// all have one.
void report_no_worker(Watch &watch);

// At the end of a turn; `no_place`: a database found no entry in it. Logged once each until the
// trouble is over. Databases that are still being looked at may give their entries back.
void log_limits(bool no_place);

} // namespace outbox
