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

} // namespace

TEST(MovingFromAPollingRelay, LosesRepeatsAndReordersNothingWhileClientsWrite)
{
    const TestDatabase database(cluster());
    const std::vector<std::string> sql = statements_of("From a table with a polling relay", 4);
    Db db = database.connect();
    db.exec("select outbox.pause('moving in')");
    db.exec(sql[0]);
    configure(db, database, sql[1]);
    kafka().create_topic(database.type());
    Consumer consumer(kafka().bootstrap(), {database.type()});

    Poller poller(database);
    Writers writers(database, "insert into public.outbox_messages (topic, key, body) values ('" +
                                  database.type() + "', $1, jsonb_build_object('n', $2::int))");
    writers.write_more(kFewest);
    db.exec(sql[2]);
    writers.write_more(kFewest);
    poller.stop();
    ASSERT_EQ(poller.failure(), "");
    const size_t by_poller =
        std::stoul(db.value("select count(*) from public.outbox_messages m "
                            "where not exists (select from outbox.events e where e.id = m.id)"));
    ASSERT_TRUE(consumer.read_count(by_poller, kLimit)) << by_poller;
    db.exec(sql[3]);
    writers.write_more(kFewest);
    writers.finish();
    consumer.read_count(static_cast<size_t>(writers.written()), kLimit);
    consumer.read_for(Milliseconds(300));
    EXPECT_GE(by_poller, static_cast<size_t>(kFewest));
    EXPECT_GE(consumer.records().size(), by_poller + kFewest);
    expect_each_once_in_order(consumer.records(), writers.written());
}
