// A consumer behind pgbouncer in transaction mode.
#include <atomic>

#include "harness.h"

#include "support/pooler.h"

using namespace outbox::test;

// RESET ALL gives a pooled connection the settings that the pooler has opened it with.
TEST(Pooler, TextIsTheSameForEachRecordInADatabaseThatIsNotInUtf8)
{
    Scene scene;
    Db admin(scene.server, "postgres");
    const std::string name = unique_name("latin_");
    admin.exec("create database " + name + " encoding latin1 locale 'C' template template0");
    {
        Db db(scene.server, name);
        db.exec("create extension outbox; create table effects (event_id uuid, text text, settings"
                " text)");
        const Pooler pooler(scene.server);
        constexpr int kRecords = 8;
        for (int i = 0; i < kRecords; ++i)
            scene.writer.send(scene.topic, "k", "\xC3\xA4", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.conninfo = pooler.conninfo(name);
        options.offsets = outbox::OffsetPolicy::postgres;
        int calls = 0;
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &record)
            {
                if (++calls % 3 == 1)
                    throw std::runtime_error("after a rollback, too");
                const char *values[] = {record.event_id.c_str(), record.value->c_str()};
                const std::unique_ptr<PGresult, decltype(&PQclear)> result(
                    PQexecParams(
                        transaction,
                        "insert into effects values ($1, $2, concat_ws(' ', current_setting"
                        "('client_encoding'), current_setting('application_name')))",
                        2, nullptr, values, nullptr, nullptr, 0),
                    &PQclear);
                if (PQresultStatus(result.get()) != PGRES_COMMAND_OK)
                    throw std::runtime_error(PQerrorMessage(transaction));
                run_sql(transaction, "set client_encoding = 'sql_ascii'; set work_mem = '77kB'");
            });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(db.value("select count(*) from effects where length(text) = 1"),
                  std::to_string(kRecords));
        EXPECT_EQ(db.value("select string_agg(distinct settings, '|') from effects"),
                  "UTF8 outbox consumer " + options.consumer);
    }
    admin.exec("drop database " + name + " with (force)");
}

// Two members share two connections of the server, so each transaction may have another one.
TEST(Pooler, BatchesOfTwoMembersMakeEachEffectOnceAndKeepTheirOrder)
{
    Scene scene;
    number_effects(scene.db);
    const Pooler pooler(scene.server);
    constexpr int kRecords = 200;
    const auto write = [&](int from)
    {
        for (int i = from; i < from + kRecords; ++i)
            scene.writer.send(scene.topic, std::to_string(i % 4), "", event_id(i), {}, i % 4);
        scene.writer.flush();
    };
    write(0);
    outbox::ConsumerOptions options = scene.options();
    options.conninfo = pooler.conninfo(scene.database.name());
    options.offsets = outbox::OffsetPolicy::postgres;
    options.batch = 10;
    std::atomic<int> leftovers{0};
    const auto handler = [&](PGconn *transaction, const outbox::Record &record)
    {
        if (run_sql(transaction, "select coalesce(current_setting('app.tenant', true), '')") != "")
            ++leftovers;
        run_sql(transaction, "set app.tenant = 'x'; set role pg_monitor; reset role");
        run_sql(transaction, "insert into effects values ('" + record.event_id + "', '" +
                                 record.key.value_or("") + "')");
    };
    auto one = std::make_unique<RunningConsumer>(options, handler);
    EXPECT_TRUE(scene.reaches(1));
    RunningConsumer other(options, handler); // which gets half of the partitions
    write(kRecords);
    EXPECT_TRUE(scene.reaches(kRecords));
    one->finish();
    one.reset();
    write(2 * kRecords);
    EXPECT_TRUE(scene.drained(options.consumer));
    other.finish();
    EXPECT_EQ(scene.effects(), 3 * kRecords);
    EXPECT_EQ(scene.events(), 3 * kRecords);
    EXPECT_EQ(misplaced_effects(scene.db), 0);
    EXPECT_EQ(leftovers, 0);
}
