// What backends, launcher and relays share: one entry for each database that has, or may have, a
// relay. All of it is a hint that a crash wipes; what must survive is in tables.
#pragma once

#include "for_relay.h"

#include "extension/server/pg.h"

namespace outbox
{

constexpr int kMaxDatabases = 128;

enum class RelayState : uint32
{
    absent,          // no relay works on this database
    starting,        // registered, not yet connected
    no_extension,    // looked, and the extension is not there
    not_configured,  // outbox.bootstrap_servers is empty
    config_error,    // no usable configuration yet
    running,         // publishing, or waiting for something to publish
    paused,          // by outbox.pause()
    backing_off,     // Kafka does not take events; tries again at next_attempt_at
    waiting_standby, // what is next is not yet safe on the synchronous standbys
    waiting_lock,    // another session holds an exclusive lock on one of its tables
    stopped,         // needs an operator: see last_error
    update_required  // the extension here is of another version than the library: see last_error
};

OUTBOX_FOR_RELAY const char *relay_state_name(RelayState state);

// What a relay shows of itself. Plain, copied as a whole under the entry's spinlock.
struct RelayReport
{
    RelayState state;
    TimestampTz oldest_event_at; // 0: none known
    int32 in_flight_events;
    int64 in_flight_bytes;
    uint64 published;
    TimestampTz last_published_at;
    int32 consecutive_failures;
    TimestampTz next_attempt_at; // 0: none
    TimestampTz last_error_at;   // 0: none
    bool ended_by_error; // last_error is why the process ended; the next one keeps showing it
    char last_error[512];
    char config_error[512];
};

// Why a relay ended, for the launcher; a relay that dies leaves `unexpected`.
enum class RelayExit : uint32
{
    unexpected,     // start it again, after a pause that grows
    no_extension,   // nothing to do here until a relay is asked for
    restart,        // start it again at once
    told_to,        // SIGTERM: start it again unless the database is held
    stopped,        // needs an operator; start another one after a minute, or when asked
    update_required // the same, because of versions
};

// Bits of DatabaseSlot::deliveries_changed. The second one: a prepared transaction has committed,
// of which nobody knows what it did; any role may do so, as often as it likes.
constexpr uint32 kDeliveriesChanged = 1;
constexpr uint32 kDeliveriesPerhapsChanged = 2;

struct DatabaseSlot
{
    // Written under SharedState.lock; read without it.
    pg_atomic_uint32 database; // Oid, 0: free

    // Written by the relay; 0: no relay, else index in ProcGlobal->allProcs plus 1.
    pg_atomic_uint32 relay_proc;
    pg_atomic_uint32 relay_pid;

    pg_atomic_uint32 relay_exit; // RelayExit, valid once the relay has ended

    // Set by backends, cleared by the launcher: look whether this database wants a relay.
    pg_atomic_uint32 relay_wanted;

    // Set by backends, cleared by the relay: outbox.deliveries or outbox.pauses has changed, see
    // kDeliveriesChanged.
    pg_atomic_uint32 deliveries_changed;

    // Pid of a backend that needs the database for itself (DROP DATABASE and the like); 0: none.
    pg_atomic_uint32 held_by;

    // Written by the relay: the partition of the ring that new events go to, plus 1; 0: look into
    // outbox.ring. A session that still uses an older one does no harm, see docs/architecture.md.
    pg_atomic_uint32 ring_slot;

    // Events in committed transactions since the server started.
    pg_atomic_uint64 emitted;

    // Written by the relay: `emitted` minus this are the committed events that are not published,
    // see Publisher::backlog_base(). Until `backlog_counted` they are those that are known of.
    pg_atomic_uint64 backlog_base;
    pg_atomic_uint32 backlog_counted;

    // The largest emission number that is known to have been given, and the sequence that gave it.
    pg_atomic_uint64 largest_seq;
    pg_atomic_uint32 numbered_by;

    // Broadcast whenever the relay has written its position, after `positions` was raised.
    ConditionVariable position_written;
    pg_atomic_uint64 positions;

    slock_t mutex; // guards report
    RelayReport report;
};

struct SharedState
{
    uint64 layout;                  // kSharedLayout of the library that was preloaded
    char version[16];               // and its version
    LWLock *lock;                   // guards taking and freeing of entries
    pg_atomic_uint32 launcher_proc; // as relay_proc

    // Set by backends, cleared by the launcher: forget which databases have no extension.
    pg_atomic_uint32 check_all_databases;

    DatabaseSlot slots[kMaxDatabases];
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

// What the entry's relay last said of itself. Where there is none any more its state is `absent`,
// except for those that say why there is none, and `starting`.
RelayReport report_of(DatabaseSlot *slot);

// The entry of a database, taken now if it had none; null when all are in use.
DatabaseSlot *claim_slot(Oid database);

// Asks the entry's relay to end, if there is one: SIGTERM.
OUTBOX_FOR_RELAY void end_relay(DatabaseSlot *slot);

// Gives an entry back; the database is gone, or has no extension. Returns whether somebody has
// asked for a relay there, and may not have seen that the entry is another's now.
bool free_slot(DatabaseSlot *slot);

// Has the launcher look whether this database wants a relay; null: it has no entry. No lock, no
// error.
void ask_for_relay(DatabaseSlot *slot);

// Committed events of the entry's database that are not published: never less than 0.
OUTBOX_FOR_RELAY int64 backlog_of(DatabaseSlot *slot);

// Wakes who waits for a position.
OUTBOX_FOR_RELAY void announce_position(DatabaseSlot *slot);

// Whether the entry's relay has anything to do when an event commits. One without
// outbox.bootstrap_servers has not: what publishes once there are any is a new process, which
// `starting` is reported for before it begins. No lock, no error.
bool awaits_events(DatabaseSlot *slot);

// Set the latch of the entry's relay, or of the launcher, if there is one. No lock, no error: safe
// in a commit callback. A stale process number only wakes another process for nothing.
void wake_relay(DatabaseSlot *slot);
OUTBOX_FOR_RELAY void wake_launcher();

} // namespace outbox
