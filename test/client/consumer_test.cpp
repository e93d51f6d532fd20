// What a consumer does while nothing fails.
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"
#include "support/kafka_admin.h"

using namespace outbox::test;
using outbox::OffsetPolicy;

TEST(Consumer, EveryEventHasItsEffectOnceThoughEachComesTwice)
{
    Scene scene;
    for (int copy = 0; copy < 2; ++copy)
        for (int i = 0; i < 50; ++i)
            scene.writer.send(scene.topic, "k" + std::to_string(i % 7), "{}", event_id(i));
    scene.writer.flush();
    const outbox::ConsumerOptions options = scene.options();
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 50);
    EXPECT_EQ(scene.events(), 50);
}

TEST(Consumer, ABatchInOneTransactionHasEachEffectOnce)
{
    Scene scene;
    for (int i = 0; i < 500; ++i)
        scene.writer.send(scene.topic, std::to_string(i % 7), "{}", event_id(i / 2));
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = 100;
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 250);
    const int transactions =
        std::stoi(scene.db.value("select count(distinct xmin::text) from effects"));
    EXPECT_LT(transactions, 100);
}

TEST(Consumer, HandlersSeeTheRecordAsItIsInItsOrder)
{
    Scene scene;
    for (int i = 0; i < 30; ++i)
        scene.writer.send(scene.topic, "same", std::to_string(i), event_id(i),
                          {{"traceparent", "00-4bf9"}, {"empty", ""}, {"null", std::nullopt}});
    scene.writer.flush();
    std::vector<outbox::Record> seen;
    std::atomic<size_t> count{0};
    const outbox::ConsumerOptions options = scene.options();
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &record)
                             {
                                 seen.push_back(record);
                                 ++count;
                             });
    ASSERT_TRUE(wait_until(kSoon, [&] { return count == 30; }));
    consumer.finish();
    for (int i = 0; i < 30; ++i)
    {
        const outbox::Record &record = seen[static_cast<size_t>(i)];
        EXPECT_EQ(record.value, std::to_string(i));
        EXPECT_EQ(record.event_id, event_id(i));
        EXPECT_EQ(record.key, "same");
        EXPECT_EQ(record.offset, i);
        EXPECT_EQ(record.header("traceparent"), "00-4bf9");
        EXPECT_EQ(record.header("empty"), "");
        EXPECT_EQ(record.header("null"), std::nullopt);
        EXPECT_EQ(record.headers.size(), 4U);
    }
}

TEST(Consumer, TheEventsIdMayComeAsACloudEventsAttribute)
{
    Scene scene;
    scene.writer.send(scene.topic, "k", "{}", "", {{"ce_id", event_id(1)}}, 0);
    scene.writer.send(scene.topic, "k", "{}", event_id(2), {{"ce_id", event_id(9)}}, 0);
    scene.writer.send(scene.topic, "k", "{}", "no uuid", {{"ce_id", event_id(3)}}, 0);
    scene.writer.flush();
    std::vector<std::string> seen;
    std::atomic<size_t> count{0};
    RunningConsumer consumer(scene.options(),
                             [&](PGconn *, const outbox::Record &record)
                             {
                                 seen.push_back(record.event_id);
                                 ++count;
                             });
    ASSERT_TRUE(wait_until(kSoon, [&] { return count == 3; }));
    consumer.finish();
    EXPECT_EQ(seen, (std::vector<std::string>{event_id(1), event_id(2), event_id(3)}));
}

TEST(Consumer, ItGoesOnWhereTheGroupHasCommitted)
{
    Scene scene;
    const outbox::ConsumerOptions options = scene.options();
    std::atomic<int> calls{0};
    const auto handler = [&](PGconn *transaction, const outbox::Record &record)
    {
        ++calls;
        insert_effect(transaction, record);
    };
    for (int round = 0; round < 2; ++round)
    {
        for (int i = 0; i < 20; ++i)
            scene.writer.send(scene.topic, std::to_string(i), "{}", event_id(round * 20 + i));
        scene.writer.flush();
        RunningConsumer consumer(options, handler);
        ASSERT_TRUE(scene.reaches(20 * (round + 1)));
        consumer.finish(); // commits what is done
        EXPECT_EQ(group_lag(kafka().bootstrap(), options.consumer, scene.topic), 0);
        // Without the marks only the offsets keep it from doing all again.
        scene.db.exec("delete from outbox.processed_events");
    }
    EXPECT_EQ(calls, 40);
}

TEST(Consumer, OffsetsInPostgresDecideWhereItGoesOnWhateverKafkaHasCommitted)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.offsets = OffsetPolicy::postgres;
    for (int i = 0; i < 40; ++i)
        scene.writer.send(scene.topic, "k", "{}", event_id(i), {}, 0);
    scene.writer.flush();
    // Half of it has been processed, says the database; Kafka knows nothing of it.
    scene.db.exec("select outbox.record_offset($1, $2, 0, 20)", options.consumer, scene.topic);
    std::atomic<int> calls{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 ++calls;
                                 insert_effect(transaction, record);
                             });
    EXPECT_TRUE(scene.reaches(20));
    EXPECT_TRUE(wait_until(kSoon,
                           [&]
                           {
                               return scene.db.value(
                                          "select next_offset from outbox.stored_offsets($1)"
                                          " where kafka_partition = 0",
                                          options.consumer) == "40";
                           }));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 20);
    EXPECT_EQ(calls, 20);
    EXPECT_EQ(scene.db.value("select min(event_id::text) from effects"), event_id(20));
}

TEST(Consumer, OffsetsThatTheTopicDoesNotHaveAreAnErrorWhenTheyAreInPostgres)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.offsets = OffsetPolicy::postgres;
    scene.writer.write(scene.topic, "k", "{}", event_id(1), {}, 0);
    scene.db.exec("select outbox.record_offset($1, $2, 0, 1000)", options.consumer, scene.topic);
    RunningConsumer consumer(options, &insert_effect);
    const std::exception_ptr failure = consumer.join();
    ASSERT_TRUE(failure);
    try
    {
        std::rethrow_exception(failure);
    }
    catch (const outbox::KafkaError &error)
    {
        EXPECT_EQ(error.code(), "_AUTO_OFFSET_RESET");
        const std::string what = error.what();
        EXPECT_NE(what.find(scene.topic + "/0 has offsets 0 to 1. "), std::string::npos) << what;
        EXPECT_NE(what.find("record_offset(consumer, '" + scene.topic + "', 0, 0)"),
                  std::string::npos)
            << what;
    }
    EXPECT_EQ(scene.effects(), 0);
}

// There record_offset() would not help.
TEST(Consumer, OffsetsThatTheTopicDoesNotHaveAreToBeSetWhereTheyAre)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.kafka_config["auto.offset.reset"] = "error"; // a new group has no offset
    scene.writer.write(scene.topic, "k", "{}", event_id(1), {}, 0);
    RunningConsumer consumer(options, &insert_effect);
    const std::exception_ptr failure = consumer.join();
    ASSERT_TRUE(failure);
    try
    {
        std::rethrow_exception(failure);
    }
    catch (const outbox::KafkaError &error)
    {
        const std::string what = error.what();
        EXPECT_NE(what.find("the group " + options.consumer + " in Kafka"), std::string::npos)
            << what;
        EXPECT_EQ(what.find("record_offset"), std::string::npos) << what;
    }
}

namespace
{

// Runs `task` while the process may open no more than `count` descriptors beyond those it has, and
// says what that threw.
std::string
with_few_descriptors(rlim_t count, const std::function<void()> &task)
{
    rlimit before = {};
    const int next = dup(0);
    if (next < 0 || close(next) != 0 || getrlimit(RLIMIT_NOFILE, &before) != 0)
        throw std::runtime_error("no descriptor");
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next) + count;
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        throw std::runtime_error("setrlimit");
    std::string thrown;
    try
    {
        task();
    }
    catch (const outbox::Error &error)
    {
        thrown = error.code();
    }
    catch (const std::exception &error)
    {
        thrown = std::string("no outbox::Error: ") + error.what();
    }
    if (setrlimit(RLIMIT_NOFILE, &before) != 0)
        throw std::runtime_error("setrlimit");
    return thrown;
}

} // namespace

// All that the API throws is an outbox::Error.
TEST(Consumer, WithoutFileDescriptorsRunThrowsAnErrorOfOurs)
{
    Scene scene;
    for (rlim_t count = 0; count < 16; ++count)
    {
        SCOPED_TRACE(count);
        const std::string made = with_few_descriptors(
            count, [&] { outbox::Consumer(scene.options(), &insert_effect).stop(); });
        EXPECT_TRUE(made == "53000" || (made.empty() && count > 0)) << made;
        outbox::Consumer consumer(scene.options(), &insert_effect);
        consumer.stop();
        const std::string ran = with_few_descriptors(count, [&] { consumer.run(); });
        EXPECT_TRUE(ran == "53000" || (ran.empty() && count > 0)) << ran;
    }
}

// Only Kafka itself knows that it is another topic, and what it tells is that the group is new to
// it.
TEST(Consumer, ATopicThatWasMadeAnewIsToldOfWhenItsOffsetsAreInPostgres)
{
    if (kafka().kind() == "embedded")
        return; // which keeps the offsets of groups
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.offsets = OffsetPolicy::postgres;
    const auto consume = [&](int effects)
    {
        RunningConsumer consumer(options, &insert_effect);
        EXPECT_TRUE(scene.reaches(effects));
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        return consumer.logged("made anew");
    };
    for (int i = 0; i < 3; ++i)
        scene.writer.write(scene.topic, "k", "{}", event_id(i), {}, 0);
    EXPECT_FALSE(consume(3));
    EXPECT_FALSE(consume(3));
    delete_topic(kafka().bootstrap(), scene.topic);
    EXPECT_TRUE(wait_until(kSoon,
                           [&]
                           {
                               try
                               {
                                   kafka().create_topic(scene.topic);
                                   return true;
                               }
                               catch (const std::exception &)
                               {
                                   return false; // it is still being deleted
                               }
                           }));
    RecordWriter writer(kafka().bootstrap());
    for (int i = 10; i < 15; ++i)
        writer.write(scene.topic, "k", "{}", event_id(i), {}, 0);
    EXPECT_TRUE(consume(5));
}

TEST(Consumer, ItNeedsNoOtherRightsThanThoseOfTheManual)
{
    Scene scene;
    const std::string role = scene.database.name() + "_books";
    scene.db.exec(
        "create role " + role + " login; grant usage on schema outbox to " + role +
        "; grant execute on function outbox.mark_processed(uuid, text),"
        " outbox.mark_processed_many(uuid[], text),"
        " outbox.record_offset(text, text, int, bigint), outbox.stored_offsets(text) to " +
        role + "; grant insert on effects to " + role);
    for (int i = 0; i < 50; ++i)
        scene.writer.send(scene.topic, "k", "{}", event_id(i), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.conninfo += " user=" + role;
    options.offsets = OffsetPolicy::postgres;
    options.batch = 20;
    {
        RunningConsumer consumer(options, &insert_effect);
        EXPECT_TRUE(scene.drained(options.consumer));
        for (int i = 50; i < 60; ++i) // one by one
            scene.writer.write(scene.topic, "k", "{}", event_id(i), {}, 0);
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
    }
    EXPECT_EQ(scene.effects(), 60);
    scene.db.exec("drop owned by " + role + "; drop role " + role);
}

// librdkafka finds some out when a client is made, which for dead letters may be never.
TEST(Consumer, OptionsThatCannotWorkAreRefusedWhenItIsMade)
{
    outbox::ConsumerOptions good = quick_options("group", "topic", "");
    const auto make = [](const outbox::ConsumerOptions &options)
    { return code_of([&] { const outbox::Consumer consumer(options, &insert_effect); }); };
    EXPECT_EQ(make(good), "");
    const std::vector<std::pair<std::string, std::string>> properties = {
        {"retries", "0"},
        {"max.in.flight", "100"},
        {"linger.ms", "60000"},
        {"queuing.strategy", "lifo"},
        {"session.timeout.ms", "3000000"}};
    for (const auto &[name, value] : properties)
    {
        outbox::ConsumerOptions options = good;
        options.kafka_config[name] = value;
        EXPECT_EQ(make(options), "22023") << name;
    }
    for (const std::string suffix : {"/dlq", " dlq", "\xC3\xA4", "?"})
    {
        outbox::ConsumerOptions options = good;
        options.dead_letter_suffix = suffix;
        EXPECT_EQ(make(options), "22023") << suffix;
    }
    for (const std::vector<std::string> &topics : std::vector<std::vector<std::string>>{
             {"topic", "other", "topic"}, {"to pic"}, {"."}, {".."}, {"a/b"}})
    {
        outbox::ConsumerOptions options = good;
        options.topics = topics;
        EXPECT_EQ(make(options), "22023") << topics.front();
    }
}
