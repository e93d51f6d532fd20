// Routes that change all the time while Kafka refuses events, persons hold rows, and the relay
// starts again and again: by chance, with a seed that it says.
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "real_kafka_test.h"
#include "servers.h"
#include "support/kafka_admin.h"

using namespace outbox::test;

namespace
{

constexpr int kClients = 3;
constexpr int kKeys = 7;
constexpr int kActs = 60;
constexpr auto kLimit = std::chrono::seconds(60);

// An integer with blanks behind it, of which one in eight is too large for a topic.
constexpr const char *kEmit = "select outbox.emit($1, $2, 'made', to_jsonb(rpad($3::text, case "
                              "when $3::int % 8 = 0 then 5000 "
                              "else 20 end)))";

struct Storm
{
    Storm() : database(cluster()), db(database.connect())
    {
        for (const char *suffix : {"one", "two", "small", "new"})
            topics.push_back(database.name() + "." + suffix);
        kafka().create_topic(topics[0]);
        kafka().create_topic(topics[1]);
        kafka().create_topic(topics[2], 2, {{"max.message.bytes", "3000"}});
        for (const char *setting : {"backoff_initial = '50ms'", "backoff_max = '400ms'"})
            db.exec("alter database " + database.name() + " set outbox." + setting);
        route(topics[0]);
        database.restart_relay();
    }

    void route(const std::string &topic)
    {
        db.exec("insert into outbox.routes (aggregate_type, topic) values ($1, $2) "
                "on conflict (aggregate_type, event_type) do update set topic = excluded.topic",
                database.type(), topic);
    }

    TestDatabase database;
    Db db;
    std::vector<std::string> topics;
};

// Emit without an end, each of them events of its own keys, one after the other.
class Clients
{
public:
    explicit Clients(const TestDatabase &database)
    {
        for (int client = 0; client < kClients; ++client)
            threads_.emplace_back(
                [this, &database, client]
                {
                    Db db = database.connect();
                    for (int i = 1; !stop_; ++i)
                    {
                        db.exec(kEmit, database.type(),
                                "k" + std::to_string(client) + "." + std::to_string(i % kKeys),
                                std::to_string(i));
                        std::this_thread::sleep_for(Milliseconds(3));
                    }
                });
    }
    Clients(const Clients &) = delete;
    Clients &operator=(const Clients &) = delete;
    ~Clients()
    {
        stop_ = true;
        for (std::thread &thread : threads_)
            thread.join();
    }

private:
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

// Of the topics' first occurrences: what came behind a later event of its key.
std::string
order_of(const std::vector<Record> &records, std::set<std::string> &ids)
{
    std::map<std::pair<std::string, std::string>, int> last;
    std::set<std::pair<std::string, std::string>> seen;
    std::string wrong;
    for (const Record &record : records)
    {
        const std::string id = record.header("id").value_or("");
        ids.insert(id);
        if (!seen.insert({record.topic, id}).second)
            continue;
        const int number = std::stoi(record.value->substr(1));
        int &before = last.emplace(std::pair(record.topic, *record.key), -1).first->second;
        if (number < before)
            wrong += record.topic + " " + *record.key + ": " + std::to_string(number) + " behind " +
                     std::to_string(before) + "\n";
        before = std::max(before, number);
    }
    return wrong;
}

} // namespace

REAL_KAFKA_TEST(RouteStorm, LosesAndReordersNothing)
{
    const char *given = std::getenv("OUTBOX_TEST_SEED");
    const unsigned seed =
        given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device()();
    SCOPED_TRACE("OUTBOX_TEST_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](unsigned most) { return static_cast<size_t>(random() % most); };
    Storm storm;
    {
        const Clients clients(storm.database);
        Db person = storm.database.connect();
        bool holds = false;
        for (int act = 0; act < kActs; ++act)
        {
            const size_t what = below(10);
            if (what < 6)
                storm.route(storm.topics[below(4)]);
            else if (what == 6)
                storm.database.restart_relay();
            else if (what == 7)
                storm.db.exec("select outbox.retry(event_id) from outbox.dead_letters limit 5");
            else
            {
                person.exec(holds ? "commit"
                                  : "begin; select 1 from outbox.deliveries order by random() "
                                    "limit 3 for update skip locked");
                holds = !holds;
            }
            std::this_thread::sleep_for(Milliseconds(below(300)));
        }
    }
    storm.route(storm.topics[0]);
    EXPECT_TRUE(
        wait_until(kLimit,
                   [&]
                   {
                       storm.db.exec("select outbox.retry(event_id) from outbox.dead_letters");
                       return storm.db.value("select outbox.drain('1 s')") == "t" &&
                              storm.db.value("select count(*) from outbox.deliveries") == "0";
                   }))
        << storm.db.value("select r::text from outbox.relay_status r");

    const size_t count = std::stoul(storm.db.value("select count(*) from outbox.events"));
    Consumer consumer(kafka().bootstrap(), storm.topics);
    ASSERT_TRUE(consumer.read_count(count, kLimit)) << consumer.records().size() << " of " << count;
    consumer.read_for(Milliseconds(500));
    std::set<std::string> ids;
    EXPECT_EQ(order_of(consumer.records(), ids), "");
    EXPECT_EQ(ids.size(), count);
    std::printf("%zu events, %zu records\n", count, consumer.records().size());
}
