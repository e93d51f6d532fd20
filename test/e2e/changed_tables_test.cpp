// What a database administrator may do to outbox.events, and the relay still reads it right.
#include "servers.h"

using namespace outbox::test;

TEST(ChangedTables, TheRelayReadsPartitionsWhoseColumnsAreInOtherPlaces)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    size_t events = 0;
    const auto expect_event = [&](const std::string &id)
    {
        db.exec("select outbox.emit($1, $2, 'made', '{\"a\": 1}', '{\"h\": \"x\"}', "
                "'key', schema_version => 7)",
                database.type(), id);
        ASSERT_TRUE(consumer.read_count(++events, std::chrono::seconds(20))) << id;
        const Record &record = consumer.records().back();
        EXPECT_EQ(record.key, "key") << id;
        EXPECT_EQ(record.value, "{\"a\": 1}") << id;
        EXPECT_EQ(record.header("h"), "x") << id;
        EXPECT_EQ(record.header("event_type"), "made") << id;
        EXPECT_EQ(record.header("aggregate_type"), database.type()) << id;
        EXPECT_EQ(record.header("schema_version"), "7") << id;
    };
    expect_event("as made");
    db.exec("alter table outbox.events add column note text default 'x'");
    expect_event("with a column");
    db.exec("alter table outbox.events drop column note");
    expect_event("without it");
    // The current partition gets holes, and its columns in another order.
    db.exec("begin; alter table outbox.events detach partition outbox.events_0;"
            "alter table outbox.events_0 add column hole int;"
            "alter table outbox.events_0 drop column hole;"
            "alter table outbox.events_0 add column type_again text;"
            "update outbox.events_0 set type_again = event_type;"
            "alter table outbox.events_0 drop column event_type;"
            "alter table outbox.events_0 rename column type_again to event_type;"
            "alter table outbox.events_0 alter column event_type set not null;"
            "alter table outbox.events attach partition outbox.events_0 for values in (0); commit");
    expect_event("in other places");
}
