// A position that somebody has edited or deleted: the relay stops, or publishes all again.
#include <csignal>

#include "faults.h"
#include "numbered_events.h"

using namespace outbox::test;

namespace
{

// What somebody does to the position, and what the relay says to it. `cure` puts it right.
struct Damage
{
    std::string edit;
    std::string message;
    std::string cure;
};

// The edit is made while the relay has nothing to write; it is a later relay that comes upon it.
void
expect_stop(const Damage &damage)
{
    SCOPED_TRACE(damage.edit);
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    emit_many(db, database.type(), 1, 20);
    wait_all_published(db);
    ASSERT_TRUE(wait_until(
        std::chrono::seconds(10),
        [&] { return db.value("select published_total from outbox.relay_status") == "20"; }));
    const pid_t relay = database.relay_pid();
    db.exec(damage.edit);
    // Until it has ended it publishes by the position that it knows.
    ASSERT_EQ(kill(relay, SIGTERM), 0);
    ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] { return kill(relay, 0) != 0; }));
    emit_many(db, database.type(), 21, 25);

    EXPECT_TRUE(database.reaches_state("stopped"));
    EXPECT_NE(db.value("select last_error from outbox.relay_status").find(damage.message),
              std::string::npos)
        << db.value("select last_error from outbox.relay_status");
    ASSERT_TRUE(consumer.read_count(20, std::chrono::seconds(20)));
    consumer.read_for(Milliseconds(300));
    EXPECT_EQ(consumer.records().size(), 20U) << "it published all the same";

    db.exec(damage.cure);
    // In a subtransaction, as drivers and psql's ON_ERROR_ROLLBACK do.
    for (const char *statement :
         {"begin", "savepoint a", "select outbox.adopt_position()", "release a", "commit"})
        db.exec(statement);
    EXPECT_TRUE(database.reaches_state("running"));
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
}

constexpr const char *kAsWrittenByTheRelay = "written_by = pg_current_xact_id()";

} // namespace

TEST(Position, AnEditedRowStopsTheRelayUntilSomebodyVouchesForIt)
{
    expect_stop({"update outbox.relay_position set last_seq = last_seq", "not by the relay", ""});
}

TEST(Position, ARowFromTheFutureStopsTheRelayUntilItIsPutRight)
{
    expect_stop({std::string("update outbox.relay_position set to_snapshot = "
                             "'4000000000:4000000000:', ") +
                     kAsWrittenByTheRelay,
                 "have not begun", "update outbox.relay_position set to_snapshot = from_snapshot"});
}

TEST(Position, ARowThatGoesBackwardsStopsTheRelayUntilItIsPutRight)
{
    expect_stop({std::string("update outbox.relay_position set to_snapshot = '3:3:', ") +
                     kAsWrittenByTheRelay,
                 "older than", "update outbox.relay_position set to_snapshot = from_snapshot"});
}

TEST(Position, ASecondRowStopsTheRelayUntilItIsTakenAway)
{
    expect_stop({"insert into outbox.relay_position select * from outbox.relay_position;"
                 "update outbox.relay_position set written_by = pg_current_xact_id()",
                 "several rows",
                 "delete from outbox.relay_position where ctid = (select max(ctid) from "
                 "outbox.relay_position)"});
}

TEST(Position, ImpossibleValuesAreRefusedByTheTable)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    emit_many(db, database.type(), 1, 1);
    wait_all_published(db);
    for (const char *value : {"from_snapshot = null", "last_seq = null", "to_snapshot = 'x'",
                              "to_snapshot = '10:5:'", "to_snapshot = '5:10:12'"})
        EXPECT_THROW(db.exec(std::string("update outbox.relay_position set ") + value), SqlError)
            << value;
    EXPECT_TRUE(database.reaches_state("running"));
}

// The last resort of the operations manual.
TEST(Position, WithoutARowEverythingIsPublishedAgainAndNothingLost)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    emit_many(db, database.type(), 1, 30);
    wait_all_published(db);
    db.exec("delete from outbox.relay_position");
    emit_many(db, database.type(), 31, 40);
    EXPECT_TRUE(consumer.read_count(70, std::chrono::seconds(30)));
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_LE(report.duplicates, 40U);
    print_figures("position deleted", 1, report);
}
