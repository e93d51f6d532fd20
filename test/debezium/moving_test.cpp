// From Debezium's outbox event router over a classic table to the relay, while clients write: with
// the statements of docs/migrating.md.
#include <atomic>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <thread>

#include "e2e/servers.h"
#include "support/consumer.h"
#include "support/debezium.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

constexpr int kWriters = 2;
constexpr int kKeysOfEach = 5;
constexpr int kFewest = 200; // events of each writer before, and after
constexpr auto kLimit = std::chrono::seconds(60);

// The blocks of SQL of one section of the page.
std::vector<std::string>
statements()
{
    const std::string page = read_file(in_source("docs/migrating.md"));
    const size_t begin = page.find("\n## From Debezium's outbox event router\n");
    const size_t end = page.find("\n## ", begin + 1);
    if (begin == std::string::npos || end == std::string::npos)
        throw std::runtime_error("the section is not in docs/migrating.md");
    const std::string section = page.substr(begin, end - begin);
    const std::regex block("```sql\n([^`]*)```");
    std::vector<std::string> all;
    for (std::sregex_iterator at(section.begin(), section.end(), block), none; at != none; ++at)
        all.push_back((*at)[1]);
    if (all.size() != 4)
        throw std::runtime_error("the section has " + std::to_string(all.size()) + " blocks");
    return all;
}

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

// Clients that write rows of their own keys, numbered by key, until they are told to end.
class Writers
{
public:
    Writers(const TestDatabase &database, std::string type)
        : database_(database), type_(std::move(type))
    {
        for (int writer = 0; writer < kWriters; writer++)
            threads_.emplace_back([this, writer] { write(writer); });
    }
    ~Writers() { end(); }
    Writers(const Writers &) = delete;
    Writers &operator=(const Writers &) = delete;

    int written() const { return written_; }
    // After end(): what a client failed with; empty when none did.
    std::string failure() const { return failures_[0] + failures_[1]; }

    void end()
    {
        ended_ = true;
        for (std::thread &thread : threads_)
            if (thread.joinable())
                thread.join();
    }

private:
    void write(int writer)
    {
        try
        {
            Db db = database_.connect();
            for (int number = 0; !ended_; number++)
            {
                const int key = writer * kKeysOfEach + number % kKeysOfEach;
                db.exec("insert into public.outbox values (gen_random_uuid(), $1, $2, 'counted', "
                        "jsonb_build_object('n', $3::int))",
                        type_, "key-" + std::to_string(key), number / kKeysOfEach);
                ++written_;
                std::this_thread::sleep_for(Milliseconds(1)); // a pace, not a wait
            }
        }
        catch (const std::exception &error)
        {
            failures_[writer] = error.what();
        }
    }

    const TestDatabase &database_;
    const std::string type_;
    std::atomic<bool> ended_{false};
    std::atomic<int> written_{0};
    std::string failures_[kWriters];
    std::vector<std::thread> threads_;
};

void
wait_for_written(const Writers &writers, int count)
{
    if (!wait_until(kLimit, [&] { return writers.written() >= count; }))
        throw std::runtime_error("the clients do not write");
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
    OwnCluster server(Settings{{"wal_level", "logical"}});
    const TestDatabase database(server);
    const std::vector<std::string> sql = statements();
    Db db = database.connect();
    db.exec("select outbox.pause('moving in')");
    db.exec(sql[0]);
    db.exec(sql[1]);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Consumer marker(kafka().bootstrap(), {std::string(kTopicPrefix) + "moved"});

    Moved moved;
    auto debezium = std::make_unique<Debezium>(server, database.name(), kafka().bootstrap(),
                                               classic_properties());
    Writers writers(database, database.type());
    wait_for_written(writers, kWriters * kFewest);
    db.exec(sql[2]);
    wait_for_written(writers, writers.written() + kWriters * kFewest);
    if (!marker.read_count(1, kLimit))
        throw std::runtime_error("the marker did not come");
    debezium.reset(); // in good order
    consumer.read_for(Milliseconds(500));
    moved.by_debezium = consumer.records().size();
    db.exec(sql[3]);
    wait_for_written(writers, writers.written() + kWriters * kFewest);
    writers.end();
    if (!writers.failure().empty())
        throw std::runtime_error("a client failed: " + writers.failure());
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
    EXPECT_GE(moved.by_debezium, static_cast<size_t>(kWriters * kFewest));
    EXPECT_GE(moved.records.size(), moved.by_debezium + kWriters * kFewest);
    EXPECT_EQ(moved.records.size(), static_cast<size_t>(moved.written));
    std::map<std::string, int> next;
    std::map<std::string, std::set<int32_t>> partitions;
    std::set<std::string> ids;
    for (const Record &record : moved.records)
    {
        const std::string key = record.key.value_or("(none)");
        EXPECT_EQ(record.value, "{\"n\": " + std::to_string(next[key]++) + "}") << key;
        EXPECT_EQ(record.header("eventType"), "counted");
        EXPECT_TRUE(ids.insert(record.header("id").value_or("(none)")).second);
        partitions[key].insert(record.partition);
    }
    EXPECT_EQ(partitions.size(), static_cast<size_t>(kWriters * kKeysOfEach));
    for (const auto &[key, numbers] : partitions)
        EXPECT_EQ(numbers.size(), 1U) << key << " is in several partitions";
}

} // namespace outbox::test
