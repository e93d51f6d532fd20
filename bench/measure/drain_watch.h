// One contender's way through one backlog, as the broker and the kernel see it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/process_usage.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

struct DrainRun
{
    int64_t events = 0;       // that arrived
    bool complete = true;     // else the time was over first
    double first_seconds = 0; // from the word "go" until the first record is in Kafka
    double seconds = 0;       // from the word "go" until all are, or the time is over
    double cpu_seconds = 0;   // of the contender's process
    double broker_cpu_seconds = 0;
    double other_cpu_seconds = 0; // of everything else on the machine, the watching included
    MemoryUse memory;

    double rate() const { return static_cast<double>(events) / seconds; }
};

struct Contender
{
    std::function<void()> go;
    std::function<pid_t()> find;             // its process, or 0 as long as there is none
    double cpu_seconds_before = 0;           // of a process that was there before the word "go"
    std::function<void(pid_t)> at_work = {}; // gets it when its first record is in Kafka
};

// Says go() and looks at the topic until so many events more are there, or the time is over.
DrainRun watch_drain(Servers &servers, const std::string &topic, int64_t events,
                     const Contender &contender, double limit_seconds);

// Throws if the time was over first.
const DrainRun &complete(const DrainRun &run, const std::string &topic);

// Throws unless the topic has exactly so many records.
void check_count(Servers &servers, const std::string &topic, int64_t events);

// What makes the comparison one. The relay's records and the bare producer's differ in their ids
// and times, and in no size.
void check_same_records(Servers &servers, const std::string &bare, const std::string &relay);

// A peer's records have their values, and headers of their names in their order.
void check_records(Servers &servers, const std::string &topic);

// On stderr.
void show_progress(const char *who, const DrainRun &run);

nlohmann::ordered_json to_json(const DrainRun &run);
nlohmann::ordered_json to_json(const std::vector<DrainRun> &runs);

} // namespace outbox::bench
