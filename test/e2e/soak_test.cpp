// Random faults under load for OUTBOX_SOAK_MINUTES; "make soak" runs it. The test is there only
// when that is set. Each lap has a database and a topic of its own, so that memory and checking
// stay bounded however long it runs.
#include <csignal>
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "faults.h"
#include "real_kafka_test.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

constexpr auto kLap = std::chrono::seconds(40);

struct Tally
{
    size_t laps = 0;
    size_t faults = 0;
    size_t events = 0;
    size_t lost = 0;
    size_t invented = 0;
    size_t reordered = 0;
    size_t altered = 0;
    size_t duplicates = 0;

    void add(const Report &report)
    {
        ++laps;
        events += report.events;
        lost += report.lost.size();
        invented += report.invented.size();
        reordered += report.misordered.size();
        altered += report.altered.size();
        duplicates += report.duplicates;
    }

    void print(const char *title) const
    {
        std::printf("%s: %zu laps, %zu faults injected, %zu events, %zu lost, %zu invented, %zu "
                    "reordered, %zu altered, %zu duplicates\n",
                    title, laps, faults, events, lost, invented, reordered, altered, duplicates);
        std::fflush(stdout);
    }
};

struct Lap
{
    OwnCluster &server;
    const TestDatabase &database;
    Consumer &consumer;
    std::mt19937 &random;

    Milliseconds up_to(int ms) const
    {
        return Milliseconds(std::uniform_int_distribution<int>(0, ms)(random));
    }
};

struct Fault
{
    const char *name;
    void (*inject)(const Lap &lap);
};

void
pause_relay(const Lap &lap)
{
    const pid_t relay = lap.database.relay_pid();
    kill(relay, SIGSTOP);
    lap.consumer.read_for(lap.up_to(3000));
    kill(relay, SIGCONT);
}

void
pause_kafka(const Lap &lap)
{
    auto *real = dynamic_cast<RealKafka *>(&kafka());
    if (real == nullptr)
        return;
    real->process(0).pause();
    lap.consumer.read_for(lap.up_to(8000));
    real->process(0).resume();
}

const Fault kFaults[] = {
    {"relay killed", [](const Lap &lap) { strike(Victim::kRelay, lap.server, lap.database); }},
    {"backend killed", [](const Lap &lap) { strike(Victim::kBackend, lap.server, lap.database); }},
    {"postmaster killed",
     [](const Lap &lap) { strike(Victim::kPostmaster, lap.server, lap.database); }},
    {"immediate stop",
     [](const Lap &lap) { strike(Victim::kEverything, lap.server, lap.database); }},
    {"fast restart", [](const Lap &lap) { lap.server.restart(); }},
    {"relay terminated", [](const Lap &lap) { kill(lap.database.relay_pid(), SIGTERM); }},
    {"relay paused", pause_relay},
    {"Kafka paused", pause_kafka},
    {"Kafka killed",
     [](const Lap &lap)
     {
         kafka().kill9();
         lap.consumer.read_for(lap.up_to(5000));
         kafka().start();
     }},
    {"Kafka restarted",
     [](const Lap &lap)
     {
         kafka().stop();
         lap.consumer.read_for(lap.up_to(5000));
         kafka().start();
     }},
};

Report
run_lap(OwnCluster &server, std::mt19937 &random, Clock::time_point end, Tally &tally)
{
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Workload::Options options;
    options.clients = 4;
    options.transactions = 1000000;
    options.server_may_crash = true;
    Workload workload(server, database, options);
    EXPECT_TRUE(consumer.read_count(10, std::chrono::seconds(60)));
    const Lap lap = {server, database, consumer, random};
    while (Clock::now() < end && !testing::Test::HasFailure())
    {
        const size_t number =
            std::uniform_int_distribution<size_t>(0, std::size(kFaults) - 1)(random);
        std::printf("  %s\n", kFaults[number].name);
        kFaults[number].inject(lap);
        ++tally.faults;
        consumer.read_for(lap.up_to(4000));
    }
    workload.stop();
    workload.finish();
    Db db = database.connect();
    return check_delivery(db, consumer, std::chrono::seconds(90));
}

void
soak()
{
    const double minutes = std::stod(std::getenv("OUTBOX_SOAK_MINUTES"));
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double, std::ratio<60>>(minutes));
    kafka(); // its start is no part of the time
    OwnCluster server(kFaultSettings);
    server.expect_kill();
    std::mt19937 random(choose_seed());
    Tally tally;
    while (Clock::now() < end && !testing::Test::HasFailure())
    {
        const Report report = run_lap(server, random, std::min(end, Clock::now() + kLap), tally);
        EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
        tally.add(report);
        tally.print("so far");
    }
    tally.print("soak");
}

[[maybe_unused]] const bool there_is_one = []
{
    if (std::getenv("OUTBOX_SOAK_MINUTES") == nullptr)
        return false;
    testing::RegisterTest("Soak", "NothingIsLostInventedOrReorderedWhateverFails", nullptr, nullptr,
                          __FILE__, __LINE__,
                          []() -> testing::Test * { return new BodyTest(soak); });
    return true;
}();

} // namespace
