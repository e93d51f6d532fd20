// What the tests of the client have in common: a consumer in a thread, records made by hand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "e2e/servers.h"
#include "outbox/consumer.h"
#include "outbox/error.h"
#include "support/kafka_client.h"

namespace outbox::test
{

constexpr auto kSoon = std::chrono::seconds(20); // limit of what should happen in moments

// Options that make a consumer of tests quick; the name of its group is made unique.
outbox::ConsumerOptions quick_options(const std::string &consumer, const std::string &topic,
                                      const std::string &conninfo);

// Runs a consumer in a thread until it is told to stop, or destroyed.
class RunningConsumer
{
public:
    using Run = void (*)(outbox::Consumer &);

    // `run` calls run(), for a test whose name the stacks of the consumer's threads have to tell.
    RunningConsumer(
        outbox::ConsumerOptions options, outbox::Handler handler,
        Run run = [](outbox::Consumer &consumer) { consumer.run(); });
    ~RunningConsumer();

    void stop() { consumer_->stop(); }
    // Waits until run() has ended, and gives what it threw, if anything. Fails the test if it does
    // not end.
    std::exception_ptr join(Milliseconds limit = kSoon);
    // Stops and expects that run() returns.
    void finish();
    bool logged(const std::string &text) const;
    std::string log() const;

private:
    mutable std::mutex mutex_;
    std::string log_;
    bool ended_ = false;
    std::exception_ptr failure_;
    std::unique_ptr<outbox::Consumer> consumer_;
    std::thread thread_;
};

// Writes records as they are, with the header "id" if `id` is not empty, and waits for the broker.
class RecordWriter
{
public:
    explicit RecordWriter(const std::string &bootstrap);

    void write(const std::string &topic, const std::string &key, const std::string &value,
               const std::string &id, const std::vector<outbox::Header> &headers = {},
               int32_t partition = RD_KAFKA_PARTITION_UA);
    // The same without a wait, and then the wait for all.
    void send(const std::string &topic, const std::string &key, const std::string &value,
              const std::string &id, const std::vector<outbox::Header> &headers = {},
              int32_t partition = RD_KAFKA_PARTITION_UA);
    void flush();

private:
    KafkaHandle client_;
};

// A UUID for the n-th event of a test.
std::string event_id(int number);

// How many records of the topic the group has not committed yet; nothing when Kafka does not say.
std::optional<int64_t> group_lag(const std::string &bootstrap, const std::string &group,
                                 const std::string &topic);

// The code of the outbox::Error that the function throws; "" when it throws none.
template <class Function>
std::string
code_of(Function &&function)
{
    try
    {
        function();
    }
    catch (const outbox::Error &error)
    {
        return error.code();
    }
    return "";
}

// How many members the group has; nothing when Kafka does not say.
std::optional<int> group_members(const std::string &bootstrap, const std::string &group);

// How many records have been written to the topic; nothing when Kafka does not say.
std::optional<int64_t> records_in(const std::string &bootstrap, const std::string &topic);

// A statement within a handler, and the first field that it gives; throws outbox::DatabaseError.
std::string run_sql(PGconn *connection, const std::string &sql);

// A database with a table of effects, a topic, and its topic of dead letters.
struct Scene
{
    explicit Scene(PgCluster &server = cluster());

    outbox::ConsumerOptions options() const;
    int effects() { return std::stoi(db.value("select count(*) from effects")); }
    // Of different events.
    int events() { return std::stoi(db.value("select count(distinct event_id) from effects")); }
    bool reaches(int count)
    {
        return wait_until(kSoon, [&] { return effects() >= count; });
    }
    // Whether the group comes to the end of the topic.
    bool drained(const std::string &group) const
    {
        return wait_until(kSoon, [&] { return group_lag(kafka().bootstrap(), group, topic) == 0; });
    }
    // Whether one consumer comes to wait for a lock in the database.
    bool consumer_waits()
    {
        return wait_until(kSoon,
                          [&]
                          {
                              return db.value("select count(*) from pg_stat_activity where"
                                              " application_name like 'outbox consumer%' and"
                                              " wait_event_type = 'Lock'") == "1";
                          });
    }
    // Waits for this many.
    std::vector<Record> dead_letters(size_t count) const;

    PgCluster &server;
    TestDatabase database;
    Db db;
    std::string topic;
    RecordWriter writer{kafka().bootstrap()};
};

// From then on the rows of effects are numbered in the order in which they were made.
void number_effects(Db &db);
// How many of them came behind one with a higher event id and the same `key`.
int misplaced_effects(Db &db);

// These statements, and those after which a session works with another role, path or variable. ROLE
// stands for a role that may do nothing.
std::vector<std::string> with_other_settings(std::vector<std::string> statements);
// Puts `with` in the place of the first `what`, if there is one.
void replace(std::string &text, const std::string &what, const std::string &with);

// A handler: a row in effects.
void insert_effect(PGconn *transaction, const outbox::Record &record);

// A consumer that is stopped while its handler runs lets it end, keeps its effect, and begins no
// other record.
void expect_stop_keeps_the_effect(outbox::OffsetPolicy offsets);

} // namespace outbox::test
