// Clients that write events at a rate, and a consumer that looks how long they take.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/support/paced_clients.h"
#include "bench/support/servers.h"
#include "latency.h"

namespace outbox::bench
{

using WallTime = std::chrono::system_clock::time_point;

double milliseconds(WallTime from, WallTime to);

// What the clients of one round do, and did.
struct Load
{
    Load(const LatencyOptions &options, int events_a_second);

    int rate;
    int clients;
    int seconds;
    int each;                   // events of a transaction: more at high rates, as bulk writers have
    size_t warm_up;             // so many events are not counted
    std::vector<WallTime> sent; // by the number of the event
    std::vector<double> took;   // the COMMIT, in milliseconds

    int events() const { return static_cast<int>(sent.size()); }
    std::vector<double> counted_commits() const;
};

// The events' ways to the consumer, in milliseconds.
struct Arrivals
{
    std::vector<double> took;
    int missing = 0;
};

// Runs the clients while a consumer reads `topic`. The event's number is its key. `each` events are
// one action, whose number counts actions.
Arrivals measure_arrivals(Servers &servers, const std::string &topic, const Load &load, int each,
                          const std::function<Action(int)> &make_action);

const std::string &payload(int number);

// Transactions of one statement and a COMMIT, which alone is timed. `sql` writes the rows of
// "input": aggregate_id, payload; $1 is the aggregate type, $2 the event type.
// `afterwards`, if there is one, is a second statement of the transaction: $1 are the values of the
// first column that the first one returned, as an array.
Action transactions(const Database &database, const std::string &sql, Load &load,
                    const std::string &afterwards = "");

// One round of transactions whose events something carries to Kafka: `process`.
void measure_way(Servers &servers, const Database &database, const std::string &sql, Load load,
                 pid_t process, Way &way);

// On stderr.
void show_progress(const std::string &who, const Latencies &latencies);

} // namespace outbox::bench
