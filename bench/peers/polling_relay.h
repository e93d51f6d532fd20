// A relay as the textbooks write it, over the classic outbox table: each worker, in one
// transaction, locks the oldest new rows, produces them, waits until Kafka has acknowledged them,
// and marks them.
//
// What it leaves out beside a relay for production: retries (a failed record ends the process) and
// the order of a key, which several workers with SKIP LOCKED do not keep. Both make it faster.
#pragma once

#include <memory>
#include <string>

#include "bench/support/servers.h"
#include "support/process.h"

namespace outbox::bench
{

struct PollingOptions
{
    std::string conninfo;
    std::string bootstrap;
    int workers = 1;

    // Rows of a transaction. Tried over backlogs of 50,000: 100, 1000, 3000 and 10000. The last is
    // by far the fastest with one worker, and as fast as 3000 with four. (--polling-batch compares
    // others.) Textbooks have 100; more spares transactions, flushes and round trips, and keeps
    // rows locked for longer.
    int batch = 10000;

    // How long a worker that found nothing waits. Textbooks have 100 ms to seconds; so short a time
    // is the best for latency that does not keep a processor busy.
    int idle_ms = 5;
};

// Its name in reports, and what else there is to say of it.
std::string polling_title(const PollingOptions &options);
std::string polling_settings(const PollingOptions &options);

// The process that is measured: its workers run until its stdin ends, or one of them fails,
// which ends the process.
void run_polling_relay(const PollingOptions &options);

// Starts that process over the database's classic outbox table; `options` may leave out where the
// servers are.
std::unique_ptr<test::Process> start_polling_relay(Servers &servers, const Database &database,
                                                   const PollingOptions &options);

} // namespace outbox::bench
