// The state of a relay's process, for the files that make it up.
#pragma once

#include "bgworker/publishing/publisher.h"
#include "bgworker/replay/replay.h"

#include "bgworker/kafka/kafka_setup.h"

#include "extension/installed_version.h"
#include "extension/shared_state.h"

namespace outbox
{

struct Relay
{
    DatabaseSlot *slot;
    Publisher *publisher;
    Replay *replay;
    Stats *stats;
    KafkaSetup *setup; // of the producers
    int wake_fd;
    int replay_fd;
    WaitEventSet *wait_set;
    RelayState state;
    char config_error[512];
    char *database_settings; // of ALTER DATABASE, as they were when the process started
    char *applied_settings;  // the same, as the process took them in last
    bool look;               // something may have been committed
    bool restart;
    StepResult step;            // how the last round ended
    SaveResult saved;           // the position
    std::int64_t maintain_at;   // not before, by the steady clock
    std::int64_t counting_took; // of the last look for restored events, in microseconds
    std::int64_t summarize_at;
    std::int64_t turn_ring_at;
    std::int64_t look_late_at;
};

extern Relay relay;

// What ALTER DATABASE has set, as an array's text in TopMemoryContext. `undone`, if not null, is
// set to whether one of `before` is not among them any more. In a transaction with a snapshot.
char *read_database_settings(const char *before, bool *undone);

// Makes a producer from the current settings, or says why there is none.
void connect_kafka();

// Makes another producer from the settings of the one that died.
void reconnect_kafka();

// After SIGHUP: a configuration that works is taken up by a fresh start of the process; one that
// does not leaves the relay as it is, and is told in relay_status and the log.
void reload_settings();

// Tries again by itself what was not usable, after a pause that grows from a second to a minute; a
// configuration that works is taken up as above. Returns in how many ms it is to be called again;
// -1: not before something else has happened.
long retry_settings();

// Notes what is in the way and is not Kafka's doing: shown as last_error unless something newer
// happened, and told once.
void note_problem(const char *problem);
void show_problem(RelayReport *report);
// The same for what the relay waits for: it stays until that has come.
enum class Awaited
{
    lock,
    restore
};
void note_wait(Awaited what, const char *problem);
void end_wait(Awaited what);
// The same for what was told already; it has happened again.
void show_as_last_error(const char *problem);
// What the process before this one has left in last_error stays there until something newer
// happens; and leaves there itself what it ends of.
void remember_problem();
void leave_problem(const char *problem);

// Ends the process; the launcher learns why.
[[noreturn]] void exit_as(RelayExit reason);

// However the process ends from here on, no library's exit handlers run. To be called first.
void end_without_exit_handlers();

// Ends the process until the extension and the library are of one version. Told once, as below.
[[noreturn]] void stop_for_version(Installed installed, const char *version);

// Ends the process: nothing is published until a person has put right what `problem` says. Told
// once; the launcher looks again every minute.
[[noreturn]] void stop_for_a_person(const char *problem);

} // namespace outbox
