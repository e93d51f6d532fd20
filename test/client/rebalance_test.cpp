// Partitions that move from one member of a group to another.
#include <atomic>
#include <thread>

#include "harness.h"

using namespace outbox::test;

TEST(Rebalance, WhatIsInHandIsLeftToTheNextOwner)
{
    Scene scene;
    for (int i = 0; i < 40; ++i)
        scene.writer.send(scene.topic, "k", "{}", event_id(i), {}, i % 4);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1000;
    options.batch = 40;
    // The first member has all partitions and cannot process anything.
    outbox::ConsumerOptions slow = options;
    slow.backoff_initial = slow.backoff_max = std::chrono::seconds(60);
    RunningConsumer first(slow, [](PGconn *, const outbox::Record &)
                          { throw std::runtime_error("out of order"); });
    ASSERT_TRUE(wait_until(kSoon, [&] { return first.logged("attempt 1 of"); }));
    RunningConsumer second(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return first.logged("to the partitions' next owner"); }));
    EXPECT_TRUE(scene.reaches(20)); // those of two partitions
    EXPECT_LT(scene.effects(), 40);
    first.finish();
    EXPECT_TRUE(scene.drained(options.consumer));
    second.finish();
    EXPECT_EQ(scene.effects(), 40);
    EXPECT_EQ(scene.events(), 40);
}

TEST(Rebalance, MembersThatComeAndGoUnderLoadMakeEachEffectOnce)
{
    struct Case
    {
        const char *strategy;
        outbox::OffsetPolicy policy;
        size_t batch;
    };
    for (const Case &one : {Case{"cooperative-sticky", outbox::OffsetPolicy::kafka, 1},
                            Case{"range", outbox::OffsetPolicy::postgres, 10}})
    {
        Scene scene;
        outbox::ConsumerOptions options = scene.options();
        options.kafka_config["partition.assignment.strategy"] = one.strategy;
        options.offsets = one.policy;
        options.batch = one.batch;
        constexpr int kRounds = 6;
        constexpr int kEvents = 300;
        std::vector<std::unique_ptr<RunningConsumer>> members;
        for (int round = 0; round < kRounds; ++round)
        {
            for (int i = 0; i < kEvents; ++i)
                scene.writer.send(scene.topic, std::to_string(i), "{}",
                                  event_id(round * kEvents + i));
            scene.writer.flush();
            if (members.size() == 3)
                members.erase(members.begin());
            members.push_back(std::make_unique<RunningConsumer>(options, &insert_effect));
            EXPECT_TRUE(scene.reaches(round * kEvents + kEvents / 2));
        }
        EXPECT_TRUE(scene.drained(options.consumer));
        for (const auto &member : members)
            member->finish();
        EXPECT_EQ(scene.effects(), kRounds * kEvents) << one.strategy;
        EXPECT_EQ(scene.events(), kRounds * kEvents) << one.strategy;
    }
}

// Another member waits for the transaction under way; then it has done the rest, and nothing of
// that is done here. It waits for the table, as who waits for that comes before the next
// transaction here; who waits for a row may come after it.
TEST(Rebalance, AMemberThatWasOvertakenMakesNoEffectOfWhatTheOtherHasDone)
{
    for (const int batch : {1, 10})
    {
        Scene scene;
        for (int i = 0; i < 2 * batch; ++i)
            scene.writer.send(scene.topic, "k", "{}", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.offsets = outbox::OffsetPolicy::postgres;
        options.batch = static_cast<size_t>(batch);
        std::atomic<int> calls{0};
        std::thread other;
        Db locks = scene.database.connect();
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &record)
            {
                insert_effect(transaction, record);
                if (++calls > 1)
                    return;
                other = std::thread(
                    [&]
                    {
                        Db db = scene.database.connect();
                        db.exec("begin");
                        db.exec("lock table outbox.consumer_offsets in share row exclusive mode");
                        db.exec("select outbox.record_offset($1, $2, 0, $3)", options.consumer,
                                scene.topic, 2 * batch);
                        db.exec("commit");
                    });
                EXPECT_TRUE(wait_until(kSoon,
                                       [&]
                                       {
                                           return locks.value("select count(*) from pg_locks "
                                                              "where not granted") != "0";
                                       }));
            });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        other.join();
        EXPECT_EQ(scene.effects(), calls);
        EXPECT_LE(calls, batch);
    }
}

// librdkafka 2.0.2 would end the process at some of these moments.
TEST(Rebalance, ACooperativeMemberCanBeStoppedBeforeItsFirstAssignment)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.kafka_config["partition.assignment.strategy"] = "cooperative-sticky";
    for (int i = 0; i < 60; ++i)
    {
        RunningConsumer consumer(options, &insert_effect);
        std::this_thread::sleep_for(Milliseconds(2 * i)); // each another moment
        consumer.finish();
    }
}
