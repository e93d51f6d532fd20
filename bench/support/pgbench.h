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
    std::vector<double> milliseconds; // of each transaction
    double rate() const { return static_cast<double>(milliseconds.size()) / seconds; }
};

// Runs the script, as prepared statements, with so many clients: for `seconds`, or for
// `transactions` each if that is not 0.
PgbenchRun run_pgbench(const Servers &servers, const Database &database, const std::string &script,
                       int clients, int seconds, int transactions = 0);

} // namespace outbox::bench
