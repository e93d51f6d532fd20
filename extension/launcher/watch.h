// What the launcher knows of databases and their relays, for the files that make it up.
#pragma once

#include <cstdint>

#include "extension/shared/shared_state.h"

namespace outbox
{

// What the launcher knows of a relay.
struct RelayWatch
{
    Oid database; // InvalidOid: not watched
    RelayEntry *entry;
    bool wanted;
    bool lacks_worker; // all of max_worker_processes were in use
    BackgroundWorkerHandle *handle;
    int failures;
    std::int64_t started_at; // by the steady clock
    std::int64_t start_after;
    bool misses_reload; // as it had just been started when the server read its files again
    std::int64_t keeps_worker_until; // it has ended, and comes back: nobody else takes its worker
};

// A database, and the relay of its subscription `default`.
struct Watch : RelayWatch
{
    char name[NAMEDATALEN];
    bool seen; // in pg_database, this turn
};

// Each at the index of its place in shared memory.
constexpr long kTurnMs = 5000;
constexpr long kBusyTurnMs = 100;

// Relays that have been registered and not yet looked whether their database has the extension.
// Who takes longer, as its database is locked, holds up no others.
constexpr int kMaxStarting = 4;
constexpr long kMaxStartingMs = 10000;

extern Watch watches[kMaxDatabases];
extern RelayWatch subscription_watches[kMaxAllSubscriptions];

// Calls f(RelayWatch &) for each.
template <typename F>
void
for_each_watch(F f)
{
    for (Watch &watch : watches)
        f(watch);
    for (RelayWatch &watch : subscription_watches)
        f(watch);
}

DatabaseSlot &slot_of(const Watch &watch);
RelayState reported_state(RelayEntry &entry);
void report_state(RelayEntry &entry, RelayState state);
bool is_running(const RelayWatch &watch);

// How long the relay is not to be started yet, in ms; also for one that comes back.
long ms_to_start(const RelayWatch &watch);
// Starts the relay, with the number of its place: see attach() of the relay.
void start_relay(RelayWatch &watch, int number, const char *database_name);
// Notices that the relay has ended, and decides when another one is started.
void check_worker(RelayWatch &watch);

// Shows in outbox.relay_status that there is no free background worker; the log has it once, until
// all have one.
void report_no_worker(RelayWatch &watch, const char *database_name);

// A turn of all subscriptions. `starting`: relays that have been started and have not said more
// yet. Returns how long the launcher may sleep.
long turn_subscriptions(int starting);

// At the end of a turn; `no_place`: a database found no entry in it. Logged once each until the
// trouble is over. Databases that are still being looked at may give their entries back.
void log_limits(bool no_place);

} // namespace outbox
