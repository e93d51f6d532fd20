// What the turns of the ring cost those who emit meanwhile, and what they leave behind.
#pragma once

#include <string>
#include <vector>

#include "bench/support/servers.h"

namespace outbox::bench
{

struct RetentionOptions
{
    int rate = 20000; // events a second
    int seconds = 15; // with the ring standing still, and as long with it turning
    int each = 20;    // events of a transaction
    int clients = 8;
    int retention_seconds = 3; // a turn takes a sixth of that
    int days = 30;             // to simulate, as if the retention were seven days
};

// One round of clients at the wanted rate.
struct EmitWaits
{
    std::vector<double> statements; // milliseconds of each statement that emitted `each` events
    double events_a_second = 0;
    long turns = 0;
    long truncations = 0;
    // Of more than 10 ms, by the server's log: for the lock on a table, as TRUNCATE has it, and for
    // the right to make a table's file longer.
    long lock_waits = 0;
    long growth_waits = 0;
};

// After so many turns.
struct RingSample
{
    long turns = 0;
    long outbox_bytes = 0;
    long dead_tuples = 0; // of the partitions of outbox.events
    std::vector<long> catalogue_bytes;
    std::vector<long> catalogue_rows;
};

struct RetentionResult
{
    RetentionOptions options;
    EmitWaits still;
    EmitWaits turning;
    std::vector<RingSample> month;
};

RetentionResult measure_retention(const RetentionOptions &options);

std::string to_text(const RetentionResult &result);

// "bench retention": measures and prints.
void run_retention(const RetentionOptions &options);

} // namespace outbox::bench
