#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/consumer.h"
#include "support/events.h"
#include "support/kafka_cluster.h"
#include "support/pg.h"
#include "support/pg_cluster.h"
#include "support/workspace.h"

namespace outbox::test
{

// The Kafka of this run, embedded or real, started at first use. Tests that take it away bring it
// back.
Kafka &kafka();

// For a delivery during which kafka() went away and came back: each event once, or, where repeats
// are not recognised, those of the requests that were under way twice.
testing::AssertionResult exact_after_outage(const Report &report);

// The PostgreSQL of this run, with the extension preloaded and told of kafka(). Tests that kill or
// reconfigure a server make their own.
PgCluster &cluster();

// What main() of a test program does: runs the tests and ends both servers, so that errors while
// stopping are errors of the run. Returns the program's status.
int run_tests(int argc, char **argv);

// A running PostgreSQL for one test, told of kafka() unless the settings say otherwise. A crash in
// its log that the test did not expect fails the test.
class OwnCluster : public PgCluster
{
public:
    explicit OwnCluster(const Settings &settings = {});
    ~OwnCluster();
};

// A database of one test, with the extension unless told otherwise. Names that end up in Kafka are
// made unique to it, because all tests share one Kafka.
class TestDatabase
{
public:
    enum class Extension
    {
        kInstalled,
        kNotInstalled
    };

    explicit TestDatabase(PgCluster &server, Extension extension = Extension::kInstalled);
    ~TestDatabase(); // drops it, with the relay running
    TestDatabase(const TestDatabase &) = delete;
    TestDatabase &operator=(const TestDatabase &) = delete;

    const std::string &name() const { return name_; }
    // Waits for a server that is starting or recovering.
    Db connect() const;

    // The only aggregate type that tests emit, and the topic that it goes to.
    std::string type() const { return name_ + "_order"; }
    std::string topic() const { return kTopicPrefix + type(); }

    // Process id of its relay, once it runs.
    pid_t relay_pid() const;
    // Kills a process of the server, or the relay, with SIGKILL and waits until the server, which
    // restarts all its processes then, is back.
    void kill_process(pid_t pid) const;
    void kill_relay() const;
    // Ends the relay in order and waits for another one.
    void restart_relay() const;
    // Whether outbox.relay_status shows this state before `limit` has passed.
    bool reaches_state(const std::string &state,
                       Milliseconds limit = std::chrono::seconds(20)) const;

private:
    PgCluster &server_;
    std::string name_;
};

} // namespace outbox::test
