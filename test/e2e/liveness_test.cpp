// No destination holds up another: while topics and partitions fail in every way, and are tried,
// isolated, rerouted, reloaded and restarted, the events of healthy topics keep arriving.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "faults.h"
#include "servers.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kHealthy = 4;
constexpr int kAiling = 4;
constexpr Milliseconds kLongestStall = std::chrono::seconds(2);
constexpr auto kPace = Milliseconds(20);
constexpr auto kLimit = std::chrono::seconds(60);

int64_t
wall_ms(std::chrono::system_clock::time_point time)
{
    return std::chrono::duration_cast<Milliseconds>(time.time_since_epoch()).count();
}

// Healthy topics and ailing ones on a Kafka of its own, with steady emission to all of them, and a
// reader that notes when events arrive.
class Scene
{
public:
    Scene() : kafka_(started()), server_(settings(kafka_->bootstrap())), database_(server_)
    {
        for (int i = 0; i < kHealthy + kAiling; ++i)
        {
            types_.push_back(database_.name() + (i < kHealthy ? "_healthy" : "_ailing") +
                             std::to_string(i));
            topics_.push_back(kTopicPrefix + types_.back());
            kafka_->create_topic(topics_.back());
        }
        kafka_->create_topic(detour());
        for (const std::string &topic : topics_)
            all_topics_.push_back(topic);
        all_topics_.push_back(detour());
    }
    ~Scene()
    {
        stop();
        reading_ = false;
        if (reader_.joinable())
            reader_.join();
    }

    std::string detour() const { return database_.name() + ".detour"; }
    EmbeddedKafka &kafka() { return *kafka_; }
    OwnCluster &server() { return server_; }
    TestDatabase &database() { return database_; }
    const std::string &topic(int number) const { return topics_[static_cast<size_t>(number)]; }
    const std::string &type(int number) const { return types_[static_cast<size_t>(number)]; }

    void start()
    {
        reader_ = std::thread([this] { read(); });
        emitter_ = std::thread([this] { emit(); });
        // Everything is known and flows.
        EXPECT_TRUE(wait_until(kLimit, [&] { return seen_ > 20 * (kHealthy + kAiling); }));
        measuring_ = true;
    }

    void stop()
    {
        emitting_ = false;
        if (emitter_.joinable())
            emitter_.join();
    }

    // The longest time from commit to arrival of a healthy event since the last call.
    Milliseconds take_longest_stall() { return Milliseconds(longest_.exchange(0)); }

    // Once everything is mended: nothing is lost, and each key is in order.
    Report finish()
    {
        stop();
        Db db = database_.connect();
        const auto settled = [&]
        {
            return db.value("select count(*) from outbox.deliveries") == "0" &&
                   db.value("select backlog_events from outbox.relay_status") == "0";
        };
        EXPECT_TRUE(wait_until(kLimit, settled))
            << db.value("select r::text from outbox.relay_status r") << "\n"
            << db.value("select string_agg(d::text, E'\n') from (select seq, lane, topic, state, "
                        "blocking, attempts, next_attempt_at - clock_timestamp(), last_error from "
                        "outbox.deliveries order by seq limit 10) d");
        // The consumer may still be waiting for news of a topic that was unknown.
        const size_t count = std::stoul(db.value("select count(*) from outbox.events"));
        wait_until(kLimit, [&] { return different_ >= count; });
        std::this_thread::sleep_for(Milliseconds(500));
        reading_ = false;
        reader_.join();
        // What goes out again on demand is another matter, and so is the topic of an event whose
        // route changes just then: order is judged in the topic in which it arrived first.
        std::map<std::string, std::string> first;
        records_.erase(std::remove_if(records_.begin(), records_.end(),
                                      [&](const Record &record)
                                      {
                                          const std::string id = record.header("id").value_or("");
                                          return record.header("replay_id").has_value() ||
                                                 first.emplace(id, record.topic).first->second !=
                                                     record.topic;
                                      }),
                       records_.end());
        std::vector<Event> events = committed_events(db);
        const std::vector<Delivery> arrived = deliveries(records_);
        for (Event &event : events)
            if (const auto found = first.find(event.id); found != first.end())
                event.topic = found->second;
        return compare(events, arrived);
    }

private:
    static std::unique_ptr<EmbeddedKafka> started()
    {
        auto kafka = std::make_unique<EmbeddedKafka>();
        kafka->start();
        return kafka;
    }

    static Settings settings(const std::string &bootstrap)
    {
        Settings all = kFaultSettings;
        all["outbox.bootstrap_servers"] = bootstrap;
        all["outbox.max_attempts"] = "1000";
        return all;
    }

    void emit()
    {
        Db db = database_.connect();
        for (int i = 0; emitting_; ++i)
        {
            for (size_t topic = 0; topic < types_.size(); ++topic)
                db.exec("select outbox.emit($1, $2, 'e', to_jsonb((extract(epoch from "
                        "clock_timestamp()) * 1000)::bigint))",
                        types_[topic],
                        types_[topic].substr(types_[topic].size() - 2) + "k" +
                            std::to_string(i % 7));
            std::this_thread::sleep_for(kPace);
        }
    }

    void read()
    {
        Consumer consumer(kafka_->bootstrap(), all_topics_);
        std::set<std::string> healthy(topics_.begin(), topics_.begin() + kHealthy);
        std::set<std::string> ids;
        std::set<std::string> all_ids;
        consumer.pass_to(
            [&](const Record &record)
            {
                records_.push_back(record);
                ++seen_;
                all_ids.insert(record.header("id").value_or(""));
                different_ = all_ids.size();
                if (healthy.count(record.topic) == 0 || !measuring_ ||
                    record.header("replay_id").has_value() ||
                    !ids.insert(record.header("id").value_or("")).second)
                    return;
                const int64_t took = wall_ms(record.received) - std::stoll(*record.value);
                if (took > longest_)
                    longest_ = took;
            });
        while (reading_)
            consumer.read_for(Milliseconds(50));
    }

    std::unique_ptr<EmbeddedKafka> kafka_;
    OwnCluster server_;
    TestDatabase database_;
    std::vector<std::string> types_;
    std::vector<std::string> topics_;
    std::vector<std::string> all_topics_;
    std::vector<Record> records_;
    std::atomic<bool> emitting_{true};
    std::atomic<bool> reading_{true};
    std::atomic<bool> measuring_{false};
    std::atomic<int> seen_{0};
    std::atomic<size_t> different_{0}; // without repeats
    std::atomic<int64_t> longest_{0};
    std::thread emitter_;
    std::thread reader_;
};

// A way in which an ailing topic fails, until it is mended.
struct Fault
{
    const char *name;
    std::vector<std::string> commands; // to mock_broker; TOPIC and PARTITION are replaced
    std::vector<std::string> mend;
};

const std::vector<Fault> kFaults = {
    {"no leader", {"leader TOPIC PARTITION -1"}, {"leader TOPIC PARTITION 1"}},
    {"unknown", {"topic-error TOPIC UNKNOWN_TOPIC_OR_PART"}, {"topic-error TOPIC NO_ERROR"}},
    {"forbidden", {"topic-error TOPIC TOPIC_AUTHORIZATION_FAILED"}, {"topic-error TOPIC NO_ERROR"}},
    {"a batch too large", {"fail Produce MSG_SIZE_TOO_LARGE 1"}, {}},
    {"time-outs", {"fail Produce REQUEST_TIMED_OUT 2"}, {}},
};

void
command(EmbeddedKafka &kafka, std::string words, const std::string &topic, int partition)
{
    if (const size_t at = words.find("TOPIC "); at != std::string::npos)
        words.replace(at, 5, topic);
    if (const size_t at = words.find("PARTITION"); at != std::string::npos)
        words.replace(at, 9, std::to_string(partition));
    kafka.command(words);
}

} // namespace

TEST(Liveness, HealthyTopicsFlowWhileOthersFailInEveryWayAndTheRelayIsBusyWithThem)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    const auto choose = [&](size_t count)
    { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
    const int rounds = fault_rounds(10);
    Scene scene;
    scene.start();
    Db db = scene.database().connect();
    const std::vector<std::pair<const char *, std::function<void()>>> deeds = {
        {"nothing", [] {}},
        {"reload", [&] { scene.server().reload(); }},
        {"restart by a setting",
         [&]
         {
             db.exec("alter database " + scene.database().name() + " set outbox.backoff_max = '" +
                     std::to_string(400 + choose(200)) + "ms'");
             scene.server().reload();
         }},
        {"retry",
         [&]
         {
             // Locked first: one that is published just now has no row to be retried.
             db.exec("select outbox.retry(event_id) from (select event_id from outbox.deliveries "
                     "where state = 'RETRYING' limit 20 for update skip locked) d");
         }},
        {"replay",
         [&] {
             db.exec("select outbox.replay(aggregate_type => $1, dry_run => false)", scene.type(0));
         }},
        {"route",
         [&]
         {
             const std::string type = scene.type(kHealthy + static_cast<int>(choose(kAiling)));
             if (choose(2) == 0)
                 db.exec("insert into outbox.routes (aggregate_type, topic) values ($1, $2) on "
                         "conflict do nothing",
                         type, scene.detour());
             else
                 db.exec("delete from outbox.routes");
         }},
    };
    Milliseconds longest(0);
    for (int round = 0; round < rounds; ++round)
    {
        std::vector<std::pair<std::string, std::pair<std::string, int>>> mends;
        std::string what;
        for (size_t i = 0; i <= choose(kAiling); ++i)
        {
            const Fault &fault = kFaults[choose(kFaults.size())];
            const std::string &topic = scene.topic(kHealthy + static_cast<int>(i));
            const int partition = static_cast<int>(choose(Kafka::kDefaultPartitions));
            what += std::string(fault.name) + ", ";
            for (const std::string &words : fault.commands)
                command(scene.kafka(), words, topic, partition);
            for (const std::string &words : fault.mend)
                mends.push_back({words, {topic, partition}});
        }
        for (int i = 0; i < 2; ++i)
        {
            std::this_thread::sleep_for(Milliseconds(200 + choose(800)));
            const auto &[name, deed] = deeds[choose(deeds.size())];
            what += std::string(name) + ", ";
            deed();
        }
        std::this_thread::sleep_for(Milliseconds(choose(1500)));
        for (const auto &[words, place] : mends)
            command(scene.kafka(), words, place.first, place.second);
        std::this_thread::sleep_for(Milliseconds(choose(500)));
        const Milliseconds stall = scene.take_longest_stall();
        std::printf("%5ld ms | %s\n", static_cast<long>(stall.count()), what.c_str());
        EXPECT_LE(stall, kLongestStall) << what;
        longest = std::max(longest, stall);
    }
    db.exec("delete from outbox.routes");
    const Report report = scene.finish();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_LE(scene.take_longest_stall(), kLongestStall) << "at the end";
    std::printf("longest stall of a healthy topic: %ld ms\n", static_cast<long>(longest.count()));
    print_figures("topics fail at random, healthy ones flow", rounds, report);
}
