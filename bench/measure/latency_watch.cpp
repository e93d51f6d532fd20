#include "latency_watch.h"

#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bench/support/threads.h"
#include "support/consumer.h"

namespace outbox::bench
{

namespace
{

constexpr auto kArrivalLimit = std::chrono::seconds(30);
constexpr int kWarmUpSeconds = 1;       // connections, topics' leaders, caches
constexpr int kTransactionsMost = 2000; // a second

// An array in SQL's text form.
std::string
array_of(const std::vector<std::string> &values)
{
    std::string text = "{";
    for (const std::string &value : values)
    {
        text += text.size() > 1 ? ",\"" : "\"";
        for (const char c : value)
        {
            if (c == '"' || c == '\\')
                text += '\\';
            text += c;
        }
        text += '"';
    }
    return text + "}";
}

} // namespace

double
milliseconds(WallTime from, WallTime to)
{
    return std::chrono::duration<double, std::milli>(to - from).count();
}

Load::Load(const LatencyOptions &options, int events_a_second)
    : rate(events_a_second), clients(options.clients), seconds(options.seconds),
      each(std::max(1, events_a_second / kTransactionsMost)),
      warm_up(static_cast<size_t>(rate * kWarmUpSeconds)),
      sent(static_cast<size_t>(rate * (kWarmUpSeconds + seconds) / each * each)), took(sent.size())
{
}

std::vector<double>
Load::counted_commits() const
{
    std::vector<double> counted;
    for (size_t n = warm_up; n < took.size(); n += static_cast<size_t>(each))
        counted.push_back(took[n]);
    return counted;
}

Arrivals
measure_arrivals(Servers &servers, const std::string &topic, const Load &load, int each,
                 const std::function<Action(int)> &make_action)
{
    test::Consumer consumer(servers.kafka.bootstrap(), {topic});
    std::vector<WallTime> received(load.sent.size());
    size_t there = 0;
    consumer.pass_to(
        [&](const test::Record &record)
        {
            // A peer's warm-up has keys that are no numbers of ours; a copy is not the first.
            WallTime none;
            const std::string &key = record.key.value();
            const bool number = key.find_first_not_of("0123456789") == std::string::npos;
            WallTime &time = number ? received.at(std::stoul(key)) : none;
            there += number && time == WallTime() ? 1 : 0;
            time = time == WallTime() ? record.received : time;
        });
    consumer.read_for(test::Milliseconds(500)); // connects
    const auto limit = std::chrono::seconds(load.seconds + kWarmUpSeconds) + kArrivalLimit;
    const auto write = [&]
    { run_paced(load.clients, load.rate / each, load.events() / each, make_action); };
    const auto read = [&]
    { consumer.read_until(limit, [&](const auto &) { return there == received.size(); }); };
    run_threads(2, [&](int thread) { thread == 0 ? write() : read(); });

    Arrivals arrivals;
    const WallTime now = std::chrono::system_clock::now();
    for (size_t number = load.warm_up; number < received.size(); number++)
    {
        const bool missing = received[number] == WallTime();
        arrivals.missing += missing ? 1 : 0;
        arrivals.took.push_back(milliseconds(load.sent[number], missing ? now : received[number]));
    }
    return arrivals;
}

const std::string &
payload(int number)
{
    return inputs()[static_cast<size_t>(number) % inputs().size()].payload;
}

Action
transactions(const Database &database, const std::string &sql, Load &load,
             const std::string &afterwards)
{
    auto db = std::make_shared<test::Db>(database.connect());
    const std::string with_input = "with input (aggregate_id, payload) as (select * from "
                                   "unnest($3::text[], $4::jsonb[])) " +
                                   sql;
    return [db, with_input, afterwards, &database, &load](int transaction)
    {
        std::vector<std::string> keys;
        std::vector<std::string> payloads;
        const int first = transaction * load.each;
        for (int number = first; number < first + load.each; number++)
        {
            keys.push_back(std::to_string(number));
            payloads.push_back(payload(number));
        }
        db->exec("begin");
        const std::vector<std::string> made =
            db->column(with_input, database.type(), kEventType, array_of(keys), array_of(payloads));
        if (!afterwards.empty())
            db->exec(afterwards, array_of(made));
        const WallTime began = std::chrono::system_clock::now();
        for (int number = first; number < first + load.each; number++)
            load.sent[static_cast<size_t>(number)] = began;
        db->exec("commit");
        load.took[static_cast<size_t>(first)] =
            milliseconds(began, std::chrono::system_clock::now());
    };
}

void
measure_way(Servers &servers, const Database &database, const std::string &sql, Load load,
            pid_t process, Way &way)
{
    constexpr double kMillion = 1e6;
    const double before = cpu_seconds(process);
    const Arrivals arrivals =
        measure_arrivals(servers, database.topic(), load, load.each,
                         [&](int) { return transactions(database, sql, load); });
    way.cpu_million.push_back((cpu_seconds(process) - before) / load.events() * kMillion);
    way.memory.raise_to(memory_use(process));
    way.latencies.rounds.push_back(arrivals.took);
    way.commits.rounds.push_back(load.counted_commits());
    way.missing += arrivals.missing;
}

void
show_progress(const std::string &who, const Latencies &latencies)
{
    const std::vector<double> &last = latencies.rounds.back();
    std::cerr << fmt::format("  {:<12} p50 {:.2f} ms  p99 {:.2f} ms  max {:.2f} ms\n", who,
                             percentile(last, 0.5), percentile(last, 0.99), percentile(last, 1));
}

} // namespace outbox::bench
