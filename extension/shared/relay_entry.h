// What a relay and the sessions that wait for it share: its process, what it shows of itself, and
// how far it is. A hint that a crash wipes, as all shared memory is.
#pragma once

#include "for_relay.h"

#include "extension/server/pg.h"

namespace outbox
{

enum class RelayState : uint32
{
    absent,          // no relay works on this database
    starting,        // registered, not yet connected
    no_extension,    // looked, and the extension is not there
    not_configured,  // outbox.bootstrap_servers is empty
    config_error,    // no usable configuration yet
    detached,        // `default` takes nothing: events are passed, and sent nowhere
    running,         // publishing, or waiting for something to publish
    paused,          // by outbox.pause()
    gone,            // the same, as the destination asks never to be called again
    backing_off,     // the destination does not take events; tries again at next_attempt_at
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

// Bits of RelayEntry::deliveries_changed. The second one: a prepared transaction has committed,
// of which nobody knows what it did; any role may do so, as often as it likes.
constexpr uint32 kDeliveriesChanged = 1;
constexpr uint32 kDeliveriesPerhapsChanged = 2;

struct RelayEntry
{
    // Written by the relay; 0: no relay, else index in ProcGlobal->allProcs plus 1.
    pg_atomic_uint32 proc;
    pg_atomic_uint32 pid;

    pg_atomic_uint32 exit; // RelayExit, valid once the relay has ended

    // Set by backends, cleared by the launcher: what the relay of a subscription ended for may be
    // over, see ask_for_relay().
    pg_atomic_uint32 asked_for;

    // Set by backends, cleared by the relay: outbox.deliveries or outbox.pauses has changed, see
    // kDeliveriesChanged.
    pg_atomic_uint32 deliveries_changed;

    // Written by the relay: DatabaseSlot::emitted minus this are the committed events that are not
    // published, see Publisher::backlog_base(). Until `backlog_counted` they are those that are
    // known of.
    pg_atomic_uint64 backlog_base;
    pg_atomic_uint32 backlog_counted;

    // Broadcast whenever the relay has written its position, after `positions` was raised.
    ConditionVariable position_written;
    pg_atomic_uint64 positions;

    // When a session began to wait for it last, by the steady clock; it begins anew each second.
    pg_atomic_uint64 waited_at;

    slock_t mutex; // guards report
    RelayReport report;
};

// Once, in fresh memory.
void initialize(RelayEntry *entry);

// As it is for a database that had none. `positions` only grows.
void clear(RelayEntry *entry);

// What the relay last said of itself. Where there is none any more its state is `absent`, except
// for those that say why there is none, and `starting`.
RelayReport report_of(RelayEntry *entry);

// Asks the relay to end, if there is one: SIGTERM.
OUTBOX_FOR_RELAY void end_relay(RelayEntry *entry);

// Notes that a session waits for a position; and whether one does, or did a moment ago.
void note_waiting(RelayEntry *entry);
OUTBOX_FOR_RELAY bool is_waited_for(RelayEntry *entry);

// Wakes who waits for a position.
OUTBOX_FOR_RELAY void announce_position(RelayEntry *entry);

// Whether the relay has anything to do when an event commits. One without
// outbox.bootstrap_servers has not: what publishes once there are any is a new process, which
// `starting` is reported for before it begins. No lock, no error.
bool awaits_events(RelayEntry *entry);

// Sets the latch of the relay if there is one. No lock, no error: safe in a commit callback. A
// stale process number only wakes another process for nothing.
void wake_relay(RelayEntry *entry);

// Has the relay look at outbox.deliveries and outbox.pauses. `how`: see kDeliveriesChanged. As
// above.
void tell_of_deliveries(RelayEntry *entry, uint32 how);

// Sets the latch of the process with this number, see RelayEntry::proc; 0: of none.
void wake_process(uint32 proc_plus_one);

} // namespace outbox
