#include "drain_watch.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bench/support/topics.h"
#include "support/consumer.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

using test::Clock;

constexpr auto kLook = std::chrono::milliseconds(5);

double
seconds_between(Clock::time_point from, Clock::time_point to)
{
    return std::chrono::duration<double>(to - from).count();
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

std::vector<std::string>
header_names(const test::Record &record)
{
    std::vector<std::string> names;
    for (const auto &[name, value] : record.headers)
        names.push_back(name);
    return names;
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

} // namespace

DrainRun
watch_drain(Servers &servers, const std::string &topic, int64_t events, const Contender &contender,
            double limit_seconds)
{
    TopicWatch watch(servers.kafka.bootstrap(), topic);
    const int64_t records_before = watch.records();
    const pid_t broker = servers.kafka.process(0).pid();
    const double broker_before = cpu_seconds(broker);
    const double machine_before = machine_cpu_seconds();
    DrainRun run;
    const auto began = Clock::now();
    contender.go();

    pid_t pid = 0;
    bool reported = false;
    while (run.events < events && run.complete)
    {
        std::this_thread::sleep_for(kLook);
        run.events = watch.records() - records_before;
        run.seconds = seconds_between(began, Clock::now());
        if (run.first_seconds == 0 && run.events > 0)
            run.first_seconds = run.seconds;
        pid = pid == 0 ? contender.find() : pid;
        if (contender.at_work && !reported && pid != 0 && run.events > 0)
        {
            contender.at_work(pid);
            reported = true;
        }
        run.memory.raise_to(memory_use(pid));
        run.complete = run.events >= events || run.seconds <= limit_seconds;
    }
    run.cpu_seconds = cpu_seconds(pid) - contender.cpu_seconds_before;
    run.broker_cpu_seconds = cpu_seconds(broker) - broker_before;
    run.other_cpu_seconds =
        machine_cpu_seconds() - machine_before - run.cpu_seconds - run.broker_cpu_seconds;
    return run;
}

const DrainRun &
complete(const DrainRun &run, const std::string &topic)
{
    if (!run.complete)
        throw std::runtime_error(fmt::format("only {} events arrived in {} within {:.0f} s",
                                             run.events, topic, run.seconds));
    return run;
}

void
check_count(Servers &servers, const std::string &topic, int64_t events)
{
    const int64_t records = TopicWatch(servers.kafka.bootstrap(), topic).records();
    if (records != events)
        throw std::runtime_error(
            fmt::format("{} records for {} events in {}", records, events, topic));
}

void
check_records(Servers &servers, const std::string &topic)
{
    const std::vector<std::string> names = {"id", "event_type", "aggregate_type", "created_at"};
    const test::Record record = sample_of(servers, topic);
    if (record.value != inputs().front().payload || header_names(record) != names ||
        record.header("event_type") != kEventType)
        throw std::logic_error("the records in " + topic + " are not those of the others");
}

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
        "broker {:.2f} s, others {:.2f} s{}\n",
        who, run.events, run.rate(), run.first_seconds, run.cpu_seconds, run.broker_cpu_seconds,
        run.other_cpu_seconds, run.complete ? "" : "  (time over)");
}

nlohmann::ordered_json
to_json(const DrainRun &run)
{
    return {{"events", run.events},
            {"complete", run.complete},
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
to_json(const std::vector<DrainRun> &runs)
{
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DrainRun &run : runs)
        list.push_back(to_json(run));
    return list;
}

} // namespace outbox::bench
