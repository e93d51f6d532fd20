// What many turns of the ring leave behind: nothing, not in the tables, nor in the catalogue. And
// the ring that must not turn.
#include "ring.h"
#include "servers.h"

using namespace outbox::test;

namespace
{

constexpr auto kLong = std::chrono::seconds(20);

constexpr const char *kCatalogues =
    "'pg_class', 'pg_attribute', 'pg_index', 'pg_depend', 'pg_shdepend', 'pg_type', "
    "'pg_constraint', 'pg_statistic'";

// A partition that has nothing in it is not left.
void
emit_until_turns(Db &db, const TestDatabase &database, long wanted)
{
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               db.exec("select outbox.emit($1, (i % 9)::text, 'e', "
                                       "jsonb_build_object('n', i)) from generate_series(1, 50) i",
                                       database.type());
                               return turns(db) >= wanted;
                           }));
}

struct Sizes
{
    std::string rows; // of the catalogues, which no turn may change
    long catalogue_bytes;
    long outbox_bytes;
};

Sizes
look(Db &db)
{
    db.exec("checkpoint"); // removes the files of truncated tables
    return {
        db.value("select string_agg(c || ' ' || n, ', ') from (select 'pg_class' c, count(*) n "
                 "from pg_class union all select 'pg_attribute', count(*) from pg_attribute union "
                 "all select 'pg_depend', count(*) from pg_depend union all select 'pg_type', "
                 "count(*) from pg_type) s"),
        number(db, "select sum(pg_total_relation_size(oid)) from pg_class where relnamespace = "
                   "'pg_catalog'::regnamespace and relname in (" +
                       std::string(kCatalogues) + ")"),
        number(db, "select sum(pg_total_relation_size(oid)) from pg_class where relnamespace = "
                   "'outbox'::regnamespace and relkind = 'r'")};
}

} // namespace

TEST(RingGrowth, TurnsLeaveNoDeadRowsAndNeitherTablesNorTheCatalogueGrow)
{
    OwnCluster server({{"outbox.retention", "1s"}, {"autovacuum_naptime", "1s"}, {"fsync", "off"}});
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    emit_until_turns(db, database, 9); // each partition was emptied, and is in use again
    const Sizes before = look(db);
    emit_until_turns(db, database, 16);
    const Sizes after = look(db);
    EXPECT_EQ(after.rows, before.rows);
    // TRUNCATE gives a table new files, and so its row in pg_class a new version; these are
    // vacuumed.
    EXPECT_LT(after.catalogue_bytes, before.catalogue_bytes + 300 * 1024);
    EXPECT_LT(after.outbox_bytes, before.outbox_bytes * 2);
    EXPECT_EQ(db.value("select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables where "
                       "schemaname = 'outbox' and relname like 'events%'"),
              "0");
    std::printf("%ld turns: catalogue %ld -> %ld kB, outbox %ld -> %ld kB\n", turns(db),
                before.catalogue_bytes / 1024, after.catalogue_bytes / 1024,
                before.outbox_bytes / 1024, after.outbox_bytes / 1024);
}

TEST(RingGrowth, WithARetentionOfZeroTheRingStandsStillAndNothingIsHeldBack)
{
    OwnCluster server(Settings{{"outbox.retention", "0"}});
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    // The relay's clock: a tick a second at most.
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
                               return number(db, "select count(*) from outbox.ticks") >= 2;
                           }));
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(turns(db), 0);
    const std::string events = db.value("select count(*) from outbox.events");

    server.configure("outbox.retention", "1s");
    server.reload();
    emit_until_turns(db, database, 1);
    // Somebody reads the partition that was left: it cannot be emptied.
    Db reader = database.connect();
    reader.exec("begin; select count(*) from outbox.events_0");
    const std::string held = "select count(*) from outbox.maintenance_status where "
                             "held_back_by is not null";
    EXPECT_TRUE(wait_until(kLong, [&] { return number(db, held) > 0; }));
    server.configure("outbox.retention", "0");
    server.reload();
    EXPECT_TRUE(wait_until(kLong, [&] { return number(db, held) == 0; }));
    reader.exec("commit");
    EXPECT_GE(number(db, "select count(*) from outbox.events_0"), std::stol(events));
    EXPECT_EQ(db.value("select done_total from outbox.maintenance_status where table_name = "
                       "'events_0'"),
              "0");
}
