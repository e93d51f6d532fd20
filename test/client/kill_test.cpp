// The whole way, from emit_many() over the relay and Kafka to the effects of three consumers, while
// their processes and the relay's are killed at random.
#include <atomic>
#include <random>
#include <set>

#include "consumer_process.h"
#include "harness.h"
#include "outbox/emit.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kKeys = 200;

// Emits events with amounts 1 to `count`, a thousand in each transaction.
void
emit_events(const std::string &conninfo, const std::string &type, int count)
{
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(conninfo.c_str()),
                                                                  &PQfinish);
    constexpr int kChunk = 1000;
    for (int begin = 1; begin <= count; begin += kChunk)
    {
        std::vector<outbox::Event> events;
        for (int i = begin; i < begin + kChunk && i <= count; ++i)
        {
            outbox::Event event;
            event.aggregate_type = type;
            event.aggregate_id = "account-" + std::to_string(i % kKeys);
            event.event_type = "booked";
            event.payload = outbox::Json{"{\"amount\": " + std::to_string(i) + "}"};
            events.push_back(std::move(event));
        }
        run_sql(connection.get(), "begin");
        outbox::emit_many(connection.get(), events);
        run_sql(connection.get(), "commit");
    }
}

// Reads the topic as it grows, and writes every tenth event into it once more.
class Repeater
{
public:
    Repeater(const std::string &topic, size_t events)
        : thread_([this, topic, events] { run(topic, events); })
    {
    }
    ~Repeater()
    {
        stopping_ = true;
        thread_.join();
    }
    bool finished() const { return finished_; }

private:
    void run(const std::string &topic, size_t events)
    {
        RecordWriter writer(kafka().bootstrap());
        Consumer reader(kafka().bootstrap(), {topic});
        std::set<std::string> seen;
        reader.pass_to(
            [&](const Record &record)
            {
                if (seen.insert(record.header("id").value()).second && seen.size() % 10 == 0)
                    writer.send(topic, record.key.value(), record.value.value(),
                                record.header("id").value());
            });
        while (!stopping_ && seen.size() < events)
            reader.read_until(Milliseconds(200),
                              [&](const auto &) { return seen.size() >= events; });
        writer.flush();
        finished_ = true;
    }

    std::atomic<bool> stopping_{false};
    std::atomic<bool> finished_{false};
    std::thread thread_;
};

// Whether everything in the topic has been read. What a killed consumer had stored in PostgreSQL,
// nobody commits to Kafka before the partition's next record.
bool
all_read(Db &db, const ConsumerProcessOptions &options)
{
    if (!options.own_offsets)
        return group_lag(kafka().bootstrap(), options.group, options.topic) == 0;
    const std::string stored = db.value(
        "select coalesce(sum(next_offset), 0) from outbox.stored_offsets($1)", options.group);
    const std::optional<int64_t> written = records_in(kafka().bootstrap(), options.topic);
    return written && std::to_string(*written) == stored;
}

struct Run
{
    int events;
    bool own_offsets;
    int batch;
    int kills;
};

void
expect_exact_sum(const Run &run)
{
    std::mt19937 random(choose_seed());
    OwnCluster server({{"outbox.backoff_initial", "100ms"},
                       {"outbox.backoff_max", "500ms"},
                       {"fsync", "off"},
                       {"max_connections", "100"}});
    server.expect_kill();
    TestDatabase database(server);
    database.connect().exec(kEffectTables);
    kafka().create_topic(database.topic(), 6);

    ConsumerProcessOptions options;
    options.conninfo = server.conninfo(database.name());
    options.bootstrap = kafka().bootstrap();
    options.group = unique_name("killed-");
    options.topic = database.topic();
    options.own_offsets = run.own_offsets;
    options.batch = run.batch;
    std::vector<std::unique_ptr<Process>> consumers;
    for (int i = 0; i < 3; ++i)
        consumers.push_back(start_consumer(options));

    emit_events(options.conninfo, database.type(), run.events);
    const Repeater repeater(database.topic(), static_cast<size_t>(run.events));
    int kills = 0;
    const auto some_time = [&] {
        std::this_thread::sleep_for(Milliseconds(std::uniform_int_distribution(200, 1200)(random)));
    };
    for (; kills < run.kills; ++kills)
    {
        some_time();
        std::printf("kill %d with %s effects\n", kills + 1,
                    database.connect().value("select count(*) from effects").c_str());
        const int victim = std::uniform_int_distribution(0, 3)(random);
        if (victim == 3)
            database.kill_relay(); // the server restarts all its processes then
        else
        {
            consumers[static_cast<size_t>(victim)]->kill9();
            consumers[static_cast<size_t>(victim)] = start_consumer(options);
        }
    }

    Db db = database.connect();
    const std::string want = std::to_string(run.events);
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(60), [&]
                   { return std::stoi(db.value("select count(*) from effects")) >= run.events; }));
    EXPECT_TRUE(wait_until(std::chrono::seconds(30), [&] { return repeater.finished(); }));
    EXPECT_TRUE(wait_until(std::chrono::seconds(30), [&] { return all_read(db, options); }));
    for (auto &consumer : consumers)
        EXPECT_TRUE(consumer->stop(SIGTERM, std::chrono::seconds(15)));

    const int64_t sum = static_cast<int64_t>(run.events) * (run.events + 1) / 2;
    EXPECT_EQ(db.value("select count(*) from effects"), want);
    EXPECT_EQ(db.value("select count(distinct event_id) from effects"), want);
    EXPECT_EQ(db.value("select sum(amount) from totals"), std::to_string(sum));
    EXPECT_EQ(db.value("select count(*) from effects e full join"
                       " (select id from outbox.events) o on o.id = e.event_id"
                       " where o.id is null or e.event_id is null"),
              "0");
}

} // namespace

TEST(Kill, TheSumOfEffectsIsExactWhenRelayAndConsumersAreKilledAtRandom)
{
    expect_exact_sum({100000, false, 100, 15});
}

TEST(Kill, TheSumOfEffectsIsExactWithOffsetsInPostgresAndOneRecordInEachTransaction)
{
    expect_exact_sum({15000, true, 1, 8});
}
