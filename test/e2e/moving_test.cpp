// From a table with a polling relay to outbox, while clients write: with the statements of
// docs/migrating.md.
#include <stdexcept>

#include "moving.h"

using namespace outbox::test;

namespace
{

constexpr int kFewest = 300; // events before, meanwhile, and after
constexpr auto kLimit = std::chrono::seconds(60);
constexpr auto kLeftLimit = std::chrono::seconds(10);

// A polling relay as the textbooks write it.
class Poller
{
public:
    explicit Poller(const TestDatabase &database)
        : database_(database), producer_(make_kafka_client(RD_KAFKA_PRODUCER, kafka().bootstrap(),
                                                           {{"partitioner", "murmur2_random"},
                                                            {"enable.idempotence", "true"}})),
          thread_([this] { poll(); })
    {
    }
    ~Poller() { stop(); }
    Poller(const Poller &) = delete;
    Poller &operator=(const Poller &) = delete;

    // When it has nothing left.
    void stop()
    {
        stopped_ = true;
        if (thread_.joinable())
            thread_.join();
    }
    const std::string &failure() const { return failure_; }

private:
    void poll()
    {
        try
        {
            Db db = database_.connect();
            while (!stopped_)
            {
                (void) send_some(db);
                std::this_thread::sleep_for(Milliseconds(5)); // as such relays do
            }
            if (!wait_until(kLeftLimit, [&] { return !send_some(db); }))
                failure_ = "the poller still gets rows";
        }
        catch (const std::exception &error)
        {
            failure_ = error.what();
        }
    }

    bool send_some(Db &db)
    {
        db.exec("begin");
        const Result rows = db.exec("select topic, key, body, number from public.outbox_messages "
                                    "where sent_at is null order by number limit 100 for update");
        std::string numbers = "0";
        for (int row = 0; row < rows.rows(); row++)
        {
            produce(rows.text(row, 0), rows.text(row, 1), rows.text(row, 2));
            numbers += ", " + rows.text(row, 3);
        }
        if (rd_kafka_flush(producer_.get(), 30000) != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw std::runtime_error("the poller's records are not acknowledged");
        db.exec("update public.outbox_messages set sent_at = now() where number in (" + numbers +
                ")");
        db.exec("commit");
        return rows.rows() > 0;
    }

    void produce(const std::string &topic, const std::string &key, std::string body)
    {
        if (rd_kafka_producev(producer_.get(), RD_KAFKA_VTYPE_TOPIC, topic.c_str(),
                              RD_KAFKA_VTYPE_KEY, key.data(), key.size(), RD_KAFKA_VTYPE_VALUE,
                              body.data(), body.size(), RD_KAFKA_VTYPE_MSGFLAGS,
                              RD_KAFKA_MSG_F_COPY,
                              RD_KAFKA_VTYPE_END) != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw std::runtime_error("the poller cannot produce");
    }

    const TestDatabase &database_;
    KafkaHandle producer_;
    std::atomic<bool> stopped_{false};
    std::string failure_;
    std::thread thread_;
};

// The settings of the page, which calls its database shop. Each statement is a transaction of its
// own, as psql has it: a reload within that of the setting would come before it.
void
configure(Db &db, const TestDatabase &database, std::string sql)
{
    const std::string shop = "database shop ";
    sql.replace(sql.find(shop), shop.size(), "database " + database.name() + " ");
    const size_t end = sql.find(';') + 1;
    db.exec(sql.substr(0, end));
    db.exec(sql.substr(end));
}

// The blocks of the page.
enum
{
    kTable,
    kSettings,
    kMove,
    kRehearsal,
    kResume,
    kBack,
    kBlocks
};

class MovingFromAPollingRelay : public testing::Test
{
protected:
    MovingFromAPollingRelay()
        : database_(cluster()), sql_(statements_of("From a table with a polling relay", kBlocks)),
          db_(database_.connect())
    {
        db_.exec("select outbox.pause('moving in')");
        db_.exec(sql_[kTable]);
        configure(db_, database_, sql_[kSettings]);
    }

    std::string insert(const std::string &rest = "") const
    {
        return "insert into public.outbox_messages (topic, key, body) values ('" +
               database_.type() + "', $1, jsonb_build_object('n', $2::int))" + rest;
    }
    std::string events() { return db_.value("select count(*) from outbox.events"); }

    const TestDatabase database_;
    const std::vector<std::string> sql_;
    Db db_;
};

} // namespace

TEST_F(MovingFromAPollingRelay, LosesRepeatsAndReordersNothingWhileClientsWrite)
{
    kafka().create_topic(database_.type());
    Consumer consumer(kafka().bootstrap(), {database_.type()});

    Poller poller(database_);
    Writers writers(database_, insert());
    writers.write_more(kFewest);
    db_.exec(sql_[kMove]);
    writers.write_more(kFewest);
    poller.stop();
    ASSERT_EQ(poller.failure(), "");
    const size_t by_poller =
        std::stoul(db_.value("select count(*) from public.outbox_messages m "
                             "where not exists (select from outbox.events e where e.id = m.id)"));
    ASSERT_TRUE(consumer.read_count(by_poller, kLimit)) << by_poller;
    ASSERT_EQ(db_.exec(sql_[kResume]).rows(), 1);
    writers.write_more(kFewest);
    writers.finish();
    consumer.read_count(static_cast<size_t>(writers.written()), kLimit);
    consumer.read_for(Milliseconds(300));
    EXPECT_GE(by_poller, static_cast<size_t>(kFewest));
    EXPECT_GE(consumer.records().size(), by_poller + kFewest);
    expect_each_once_in_order(consumer.records(), writers.written());
}

// Also the try behind it: nothing of the first one is left.
TEST_F(MovingFromAPollingRelay, GoesBackAndIsDoneAgainWhileClientsWrite)
{
    kafka().create_topic(database_.type());
    Poller poller(database_);
    Writers writers(database_, insert());
    writers.write_more(kFewest);
    db_.exec(sql_[kMove]);
    writers.write_more(kFewest);
    db_.exec(sql_[kBack]);
    writers.write_more(kFewest);
    db_.exec("create extension outbox");
    db_.exec("select outbox.pause('moving in')");
    db_.exec(sql_[kMove]);
    writers.write_more(kFewest);
    poller.stop();
    ASSERT_EQ(poller.failure(), "");
    ASSERT_EQ(db_.exec(sql_[kResume]).rows(), 1);
    writers.finish();
    Consumer consumer(kafka().bootstrap(), {database_.type()});
    consumer.read_count(static_cast<size_t>(writers.written()), kLimit);
    consumer.read_for(Milliseconds(300));
    expect_each_once_in_order(consumer.records(), writers.written());
}

TEST_F(MovingFromAPollingRelay, HoldsBackByItselfWhatMustNotBeginYet)
{
    db_.exec("select outbox.resume()"); // or who forgot the pause
    db_.exec(insert(), "1", 0);
    db_.exec(sql_[kMove]);
    EXPECT_EQ(db_.value("select reason from outbox.pauses"), "moving in");
    EXPECT_EQ(db_.exec(sql_[kResume]).rows(), 0) << "the poller has not sent the first row";
    db_.exec("update public.outbox_messages set sent_at = now()");
    EXPECT_EQ(db_.exec(sql_[kResume]).rows(), 1);
    EXPECT_EQ(db_.value("select count(*) from outbox.pauses"), "0");
}

TEST_F(MovingFromAPollingRelay, MakesNoEventOfARowThatIsLeftOut)
{
    db_.exec(sql_[kMove]);
    db_.exec("create unique index on public.outbox_messages (key)");
    for (int i = 0; i < 2; i++)
        db_.exec(insert(" on conflict do nothing"), "1", i);
    EXPECT_EQ(db_.value("select count(*) from public.outbox_messages"), "1");
    EXPECT_EQ(events(), "1");
}

TEST_F(MovingFromAPollingRelay, IsTriedBeforeAndLeavesNothing)
{
    if (db_.value("select count(*) from pg_roles where rolname = 'shop'") == "0")
        db_.exec("create role shop");
    db_.exec("grant select, insert on public.outbox_messages to shop");
    db_.exec(insert(), "1", 0);
    std::string tried = sql_[kMove];
    const std::string end = "commit;";
    tried.replace(tried.rfind(end), end.size(), sql_[kRehearsal] + "rollback;");
    EXPECT_THROW(db_.exec(tried), SqlError) << "shop may not emit";
    db_.exec("rollback");
    db_.exec("select outbox.grant_emitter('shop')");
    db_.exec(tried);
    db_.exec("insert into public.outbox_messages (topic, key, body) values ('t', '', '{}')");
    EXPECT_THROW(db_.exec(tried), SqlError) << "an event has a key";
    db_.exec("rollback");
    EXPECT_EQ(events(), "0");
    db_.exec(insert(), "2", 0);
    EXPECT_EQ(events(), "0") << "no trigger is left";
    db_.exec("drop owned by shop");
}

// What Debezium reads is what the publication has. test/debezium does the move with Debezium
// itself.
TEST(MovingFromDebezium, GoesBackWithWhatWasEmittedSince)
{
    BesideDebezium beside;
    Db &db = beside.db;
    db.exec("select pg_create_logical_replication_slot('debezium', 'pgoutput')");
    const std::string insert = "insert into public.outbox select gen_random_uuid(), 'order', '1', "
                               "'made', '{}' from generate_series(1, 3)";
    const auto seen = [&]
    {
        return db.value("select count(*) from pg_logical_slot_peek_binary_changes('debezium', "
                        "null, null, 'proto_version', '1', 'publication_names', "
                        "'dbz_publication') where get_byte(data, 0) = ascii('I')");
    };
    db.exec(insert);
    db.exec(beside.sql[BesideDebezium::kMove]);
    db.exec(insert);
    ASSERT_EQ(seen(), "4") << "three and the marker";
    db.exec(beside.sql[BesideDebezium::kBack]);
    EXPECT_EQ(seen(), "7");
    db.exec(insert);
    EXPECT_EQ(seen(), "10");
    EXPECT_EQ(db.value("select count(*) from public.outbox where type = 'made'"), "9");
    EXPECT_EQ(db.value("select count(*) from pg_extension where extname = 'outbox'"), "0");
}
