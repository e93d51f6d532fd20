// The state of a relay's process, for the files that make it up.
#pragma once

#include "bgworker/engine/engine.h"
#include "bgworker/sinks/module.h"

#include "extension/core/routes.h"

#include "relay_destination.h"

#include "extension/shared/subscription_options.h"

#include "server_clock.h"
#include "stats.h"

#include "bgworker/source/deliveries/pg_deliveries.h"
#include "bgworker/source/pg_replays.h"
#include "bgworker/source/pg_source.h"

#include "extension/shared/subscription_slots.h"
#include "extension/trust/installed_version.h"

namespace outbox
{

// What the engine works with, and the engine.
struct Parts
{
    Parts(DatabaseSlot *slot, RelayEntry *entry); // throws std::bad_alloc

    std::unique_ptr<SinkSetup> setup; // null: there is no usable one
    PgSource source;
    PgDeliveries deliveries;
    PgReplays replays;
    RelayDestination destination;
    ServerClock clock;
    Stats stats;
    Engine engine;
    // Steps of the relay beside it, see maintain().
    Guarded summarizing;
    Guarded maintaining_ring;
    Guarded restoring;
    Guarded expiring;
    Guarded finding_late;
    Guarded subscribing;
    Guarded pausing;
};

struct Relay
{
    DatabaseSlot *slot;   // of its database
    const SinkKind *kind; // of its subscription's sink
    Jsonb *options;       // of its subscription; null: of `default`
    RelayEntry *entry;    // its own
    Parts *parts;         // lives as long as the process
    WaitEventSet *wait_set;
    RelayState state;
    char config_error[512];
    bool holds_default;      // of a setting, in place of what was refused at the server's start
    char *database_settings; // of ALTER DATABASE, as they were when the process started
    char *applied_settings;  // the same, as the process applied them last
    bool check_events;       // something may have been committed
    bool restart;
    Engine::Round round; // the last one
    // When the steps of maintain() are due, by the steady clock.
    std::int64_t maintain_at;
    std::int64_t summarize_at;
    std::int64_t maintain_ring_at;
    std::int64_t check_late_at;
    std::int64_t subscriptions_at;
    std::int64_t restoring_took; // microseconds of the last search for restored events
    std::int64_t restoring_at;   // its end
};

extern Relay relay;

// What ALTER DATABASE has set, as an array's text in TopMemoryContext. `undone`, if not null, is
// set to whether one of `before` is no longer among them. In a transaction with a snapshot.
char *read_database_settings(const char *before, bool *undone);

// relay_start.cpp. Each ends the process when there is nothing to relay here.
void attach(Datum relay_number);
// SIGTERM, until there is something to be put in order at the end.
void end_while_starting(int signal);
void keep_heap();
void load();

// subscriptions.cpp. Has a relay started for each other subscription of the database, and those of
// dropped ones ended. In a transaction with a snapshot.
void claim_subscriptions();

// The destination asks never to be called again: pauses the subscription, and has the process start
// anew when that is written. Until then nothing is sent either.
void stop_for_destination(const Failure &why);

// Steps beside the engine that are due: restored events, expired rows, the ring, late attempts,
// summaries of new blocks.
void maintain();

// What outbox.max_in_flight says, or the least that keeps destinations apart.
std::size_t max_events_in_flight();

// Reads the settings and loads the sink's library; the engine has sinks made from them, unless they
// are not usable.
void connect_sink();

// Reports it when the engine asked for a sink and none could be made.
void check_connection();

// After SIGHUP: with a configuration that works the process restarts; one that does not work
// changes nothing, and is reported in relay_status and the log.
void reload_settings();

// Tries a configuration that was not usable again, after a pause that grows from a second to a
// minute; when it works, the process restarts. Returns in how many ms it is to be called
// again; -1: not before something else has happened.
long retry_settings();

// Writes the relay's state to shared memory, where relay_status reads it, and to pg_stat_activity;
// logs alerts.
void report_state();
void write_report(const RelayReport &report);

// What is in the way and is not the destination's doing: shown as last_error unless something newer
// happened, and logged once.
void report_problem(const char *problem);
// The same, not logged: it was logged when it happened first.
void set_last_error(const char *problem);
// The same for what the relay waits for, shown until end_wait().
enum class Awaited
{
    lock,
    restore,
    answer, // of the destination, to anything
    person  // who says that the destination may be called again
};
void begin_wait(Awaited what, const char *problem);
void begin_lock_wait();
// Whether the last round was held up by a table that a session has locked, and not by a restore.
bool waits_for_lock();
void end_wait(Awaited what);
void add_last_error(RelayReport *report);
// A relay that ends by an error leaves its last error to the next one.
void leave_last_error(const char *problem);
void inherit_last_error();

// Ends the process; the launcher learns why.
[[noreturn]] void exit_as(RelayExit reason);

// However the process ends from here on, no library's exit handlers run. To be called first.
void end_without_exit_handlers();

// Ends the process until the extension and the library are of one version. Logged once, as below.
[[noreturn]] void stop_for_version(Installed installed, const char *version);

// Ends the process: nothing is published until an operator has done what `problem` asks for. Logged
// once; the launcher starts a relay again every minute.
[[noreturn]] void stop_for_operator(const char *problem);

// Ends the process as the extension is gone, or a table of it.
[[noreturn]] void stop_as_gone();
// The subscription is being changed by a transaction that is open.
[[noreturn]] void wait_for_change();

} // namespace outbox
