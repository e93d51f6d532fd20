// PostgreSQL's own pgbench, with what several parts of the benchmark let it do.
#pragma once

#include <string>
#include <vector>

#include "servers.h"

namespace outbox::bench
{

// In scripts: :type is the aggregate type, :event the event type, :payload an input's payload.
struct PgbenchRun
{
    double seconds = 0;
    double cpu_microseconds = 0;      // of the backends for a transaction, from start to end
    std::vector<double> milliseconds; // of each transaction
    double rate() const { return static_cast<double>(milliseconds.size()) / seconds; }
};

// How it sends a statement: as text; parsed and planned anew each time; or prepared once.
constexpr const char *kQueryModes[] = {"simple", "extended", "prepared"};
constexpr const char *kPrepared = kQueryModes[2];

// Runs the script with so many clients: for `seconds`, or for `transactions` each if that is not 0.
PgbenchRun run_pgbench(Servers &servers, const Database &database, const std::string &script,
                       int clients, int seconds, int transactions = 0,
                       const std::string &query_mode = kPrepared);

} // namespace outbox::bench
