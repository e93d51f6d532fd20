#include "drain.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bench/support/threads.h"
#include "bench/support/topics.h"
#include "support/consumer.h"
#include "support/process.h"

namespace outbox::bench
{

namespace
{

using test::Clock;

constexpr auto kLook = std::chrono::milliseconds(5);
constexpr double kDrainSeconds = 600;
constexpr int64_t kTransaction = 100; // events in each transaction of the backlog
constexpr int kClients = 4;
constexpr int64_t kWarmUp = 500000;

double
seconds_between(Clock::time_point from, Clock::time_point to)
{
    return std::chrono::duration<double>(to - from).count();
}

// Says go() and looks at the topic until all events are there. `find` gives the contender's process
// id as soon as there is one.
DrainRun
watch_drain(Servers &servers, const std::string &topic, int64_t events,
            const std::function<void()> &go, const std::function<pid_t()> &find)
{
    TopicWatch watch(servers.kafka.bootstrap(), topic);
    const pid_t broker = servers.kafka.process(0).pid();
    const double broker_before = cpu_seconds(broker);
    const double machine_before = machine_cpu_seconds();
    DrainRun run;
    run.events = events;
    const auto began = Clock::now();
    go();

    pid_t pid = 0;
    for (int64_t records = 0; records < events;)
    {
        std::this_thread::sleep_for(kLook);
        records = watch.records();
        run.seconds = seconds_between(began, Clock::now());
        if (run.first_seconds == 0 && records > 0)
            run.first_seconds = run.seconds;
        pid = pid == 0 ? find() : pid;
        run.memory.raise_to(memory_use(pid));
        if (run.seconds > kDrainSeconds)
            throw std::runtime_error(
                fmt::format("{} of {} events arrived in {}", records, events, topic));
    }
    run.cpu_seconds = cpu_seconds(pid);
    run.broker_cpu_seconds = cpu_seconds(broker) - broker_before;
    run.other_cpu_seconds =
        machine_cpu_seconds() - machine_before - run.cpu_seconds - run.broker_cpu_seconds;
    return run;
}

DrainRun
drain_bare(Servers &servers, const Topic &topic, int64_t events)
{
    std::unique_ptr<test::Process> producer;
    const auto go = [&]
    {
        test::Command command({"/proc/self/exe", "bare-producer", "--bootstrap",
                               servers.kafka.bootstrap(), "--topic", topic.name(), "--events",
                               std::to_string(events)});
        command.keep_stdin_open = true;
        producer = std::make_unique<test::Process>(command);
    };
    return watch_drain(servers, topic.name(), events, go, [&] { return producer->pid(); });
}

// Commits the backlog in short transactions of several clients, whose numbers therefore mix.
void
fill(const Database &database, int64_t events)
{
    const auto emit_share = [&](int client)
    {
        test::Db db = database.connect();
        db.exec("set synchronous_commit = off"); // a checkpoint follows
        const auto keys = static_cast<int64_t>(kKeys);
        for (int64_t first = client * kTransaction; first < events;
             first += kClients * kTransaction)
        {
            const int64_t last = std::min(first + kTransaction, events) - 1;
            db.exec("select count(outbox.emit($1, key, $2, payload)) from bench_inputs "
                    "where n between $3 and $4",
                    database.type(), kEventType, first % keys, first % keys + (last - first));
        }
    };
    run_threads(kClients, emit_share);
    database.connect().exec("checkpoint");
}

DrainRun
drain_relay(Servers &servers, Database &database, int64_t events)
{
    fill(database, events);
    test::Db db = database.connect();
    const DrainRun run = watch_drain(
        servers, database.topic(), events, [&] { database.start_relay(); },
        [&] { return running_relay(db); });

    const bool told =
        test::wait_until(std::chrono::seconds(10),
                         [&] {
                             return db.value("select published_total from outbox.relay_status") ==
                                    std::to_string(events);
                         });
    const int64_t records = TopicWatch(servers.kafka.bootstrap(), database.topic()).records();
    if (!told || records != events)
        throw std::runtime_error(
            fmt::format("{} records for {} events in {}", records, events, database.topic()));
    return run;
}

bool
same_shape(const test::Record &a, const test::Record &b)
{
    return a.value == b.value && a.headers.size() == b.headers.size() &&
           std::equal(a.headers.begin(), a.headers.end(), b.headers.begin(),
                      [](const auto &mine, const auto &other) {
                          return mine.first == other.first &&
                                 mine.second.value().size() == other.second.value().size();
                      });
}

// The first record of the first key.
test::Record
sample_of(Servers &servers, const std::string &topic)
{
    test::Consumer consumer(servers.kafka.bootstrap(), {topic});
    const auto has_key = [](const test::Record &record)
    { return record.key == inputs().front().key; };
    size_t looked_at = 0;
    const auto found = [&](const std::vector<test::Record> &records)
    {
        while (looked_at < records.size() && !has_key(records[looked_at]))
            looked_at++;
        return looked_at < records.size();
    };
    if (!consumer.read_until(std::chrono::seconds(30), found))
        throw std::runtime_error("no record of the first key in " + topic);
    return consumer.records()[looked_at];
}

// What makes the comparison one: the records differ in their ids and times, and in no size.
void
check_same_records(Servers &servers, const std::string &bare, const std::string &relay)
{
    if (!same_shape(sample_of(servers, bare), sample_of(servers, relay)))
        throw std::logic_error("the contenders write different records");
}

void
show_progress(const char *who, const DrainRun &run)
{
    std::cerr << fmt::format(
        "  {:<9} {:>9} events  {:>9.0f}/s  first after {:.2f} s  CPU {:.2f} s, "
        "broker {:.2f} s, others {:.2f} s\n",
        who, run.events, run.rate(), run.first_seconds, run.cpu_seconds, run.broker_cpu_seconds,
        run.other_cpu_seconds);
}

Spread
rate_of(const std::vector<DrainRun> &runs)
{
    std::vector<double> rates;
    rates.reserve(runs.size());
    for (const DrainRun &run : runs)
        rates.push_back(run.rate());
    return spread_of(rates);
}

// One round of both. Their topics' names are of one length, because records hold them.
void
run_round(Servers &servers, int round, int64_t events, DrainResult &result)
{
    const Topic topic(servers.kafka, fmt::format("outbox.event.limit_{}", round));
    result.bare.push_back(drain_bare(servers, topic, events));
    show_progress("bare", result.bare.back());
    Database database(servers, fmt::format("relay_{}", round));
    result.relay.push_back(drain_relay(servers, database, events));
    show_progress("relay", result.relay.back());
    if (round == 0)
        check_same_records(servers, topic.name(), database.topic());
}

nlohmann::ordered_json
to_json(const DrainRun &run)
{
    return {{"events", run.events},
            {"events_per_second", run.rate()},
            {"seconds", run.seconds},
            {"first_seconds", run.first_seconds},
            {"cpu_seconds", run.cpu_seconds},
            {"broker_cpu_seconds", run.broker_cpu_seconds},
            {"other_cpu_seconds", run.other_cpu_seconds},
            {"peak_rss_bytes", run.memory.peak_rss},
            {"peak_own_memory_bytes", run.memory.own}};
}

nlohmann::ordered_json
runs_to_json(const std::vector<DrainRun> &runs)
{
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DrainRun &run : runs)
        list.push_back(to_json(run));
    return list;
}

} // namespace

Spread
DrainResult::bare_rate() const
{
    return rate_of(bare);
}

Spread
DrainResult::relay_rate() const
{
    return rate_of(relay);
}

DrainResult
measure_drain(Servers &servers, int64_t events, int rounds)
{
    std::cerr << "drain ...\n";
    DrainResult warm_up; // the broker's code gets compiled by the first records that it sees
    run_round(servers, 0, std::max(events, kWarmUp), warm_up);
    DrainResult result;
    for (int round = 1; round <= rounds; round++)
        run_round(servers, round, events, result);
    Database database(servers, "small");
    result.relay_small = drain_relay(servers, database, events / 10);
    show_progress("relay", result.relay_small);
    return result;
}

nlohmann::ordered_json
to_json(const DrainResult &result)
{
    return {{"bare", runs_to_json(result.bare)},
            {"relay", runs_to_json(result.relay)},
            {"relay_small", to_json(result.relay_small)},
            {"ratio", result.ratio()}};
}

} // namespace outbox::bench
