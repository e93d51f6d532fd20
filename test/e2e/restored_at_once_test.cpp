// A dump that is restored in one transaction, which may end at any moment of the relay's look.
#include "faults.h"

using namespace outbox::test;

namespace
{

// As rows of a restored dump that are not committed. The relay looks at each of them, which takes
// it some milliseconds.
constexpr const char *kManyRows =
    "begin; insert into outbox.events (slot, seq, xid, aggregate_type, aggregate_id, event_type) "
    "select 7, i, 5, 'not committed', 'k', 'e' from generate_series(1, 60000) i";

// Three events: one that was published, one that has failed, and one of after the position.
constexpr const char *kDump =
    "begin; "
    "insert into outbox.events (slot, seq, xid, id, aggregate_type, aggregate_id, event_type) "
    "select 0, n, 10 * n, ('00000000-0000-4000-a000-0000000000a' || n)::uuid, '%', 'k' || n, 'e' "
    "from generate_series(1, 3) n; "
    "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, "
    "blocking, attempts, failed_at, last_error) values (2, 20, 0, "
    "'00000000-0000-4000-a000-0000000000a2', 1, 't', 'k2', 'FAILED', true, 3, now(), 'by hand'); "
    "insert into outbox.relay_position (system_identifier, database_oid, timeline, "
    "data_directory, written_by, from_snapshot, to_snapshot, last_seq, published_total, "
    "updated_at, rows_counted) values (1, 1, 1, 1, '3', '25:25:', '25:25:', 0, 2, now(), true); "
    "insert into outbox.dump_rows values ('dump', 0), ('events_0', 0), ('events_0', 1), "
    "('deliveries', 0), ('relay_position', 0)";

// Whether the relay has been in the same transaction for a while; the look is short.
bool
relay_is_looking(Db &db)
{
    bool looking = false;
    for (int i = 0; i < 100 && !looking; ++i)
        looking = db.value("select exists (select from pg_stat_activity where backend_type = "
                           "'outbox relay' and datname = current_database() and "
                           "clock_timestamp() - xact_start > interval '6 ms')") == "t";
    return looking;
}

} // namespace

TEST(Merge, ADumpThatIsCommittedWhileTheRelayLooksIsSettledWhole)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    Db many = database.connect();
    many.exec(kManyRows);
    std::string dump = kDump;
    dump.replace(dump.find('%'), 1, database.type());
    Db restore = database.connect();
    restore.exec(dump);
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return relay_is_looking(db); }));
    restore.exec("commit");
    many.exec("rollback");
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return db.value("select count(*) from outbox.events where xid < 0") == "0"; }))
        << db.value("select last_error from outbox.relay_status");
    const auto status = [&]
    {
        return db.value("select string_agg(status, ' ' order by aggregate_id) "
                        "from outbox.event_status where aggregate_id like 'k_'");
    };
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return status() == "PUBLISHED FAILED PUBLISHED"; }))
        << status();
    EXPECT_EQ(db.value("select count(*) from outbox.restored_deliveries"), "0");
}
