// Databases made from another one by CREATE DATABASE … TEMPLATE: what was the original's stays its
// own, what is emitted in the copy is published by it, and nothing counts as published that is not.
#include <algorithm>

#include "faults.h"

#include "support/seed.h"

using namespace outbox::test;

namespace
{

using Ids = std::vector<std::string>;

constexpr auto kNothingComes = Milliseconds(800);

Ids
emit_several(Db &db, const std::string &type, int count)
{
    Ids ids;
    for (int i = 0; i < count; ++i)
        ids.push_back(db.value("select outbox.emit($1, $2, 'e', '{}')", type,
                               "key-" + std::to_string(i % 3)));
    return ids;
}

std::string
status_of(Db &db, const std::string &id)
{
    return db.value("select status from outbox.event_status where id = $1", id);
}

// An original with published events, and others that it is paused before.
struct Original
{
    Original() : server(kFaultSettings), database(server), db(database.connect())
    {
        kafka().create_topic(database.topic());
        published = emit_several(db, database.type(), 4);
        EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
        db.exec("select outbox.pause('for the test')");
        EXPECT_TRUE(database.reaches_state("paused"));
        waiting = emit_several(db, database.type(), 5);
    }

    // A copy whose relay has not run yet: templates have none.
    Db make_copy(const std::string &name)
    {
        copy_as(name + " is_template true");
        Db copy(server, name);
        copy.exec("delete from outbox.pauses");
        return copy;
    }

    // Nobody else may be in the template.
    void copy_as(const std::string &options)
    {
        db = Db(server, "postgres");
        std::string statement = "create database " + options;
        statement.insert(statement.find(' ', 16) == std::string::npos ? statement.size()
                                                                      : statement.find(' ', 16),
                         " template " + database.name());
        db.exec(statement);
        db = database.connect();
    }

    void start_relay_of(const std::string &name)
    {
        Db(server, "postgres").exec("alter database " + name + " is_template false");
    }

    OwnCluster server;
    TestDatabase database;
    Db db;
    Ids published;
    Ids waiting;
};

std::vector<std::string>
ids_of(const Consumer &consumer)
{
    std::vector<std::string> ids;
    for (const Record &record : consumer.records())
        ids.push_back(record.header("id").value_or(""));
    return ids;
}

} // namespace

TEST(Copies, WhatIsEmittedInACopyBeforeItsRelayRunsIsPublishedWhateverIsAlteredOnTheDatabase)
{
    Original original;
    Db copy = original.make_copy("copied");
    const Ids own = emit_several(copy, original.database.type(), 6);
    Db admin(original.server, "postgres");
    admin.exec("create role reader");
    admin.exec("grant connect on database copied to reader");
    admin.exec("alter database copied set work_mem = '8MB'");
    admin.exec("alter database copied connection limit 50");
    original.start_relay_of("copied");
    for (const std::string &id : own)
        EXPECT_EQ(copy.value("select outbox.wait_published($1, '20 s')", id), "t");

    Consumer consumer(kafka().bootstrap(), {original.database.topic()});
    ASSERT_TRUE(consumer.read_count(10, std::chrono::seconds(20)));
    consumer.read_for(kNothingComes);
    EXPECT_EQ(consumer.records().size(), 10U) << "the copy published what is the original's";
    for (const std::string &id : original.published)
        EXPECT_EQ(status_of(copy, id), "PUBLISHED");
    for (const std::string &id : original.waiting)
        EXPECT_EQ(status_of(copy, id), "DISCARDED");
    EXPECT_EQ(copy.value("select outbox.drain('10 s')"), "t");

    original.db.exec("select outbox.resume()");
    EXPECT_TRUE(consumer.read_count(15, std::chrono::seconds(20)));
    EXPECT_EQ(original.db.value("select outbox.drain('20 s')"), "t");
}

// Without the row's first version it is not known which of the events are the copy's own: none of
// them may be lost, so the original's come twice.
TEST(Copies, ACopyOfWhichItIsNotKnownWhenItWasMadeLosesNothingOfItsOwn)
{
    Original original;
    Db copy = original.make_copy("copied");
    const Ids own = emit_several(copy, original.database.type(), 3);
    Db admin(original.server, "postgres");
    admin.exec("alter database copied connection limit 50");
    // A row that some snapshot could still see is left by VACUUM. Statistics say so later than
    // that.
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return admin.value(
                                          "select not exists (select from pg_stat_activity a "
                                          "where a.pid <> pg_backend_pid() "
                                          "and (age(a.backend_xmin) >= age(d.xmin) "
                                          "or age(a.backend_xid) >= age(d.xmin))) "
                                          "from pg_database d where d.datname = 'copied'") == "t";
                           }));
    // Such a VACUUM waits for who is just reading a block.
    admin.exec("vacuum (disable_page_skipping, freeze) pg_database");
    original.start_relay_of("copied");
    for (const std::string &id : own)
        EXPECT_EQ(copy.value("select outbox.wait_published($1, '20 s')", id), "t");
    Consumer consumer(kafka().bootstrap(), {original.database.topic()});
    ASSERT_TRUE(consumer.read_count(12, std::chrono::seconds(20)))
        << "read " << consumer.records().size();
    EXPECT_EQ(copy.value("select count(*) from outbox.event_status where status = 'PUBLISHED'"),
              "12");
}

TEST(Copies, WhatTheOriginalHasSetAsideIsItsOwn)
{
    Original original;
    original.db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                     "partition_key, state, blocking, attempts, next_attempt_at) "
                     "select e.seq, e.xid, e.slot, e.id, 1, $2, e.aggregate_id, 'RETRYING', true, "
                     "1, now() from outbox.events e where e.id = $1",
                     original.waiting.front(), original.database.topic());
    Db copy = original.make_copy("copied");
    original.start_relay_of("copied");
    const Ids own = emit_several(copy, original.database.type(), 3);
    for (const std::string &id : own)
        EXPECT_EQ(copy.value("select outbox.wait_published($1, '20 s')", id), "t");
    Consumer consumer(kafka().bootstrap(), {original.database.topic()});
    ASSERT_TRUE(consumer.read_count(7, std::chrono::seconds(20)));
    consumer.read_for(kNothingComes);
    EXPECT_EQ(consumer.records().size(), 7U);
    EXPECT_EQ(status_of(copy, original.waiting.front()), "DISCARDED");
    EXPECT_EQ(original.db.value("select state from outbox.deliveries"), "RETRYING");
    EXPECT_EQ(copy.value("select distinct reason from outbox.deliveries"),
              "left to the database that this one is a copy of");
}

// A pause is a decision about what happens next, and nobody has taken it back.
TEST(Copies, ACopyOfAPausedDatabaseIsPaused)
{
    Original original;
    original.copy_as("copied");
    Db copy(original.server, "copied");
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return copy.value("select state from outbox.relay_status") == "paused"; }));
    const Ids own = emit_several(copy, original.database.type(), 2);
    copy.exec("select outbox.resume()");
    for (const std::string &id : own)
        EXPECT_EQ(copy.value("select outbox.wait_published($1, '20 s')", id), "t");
}

// Copies of copies, at random moments, with emitters in all of them.
TEST(Copies, OfCopiesPublishEachEventOnceAndSayPublishedOfNothingElse)
{
    Original original;
    std::mt19937 random(choose_seed());
    std::vector<std::string> names = {original.database.name()};
    size_t expected = original.published.size();
    original.db.exec("select outbox.resume()");
    expected += original.waiting.size();
    for (int i = 0; i < 4; ++i)
    {
        const std::string name = "copied_" + std::to_string(i);
        const std::string source = names[random() % names.size()];
        {
            Db db(original.server, source);
            expected += emit_several(db, original.database.type(), 1 + random() % 40).size();
        }
        original.db = Db(original.server, "postgres"); // nobody is in the template
        Db admin(original.server, "postgres");
        admin.exec("create database " + name + " template " + source);
        if (random() % 2 == 0)
            admin.exec("alter database " + name + " connection limit 40");
        Db db(original.server, name);
        expected += emit_several(db, original.database.type(), 1 + random() % 10).size();
        names.push_back(name);
    }
    Consumer consumer(kafka().bootstrap(), {original.database.topic()});
    EXPECT_TRUE(consumer.read_count(expected, std::chrono::seconds(30)));
    consumer.read_for(kNothingComes);
    std::vector<std::string> arrived = ids_of(consumer);
    EXPECT_EQ(arrived.size(), expected);
    std::sort(arrived.begin(), arrived.end());
    EXPECT_EQ(std::unique(arrived.begin(), arrived.end()), arrived.end()) << "some came twice";
    for (const std::string &name : names)
    {
        Db db(original.server, name);
        EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t") << name;
        for (const std::string &id :
             db.column("select id from outbox.event_status where status = 'PUBLISHED'"))
            EXPECT_TRUE(std::binary_search(arrived.begin(), arrived.end(), id)) << name;
        EXPECT_EQ(db.value("select count(*) from outbox.event_status where status = 'NEW'"), "0");
    }
}
