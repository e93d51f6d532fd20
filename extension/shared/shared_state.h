// What backends, launcher and relays share: one entry for each database that has, or may have, a
// relay. All of it is a hint that a crash wipes; what must survive is in tables.
#pragma once

#include "for_relay.h"
#include "relay_entry.h"

#include "extension/server/pg.h"

namespace outbox
{

constexpr int kMaxDatabases = 128;

// Subscriptions besides `default`: of a database, and of all of them.
constexpr int kMaxSubscriptions = 16;
constexpr int kMaxAllSubscriptions = 128;

struct DatabaseSlot
{
    // Written under SharedState.lock; read without it.
    pg_atomic_uint32 database; // Oid, 0: free

    // Set by backends, cleared by the launcher: look whether this database wants a relay.
    pg_atomic_uint32 relay_wanted;

    // Pid of a backend that needs the database for itself (DROP DATABASE and the like); 0: none.
    pg_atomic_uint32 held_by;

    // Written by the relay: the partition of the ring that new events go to, plus 1; 0: look into
    // outbox.ring. A session that still uses an older one does no harm, see docs/architecture.md.
    pg_atomic_uint32 ring_slot;

    // How many transactions have brought rows of a dump, and of how many the relay of `default` had
    // heard when it looked for such rows last.
    pg_atomic_uint32 restores;
    pg_atomic_uint32 restores_seen;

    // Events in committed transactions since the server started.
    pg_atomic_uint64 emitted;

    // The largest emission number that is known to have been given, and the sequence that gave it.
    pg_atomic_uint64 largest_seq;
    pg_atomic_uint32 numbered_by;

    // Its subscriptions besides `default`: indexes of SharedState::subscriptions plus 1; 0: none.
    pg_atomic_uint32 subscriptions[kMaxSubscriptions];

    RelayEntry relay; // of `default`
};

// A subscription besides `default`, taken by the relay of its database's `default`, which reads
// their table; given back by the launcher when its relay has ended.
struct SubscriptionSlot
{
    pg_atomic_uint32 database; // Oid, 0: free; written under SharedState.lock
    char name[NAMEDATALEN];    // written while it is free
    pg_atomic_uint32 wanted;   // 0: it was dropped, so that its relay ends
    RelayEntry relay;
};

struct SharedState
{
    uint64 layout;                  // kSharedLayout of the library that was preloaded
    char version[16];               // and its version
    LWLock *lock;                   // guards taking and freeing of entries
    pg_atomic_uint32 launcher_proc; // as RelayEntry::proc

    // Set by backends, cleared by the launcher: forget which databases have no extension.
    pg_atomic_uint32 check_all_databases;

    // Of the settings that were refused at the server's start, those that were corrected or taken
    // out since: see refused_settings.h. Both outlive a crash.
    pg_atomic_uint64 settled_settings;
    // When the files were read by which one was refused still, as PgReloadTime.
    pg_atomic_uint64 refused_as_of;

    DatabaseSlot slots[kMaxDatabases];
    SubscriptionSlot subscriptions[kMaxAllSubscriptions];
};

// To be raised when a field changes its meaning. The size stands for most changes, so that a relay
// library that was installed over a running server steps back instead of reading another layout.
constexpr uint64 kSharedLayout = (static_cast<uint64>(1) << 32) | sizeof(SharedState);

// Null when the library was not preloaded.
OUTBOX_FOR_RELAY SharedState *shared_state();

// Registers the hooks that reserve and initialise the shared memory; from _PG_init while
// preloading.
void reserve_shared_state();

// The entry of a database, or null. Takes no lock, raises no error.
OUTBOX_FOR_RELAY DatabaseSlot *find_slot(Oid database);

// The same of this session's database, for what is asked with each event: looked for once.
DatabaseSlot *own_slot();

// How many entries are used: all of them, unless a test wants fewer.
int most_databases();

// Whether every entry has its database.
bool all_slots_taken();

// The entry of a database, taken now if it had none; null when all are in use.
DatabaseSlot *claim_slot(Oid database);

// Gives an entry back; the database is gone, or has no extension. Returns whether somebody has
// asked for a relay there, and may not have seen that the entry is another's now.
bool free_slot(DatabaseSlot *slot);

// Has the launcher look whether this database wants a relay; null: it has no entry. No lock, no
// error.
void ask_for_relay(DatabaseSlot *slot);

// Committed events of the entry's database that are not published: never less than 0.
OUTBOX_FOR_RELAY int64 backlog_of(DatabaseSlot *slot);

// As wake_relay().
OUTBOX_FOR_RELAY void wake_launcher();

} // namespace outbox
