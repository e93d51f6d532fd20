// Settings of the consumer's role.
#include <atomic>

#include "harness.h"

using namespace outbox::test;

namespace
{

outbox::ConsumerOptions
with_setting(const Scene &scene, const std::string &setting)
{
    outbox::ConsumerOptions options = scene.options();
    options.conninfo += " options='-c " + setting + "'";
    return options;
}

} // namespace

// Two members add to the same row; who fails for the other is tried again, and blamed for nothing.
TEST(Roles, SerializableTransactionsThatFailForEachOtherAreTriedAgain)
{
    for (const size_t batch : {1, 5})
    {
        Scene scene;
        scene.db.exec("create table totals (n int); insert into totals values (0)");
        outbox::ConsumerOptions options =
            with_setting(scene, "default_transaction_isolation=serializable");
        options.max_attempts = 1; // a failure that counts would be a dead letter
        options.batch = batch;
        std::atomic<int> readers{0};
        const auto add = [&](PGconn *transaction, const outbox::Record &record)
        {
            const int n = std::stoi(run_sql(transaction, "select n from totals"));
            if (++readers <= 2) // one of each member, of which one will fail
                wait_until(kSoon, [&] { return readers >= 2; });
            insert_effect(transaction, record);
            run_sql(transaction, "update totals set n = " + std::to_string(n + 1));
        };
        RunningConsumer one(options, add);
        RunningConsumer other(options, add);
        for (const RunningConsumer *member : {&one, &other})
            EXPECT_TRUE(wait_until(kSoon, [&] { return member->logged(scene.topic + "/"); }));
        constexpr int kRecords = 60;
        for (int i = 0; i < kRecords; ++i)
            scene.writer.send(scene.topic, "k", "", event_id(i), {}, i % 4);
        scene.writer.flush();
        EXPECT_TRUE(scene.drained(options.consumer));
        one.finish();
        other.finish();
        EXPECT_TRUE(one.logged("40001") || other.logged("40001"));
        EXPECT_EQ(scene.db.value("select n from totals"), std::to_string(kRecords));
        EXPECT_EQ(scene.effects(), kRecords);
        EXPECT_EQ(scene.events(), kRecords);
        EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
    }
}

TEST(Roles, AStatementTimeoutIsTheFailureOfItsRecord)
{
    Scene scene;
    for (int i = 0; i < 3; ++i)
        scene.writer.send(scene.topic, "k", i == 1 ? "slow" : "", event_id(i), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1;
    options.batch = 3;
    RunningConsumer consumer(options,
                             [](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (record.value != "slow")
                                     return;
                                 run_sql(transaction, "set local statement_timeout = '50ms'");
                                 run_sql(transaction, "select pg_sleep(60)");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 2);
    const std::vector<Record> letters = scene.dead_letters(1);
    ASSERT_EQ(letters.size(), 1U);
    EXPECT_NE(letters[0].header("dlq_error").value_or("").find("statement timeout"),
              std::string::npos);
}

// The wait for a concurrent duplicate is a statement as well, but not the handler's.
TEST(Roles, AStatementTimeoutOutsideOfTheHandlerIsNobodysFailure)
{
    Scene scene;
    outbox::ConsumerOptions options = with_setting(scene, "statement_timeout=3s");
    options.max_attempts = 1;
    Db other = scene.database.connect();
    other.exec("begin");
    other.exec("select outbox.mark_processed($1, $2)", event_id(1), options.consumer);
    scene.writer.write(scene.topic, "k", "", event_id(1), {}, 0);
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("statement timeout"); }));
    other.exec("rollback");
    EXPECT_TRUE(scene.reaches(1));
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
}

TEST(Roles, WhileTransactionsAreReadOnlyNothingIsProcessedAndNobodyIsBlamed)
{
    for (const auto policy : {outbox::OffsetPolicy::kafka, outbox::OffsetPolicy::postgres})
    {
        Scene scene;
        const std::string setting =
            "alter database " + scene.database.name() + " set default_transaction_read_only = ";
        scene.db.exec(setting + "on");
        scene.writer.write(scene.topic, "k", "", event_id(1), {}, 0);
        outbox::ConsumerOptions options = scene.options();
        options.max_attempts = 1;
        options.offsets = policy;
        RunningConsumer consumer(options, &insert_effect);
        EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("25006"); }));
        scene.db.exec(setting + "off");
        EXPECT_TRUE(scene.reaches(1));
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
    }
}
