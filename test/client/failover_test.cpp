// A standby becomes the primary, and the consumer knows both.
#include "harness.h"

using namespace outbox::test;

// What the standby had not got when its primary died is done again there, in the order of each key;
// nothing else is.
TEST(FailOver, AConsumerThatKnowsBothServersGoesOnWhereTheNewPrimaryIs)
{
    OwnCluster primary;
    Scene scene(primary);
    number_effects(scene.db);
    PgCluster standby("standby");
    standby.follow(primary, "standby");
    standby.start();
    const auto write = [&](int from, int to)
    {
        for (int i = from; i < to; ++i)
            scene.writer.send(scene.topic, std::to_string(i % 2), "", event_id(i), {}, i % 2);
        scene.writer.flush();
    };
    outbox::ConsumerOptions options = scene.options();
    options.offsets = outbox::OffsetPolicy::postgres;
    options.conninfo += " host=127.0.0.1,127.0.0.1 port=" + std::to_string(primary.port()) + "," +
                        std::to_string(standby.port()) + " target_session_attrs=read-write";
    RunningConsumer consumer(options,
                             [](PGconn *transaction, const outbox::Record &record)
                             {
                                 run_sql(transaction, "insert into effects values ('" +
                                                          record.event_id + "', '" +
                                                          record.key.value_or("") + "')");
                             });
    write(0, 10);
    EXPECT_TRUE(scene.reaches(10));
    {
        Db there(standby, scene.database.name());
        EXPECT_TRUE(
            wait_until(kSoon, [&] { return there.value("select count(*) from effects") == "10"; }));
        standby.configure("primary_conninfo", "");
        standby.reload();
        EXPECT_TRUE(wait_until(
            kSoon,
            [&] { return there.value("select count(*) from pg_stat_wal_receiver") == "0"; }));
    }
    write(10, 20);
    EXPECT_TRUE(scene.reaches(20));
    EXPECT_TRUE(scene.drained(options.consumer));
    const std::string name = scene.database.name();
    primary.stop(Shutdown::kImmediate);
    standby.promote();
    write(20, 30);
    {
        Db db(standby, name);
        EXPECT_TRUE(wait_until(
            kSoon, [&] { return std::stoi(db.value("select count(*) from effects")) >= 30; }));
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(db.value("select count(*) from effects"), "30");
        EXPECT_EQ(db.value("select count(distinct event_id) from effects"), "30");
        EXPECT_EQ(misplaced_effects(db), 0);
    }
    EXPECT_TRUE(consumer.logged("it has lost commits"));
    EXPECT_FALSE(consumer.logged("attempt"));
    standby.stop();
}
