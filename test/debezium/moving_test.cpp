// From Debezium's outbox event router over a classic table to the relay, while clients write: with
// the statements of docs/migrating.md.
#include <memory>
#include <set>
#include <stdexcept>

#include "e2e/moving.h"
#include "support/debezium.h"
#include "support/tree.h"

namespace outbox::test
{

namespace
{

constexpr int kFewest = 400; // events before, meanwhile, and after
constexpr auto kLimit = std::chrono::seconds(60);

// Debezium as its documentation has it, for the classic table.
Properties
classic_properties()
{
    Properties properties = read_properties(in_source("docs/debezium.properties"));
    for (auto it = properties.begin(); it != properties.end();)
        it = it->first.rfind("transforms.outbox.", 0) == 0 ? properties.erase(it) : std::next(it);
    properties["publication.name"] = "dbz_publication";
    properties["table.include.list"] = "public.outbox";
    properties["transforms.outbox.type"] = "io.debezium.transforms.outbox.EventRouter";
    properties["transforms.outbox.table.fields.additional.placement"] = "type:header:eventType";
    properties["poll.interval.ms"] = "10";
    return properties;
}

struct Moved
{
    std::vector<Record> records;
    size_t by_debezium = 0; // of them
    int written = 0;
};

// The whole move. Debezium and the relay write the same topic.
Moved
move()
{
    BesideDebezium beside;
    OwnCluster &server = beside.server;
    const TestDatabase &database = beside.database;
    Db &db = beside.db;
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Consumer marker(kafka().bootstrap(), {std::string(kTopicPrefix) + "moved"});

    Moved moved;
    auto debezium = std::make_unique<Debezium>(server, database.name(), kafka().bootstrap(),
                                               classic_properties());
    Writers writers(database, "insert into public.outbox values (gen_random_uuid(), '" +
                                  database.type() +
                                  "', $1, 'counted', jsonb_build_object('n', $2::int))");
    writers.write_more(kFewest);
    db.exec(beside.sql[BesideDebezium::kMove]);
    writers.write_more(kFewest);
    if (!marker.read_count(1, kLimit))
        throw std::runtime_error("the marker did not come");
    debezium.reset(); // in good order
    moved.by_debezium = std::stoul(
        db.value("select count(*) from public.outbox o where aggregatetype = $1 and not exists "
                 "(select from outbox.events e where e.id = o.id)",
                 database.type()));
    if (!consumer.read_count(moved.by_debezium, kLimit))
        throw std::runtime_error("Debezium has not sent what is its");
    db.exec(beside.sql[BesideDebezium::kResume]);
    writers.write_more(kFewest);
    writers.finish();
    moved.written = writers.written();
    consumer.read_count(static_cast<size_t>(moved.written), kLimit);
    consumer.read_for(Milliseconds(500));
    moved.records = consumer.records();
    return moved;
}

} // namespace

TEST(MovingFromDebezium, LosesRepeatsAndReordersNothingWhileClientsWrite)
{
    const Moved moved = move();
    EXPECT_GE(moved.by_debezium, static_cast<size_t>(kFewest));
    EXPECT_GE(moved.records.size(), moved.by_debezium + kFewest);
    expect_each_once_in_order(moved.records, moved.written);
    std::set<std::string> ids;
    for (const Record &record : moved.records)
    {
        EXPECT_EQ(record.header("eventType"), "counted");
        EXPECT_TRUE(ids.insert(record.header("id").value_or("(none)")).second);
    }
}

} // namespace outbox::test
