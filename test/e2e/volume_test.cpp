// Very many events: one huge transaction, a long backlog. Memory stays flat, and a relay that is
// killed in the middle continues from where the position was.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>

#include "faults.h"
#include "real_kafka_test.h"

using namespace outbox::test;

namespace
{

constexpr size_t kKeys = 1000;
// The relay keeps 128k keys of a window (2 MB), its ring of what is in flight and the events' bytes
// up to outbox.max_in_flight_bytes; the rest is what any process of PostgreSQL has.
constexpr size_t kMemoryLimitKb = 128 * 1024;

// Events numbered from 1, with key number % kKeys and the number as payload, checked as they come:
// each number must be there, and for each key they must follow each other, or go back and repeat.
class NumberedEvents
{
public:
    explicit NumberedEvents(size_t count) : report_(), seen_(count + 1), last_of_key_(kKeys)
    {
        report_.events = count;
    }

    void take(const Record &record)
    {
        const size_t number = std::stoul(record.value.value());
        const size_t key = std::stoul(record.key.value());
        ++report_.deliveries;
        if (number == 0 || number >= seen_.size() || number % kKeys != key)
        {
            report_.invented.push_back(record.value.value());
            return;
        }
        if (seen_[number])
        {
            ++report_.duplicates;
            repeats_from_ms_ = std::min(repeats_from_ms_, record.timestamp_ms);
        }
        else
            first_times_ms_.push_back(record.timestamp_ms);
        seen_[number] = true;
        const size_t last = last_of_key_[key];
        const size_t next = last != 0 ? last + kKeys : (key != 0 ? key : kKeys);
        if (number > next)
            report_.misordered.push_back(record.value.value());
        last_of_key_[key] = number;
    }

    size_t distinct() const { return first_times_ms_.size(); }
    // Those that Kafka took at this time or later, and before the first repeat.
    size_t taken_since(int64_t time_ms) const
    {
        return static_cast<size_t>(std::count_if(
            first_times_ms_.begin(), first_times_ms_.end(),
            [&](int64_t taken_ms) { return taken_ms >= time_ms && taken_ms <= repeats_from_ms_; }));
    }

    Report end()
    {
        for (size_t number = 1; number < seen_.size(); ++number)
            if (!seen_[number])
                report_.lost.push_back(std::to_string(number));
        return report_;
    }

private:
    Report report_;
    std::vector<bool> seen_;
    std::vector<size_t> last_of_key_;
    std::vector<int64_t> first_times_ms_;
    int64_t repeats_from_ms_ = std::numeric_limits<int64_t>::max();
};

// Reads until all of them have come; returns the most memory that the relay had meanwhile.
size_t
read_all(Consumer &consumer, const NumberedEvents &events, size_t count,
         const TestDatabase &database)
{
    size_t most = 0;
    pid_t relay = database.relay_pid();
    const auto deadline = Clock::now() + std::chrono::minutes(count > 1000000 ? 10 : 2);
    while (events.distinct() < count && Clock::now() < deadline)
    {
        consumer.read_for(Milliseconds(100));
        const auto now = static_cast<size_t>(memory_kb(relay, "RssAnon"));
        if (now == 0)
            relay = database.relay_pid();
        most = std::max(most, now);
    }
    consumer.read_for(Milliseconds(300));
    return most;
}

} // namespace

REAL_KAFKA_TEST(Volume,
                ATransactionOfAMillionEventsGoesOutInOrderAlthoughTheRelayIsKilledInTheMiddle)
{
    constexpr size_t kCount = 1000000;
    constexpr size_t kInFlight = 2000;
    Settings settings = kFaultSettings;
    settings["outbox.max_in_flight"] = std::to_string(kInFlight);
    OwnCluster server(settings);
    server.expect_kill();
    TestDatabase database(server);
    kafka().create_topic(database.topic(), Kafka::kDefaultPartitions,
                         {{"message.timestamp.type", "LogAppendTime"}});
    NumberedEvents events(kCount);
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    consumer.pass_to([&](const Record &record) { events.take(record); });
    {
        Db db = database.connect();
        db.exec("set statement_timeout = 0");
        db.exec("select count(outbox.emit($1, (i % 1000)::text, 'e', to_jsonb(i))) from "
                "generate_series(1, $2::int) i",
                database.type(), kCount);
    }
    const auto committed = Clock::now();
    ASSERT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               consumer.read_for(Milliseconds(20));
                               return events.distinct() > kCount / 3;
                           }));
    // What comes again is what was in flight when the position was written, and what Kafka has
    // taken since. The commit behind it makes sure that the crash takes no position back.
    Db db = database.connect();
    const int64_t written_ms =
        std::stoll(db.value("select floor(extract(epoch from updated_at) * 1000)::bigint "
                            "from outbox.relay_position"));
    db.exec("create table committed ()");
    database.kill_relay();
    const size_t memory = read_all(consumer, events, kCount, database);
    const Milliseconds took = since(committed);
    const Report report = events.end();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_LE(report.duplicates, kInFlight + events.taken_since(written_ms));
    EXPECT_LT(memory, kMemoryLimitKb);
    print_figures("transaction of 1,000,000 events, relay killed in the middle", 1, report, {},
                  {took});
    std::printf("the relay's memory: at most %zu kB\n", memory);
}

// OUTBOX_TEST_BIG sets another number of events than fits into "make check".
REAL_KAFKA_TEST(Volume, ALongBacklogIsDrainedInOrderOnceWithFlatMemory)
{
    const char *wanted = std::getenv("OUTBOX_TEST_BIG");
    const size_t count = wanted != nullptr ? std::stoul(wanted) : 300000;
    Settings settings = kFaultSettings;
    settings["outbox.bootstrap_servers"] = "";
    settings["max_wal_size"] = "4GB";
    OwnCluster server(settings);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("set statement_timeout = 0");
    db.exec("create procedure fill(type text, wanted int) language plpgsql as $$ begin "
            "for t in 0 .. wanted / 1000 - 1 loop "
            "  perform outbox.emit(type, (i % 1000)::text, 'e', to_jsonb(i)) "
            "    from generate_series(t * 1000 + 1, t * 1000 + 1000) i; commit; "
            "end loop; end $$");
    db.exec("call fill('" + database.type() + "', " + std::to_string(count) + ")");

    NumberedEvents events(count);
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    consumer.pass_to([&](const Record &record) { events.take(record); });
    server.configure("outbox.bootstrap_servers", kafka().bootstrap());
    server.reload();
    const auto told = Clock::now();
    const size_t memory = read_all(consumer, events, count, database);
    const Milliseconds took = since(told);
    const Report report = events.end();
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_LT(memory, kMemoryLimitKb);
    print_figures("backlog of " + std::to_string(count) + " events", 1, report, {}, {took});
    std::printf("the relay's memory: at most %zu kB\n", memory);
}
