// What happens to the world in a history: what sessions, operators, brokers and accidents do.
#pragma once

#include "world/clock.h"
#include "world/random.h"

#include <string>
#include <vector>

namespace outbox::sim
{

// Each makes sense, or does nothing, whatever became of the acts before it: so that a failing
// history can be shortened by leaving some out.
struct Act
{
    enum class Kind
    {
        // Sessions: a is the session.
        begin,
        emit, // b: type, c: key, d: what is wrong with it (see Fault), e: bytes
        savepoint,
        undo, // to the savepoint
        prepare,
        commit, // b: 1 waits for the disk
        rollback,
        // Kafka: a is the broker, or the topic, b the partition.
        broker_down,
        broker_up,
        broker_hangs,
        broker_slow,    // b: ms
        lose_answers,   // b: how many
        lead,           // c: the broker; -1: nobody
        short_replicas, // c: 1 writes all the same, 2: enough again
        topic_missing,
        topic_forbidden, // b: 1 and hidden
        topic_fine,
        topic_limit,   // b: bytes of a batch
        topic_strict,  // b: 1 looks at records
        unusable,      // a: 1: no sink can be opened; 0: they can
        wants_no_more, // a: 1: the endpoint asks never to be called again; 0: it may be
                       // The database.
        lock,          // a: table, b: ms
        no_space,      // a: statements, b: and all for so many ms
        crash,
        kill,    // a: after so many statements
        restart, // SIGTERM
        flush_log,
        standby, // a: 1 lags
        rotate,
        empty_slot,
        set_clock,    // a: s
        slow_disk,    // a: us for each row that is written
        slow_machine, // a: us for each look at the clock
                      // Operators.
        pause,
        resume,
        retry,   // what has FAILED
        discard, // a: which of the FAILED
        hold,    // a: which row; -1: all
        release,
        route,    // a: type, b: topic
        blocking, // a: type, b: 0: later events of a key flow
        policy,   // a: max_attempts, b: 1 block
        repair,   // what could not be read can be
                  // Subscriptions: a transaction calls one of these, and ends later.
        create,   // a: types, a bit each, b: 1 from what is retained, 0 from now, c: 1 emits too
        alter,    // a: types
        attach,   // a: 1 from what is retained, 0 from now
        drop,
        end_change, // a: 1 commits
        replay,     // a: type, -1: all, b: events at most, c: a second
        cancel_replay
    };
    enum Fault
    {
        fine,
        invalid,
        unreadable
    };

    Time at = 0; // since the beginning
    Kind kind = Kind::begin;
    int a = 0;
    int b = 0;
    int c = 0;
    int d = 0;
    int e = 0;
    // What Kafka, the relay or an operator does is done to the one of this subscription; 0:
    // `default`.
    int subscription = 0;
};

std::string to_words(const Act &act);

// Of one subscription.
struct Settings
{
    int max_in_flight = 1;  // requests of a producer
    int batch_records = 20; // of a producer
    int max_events = 50;    // of the engine
    int max_bytes = 1 << 20;
    int max_attempts = 3;
    bool block = true;
    std::int64_t backoff_initial_ms = 100;
    std::int64_t backoff_max_ms = 1000;
    std::uint64_t lanes = 0;  // the key of their hashes, by which they take turns
    bool new_lanes = false;   // by another key whenever the relay starts
    bool endpoint = false;    // refuses records one by one, in place of Kafka
    int sink_dies = 0;        // its sink, see EndpointSettings
    int slow_key = -1;        // the same
    bool sends_ready = false; // a fault of producers, see ProducerSettings
    Time max_lag = 0;         // it is detached when it holds events back for so long; 0: never
};

// What one history is made of. The settings are those of `default`.
struct History : Settings
{
    std::uint64_t seed = 0;
    int types = 3;
    Time active = 10 * kSecond;   // then all is put right
    int rows_at_once = 1024;      // are looked at when routes change
    std::vector<Settings> others; // subscriptions besides `default`, which acts create
    std::vector<Act> acts;        // by time
};

// The history of a seed.
History make_history(std::uint64_t seed);

} // namespace outbox::sim
