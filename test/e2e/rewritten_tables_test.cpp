// An administrator rewrites, moves or changes the tables of events while the relay has read where
// the events are, and before it has sent them.
#include "odd_events.h"
#include "support/count.h"

using namespace outbox::test;

namespace
{

class RewrittenTables : public testing::Test
{
protected:
    static constexpr int kEvents = 400;
    static constexpr int kRolledBack = 400;

    RewrittenTables() : database(cluster()), db(database.connect()), part(current_partition())
    {
        kafka().create_topic(database.topic());
        consumer = std::make_unique<Consumer>(kafka().bootstrap(),
                                              std::vector<std::string>{database.topic()});
        publish_one();
    }

    void publish_one()
    {
        const std::string id =
            db.value("select outbox.emit($1, 'first', 'e', '{}')", database.type());
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    }

    std::string current_partition()
    {
        return "outbox.events_" + db.value("select slot from outbox.ring where is_current");
    }

    // Events of one window among rows that are rolled back: once those are removed, others stand
    // elsewhere, and the table ends before some of the places that were read.
    void emit_some()
    {
        Db other = database.connect();
        const auto roll_back = [&](int count)
        {
            other.exec("begin");
            other.exec("select count(outbox.emit($1, 'none', 'e', '{}')) from "
                       "generate_series(1, $2::int)",
                       database.type(), count);
            other.exec("rollback");
        };
        db.exec("begin");
        for (int i = 0; i < 4; ++i)
        {
            roll_back(kRolledBack / 8);
            db.exec("select count(outbox.emit($1, 'k' || n % 7, 'e', to_jsonb(n))) from "
                    "generate_series(1, $2::int) n",
                    database.type(), kEvents / 4);
        }
        roll_back(kRolledBack / 2);
        db.exec("commit");
    }

    // The relay has read the places of events, and sends none of them, when `change` is made.
    template <class Change> void change_while_paused(Change &&change)
    {
        db.exec("select outbox.pause()");
        ASSERT_TRUE(database.reaches_state("paused"));
        emit_some();
        ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return window_is_read(); }));
        change();
        db.exec("select outbox.resume()");
    }

    bool window_is_read()
    {
        return db.value(
                   "select coalesce(oldest_event_at is not null and backlog_events >= $1::int, "
                   "false) from outbox.relay_status",
                   kEvents) == "t";
    }

    void expect_all()
    {
        const Report report = check_delivery(db, *consumer);
        EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
        EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    }

    TestDatabase database;
    Db db;
    std::string part;
    std::unique_ptr<Consumer> consumer;
};

} // namespace

TEST_F(RewrittenTables, NothingIsLostWhateverRewritesAPartition)
{
    const pid_t relay = database.relay_pid();
    const std::vector<std::string> changes = {
        "vacuum " + part, // gives the rows at its end back
        "vacuum full " + part,
        "cluster " + part + " using " + part.substr(7) + "_xid_seq",
        "alter table " + part + " set unlogged; alter table " + part + " set logged",
        "reindex table " + part,
        "reindex table concurrently " + part,
        "alter table outbox.events add extra text default md5(random()::text)",
        "alter table outbox.events drop extra"};
    for (const std::string &change : changes)
    {
        SCOPED_TRACE(change);
        change_while_paused([&] { db.exec(change); });
        expect_all();
    }
    EXPECT_EQ(database.relay_pid(), relay) << "the relay was restarted";
}

// Its events are published, and no new ones are put where no view looks.
TEST_F(RewrittenTables, ADetachedPartitionTakesNoEventsAndLosesNone)
{
    change_while_paused([&] { db.exec("alter table outbox.events detach partition " + part); });
    EXPECT_TRUE(consumer->read_count(kEvents + 1, std::chrono::seconds(20)));
    for (const char *insert :
         {"select outbox.emit($1, 'k', 'e', '{}')",
          "insert into outbox.events (aggregate_type, aggregate_id, event_type) values ($1, 'k', "
          "'e')"})
        EXPECT_THROW(db.exec(insert, database.type()), SqlError) << insert;
    db.exec("alter table outbox.events attach partition " + part + " for values in (" +
            part.substr(part.size() - 1) + ")");
    publish_one();
    expect_all();
}

TEST_F(RewrittenTables, WhatTruncateRemovesIsToldOnceAndTheRestFlows)
{
    const size_t before = cluster().log_text().size();
    const auto times_told = [&]
    {
        return count(cluster().log_text().substr(before),
                     part + " was truncated, and not by the relay");
    };
    change_while_paused([&] { db.exec("truncate " + part); });
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return times_told() > 0; }));
    // Rows that were rolled back may be among those that are counted.
    const std::string told = cluster().log_text();
    const std::string words = "were not published are lost: at most ";
    const size_t at = told.find(words, before);
    ASSERT_NE(at, std::string::npos);
    const int lost = std::stoi(told.substr(at + words.size()));
    EXPECT_GE(lost, kEvents);
    EXPECT_LE(lost, kEvents + kRolledBack);
    publish_one();
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(times_told(), 1U);
    // New events hide that it was empty.
    db.exec("begin; select outbox.emit('" + database.type() + "', 'k', 'e', '{}'); truncate " +
            part + "; select outbox.emit('" + database.type() + "', 'k', 'e', '{}'); commit");
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return times_told() == 2U; }));
    publish_one();
    // What other rewrites leave out is nothing that anybody had seen.
    for (const char *rewrite : {"vacuum full ", "cluster "})
        db.exec(rewrite + part +
                (rewrite[0] == 'c' ? " using " + part.substr(7) + "_xid_seq" : ""));
    publish_one();
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(times_told(), 2U);
}

// Rows of rolled-back savepoints are none that were removed.
TEST_F(RewrittenTables, RolledBackSavepointsAreNothingToTellOf)
{
    const std::string before = cluster().log_text();
    for (int i = 0; i < 3; ++i)
    {
        db.exec("begin");
        db.exec("select outbox.emit($1, 'k', 'e', '1')", database.type());
        db.exec("savepoint a");
        db.exec("select count(outbox.emit($1, 'k', 'e', '2')) from generate_series(1, 20)",
                database.type());
        db.exec("rollback to a");
        db.exec("commit");
    }
    expect_all();
    publish_one();
    EXPECT_EQ(cluster().log_text().find("were gone before", before.size()), std::string::npos);
}

TEST_F(RewrittenTables, WithoutItsIndexTheRelayWaitsSaysWhyAndContinuesByItself)
{
    const std::string index = part + "_xid_seq";
    db.exec("drop index " + index);
    db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] { return cluster().log_contains(part + " has no usable index on (xid, seq)"); }));
    db.exec("create index another_name on " + part + " (xid, seq)");
    expect_all();
}

// Columns that were added and dropped are still counted in the rows.
TEST_F(RewrittenTables, ColumnsMayBeAddedAndDropped)
{
    const auto emit_both_ways = [&]
    {
        db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
        db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, "
                "headers) values ($1, 'k', 'e', '{}', '{\"a\": \"b\"}')",
                database.type());
    };
    db.exec("alter table outbox.events add tenant text not null default 'main' || 1");
    emit_both_ways();
    EXPECT_EQ(db.value("select count(*) from outbox.events where tenant = 'main1'"), "3");
    db.exec("alter table outbox.events alter tenant drop default");
    EXPECT_THROW(db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type()), SqlError);
    db.exec("alter table outbox.events drop tenant");
    emit_both_ways();
    expect_all();
}

// What the relay changes, PostgreSQL lets it change only in tables whose rows have a name there.
TEST(Publications, OneOfAllTablesStopsNeitherTheRelayNorOperators)
{
    OddEvents scene(cluster());
    Db &db = scene.db();
    db.exec("set client_min_messages = error; create publication everything for all tables");
    EXPECT_EQ(
        db.value("select coalesce(string_agg(c.oid::regclass::text, ', '), '') from pg_class c "
                 "where c.relnamespace = 'outbox'::regnamespace and c.relkind in ('r', 'p') "
                 "and c.relreplident <> 'f' and not exists (select from pg_index i where "
                 "i.indrelid = c.oid and i.indisprimary)"),
        "")
        << "tables without a replica identity";
    const pid_t relay = scene.database().relay_pid();
    const std::string odd = scene.insert({{"headers", "'7'"}, {"aggregate_id", "'k'"}});
    const std::string behind = scene.emit("k");
    ASSERT_TRUE(scene.fails(odd)) << scene.describe();
    db.exec("select outbox.retry($1)", odd);
    ASSERT_TRUE(scene.fails(odd)) << scene.describe();
    db.exec("select outbox.discard($1, 'test')", odd);
    ASSERT_TRUE(scene.arrive({behind})) << scene.describe();
    db.exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    db.exec("select outbox.resume()");
    db.exec("insert into outbox.routes (aggregate_type, on_failure) values ('x', 'skip')");
    db.exec("delete from outbox.routes");
    ASSERT_TRUE(scene.arrive({scene.emit("k")})) << scene.describe();
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(scene.database().relay_pid(), relay) << "the relay was restarted";
}
