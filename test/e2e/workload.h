#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "servers.h"
#include "support/seed.h"

namespace outbox::test
{

// Clients that change accounts and emit an event for each change, as applications do: they lock the
// account's row first. Some transactions roll back, some roll back a savepoint, some are prepared
// first.
class Workload
{
public:
    struct Options
    {
        int clients = 8;
        int transactions = 100; // of each client
        int accounts = 12;
        // Whether lost connections are part of the test: the client connects again and continues.
        bool server_may_crash = false;
    };

    // Makes the table of accounts and starts the clients.
    Workload(PgCluster &server, const TestDatabase &database, const Options &options);
    ~Workload();
    Workload(const Workload &) = delete;
    Workload &operator=(const Workload &) = delete;

    // Tells the clients to end after the transaction that they are in.
    void stop() { stopping_ = true; }

    // Waits for the clients to end. What they did not expect has failed the test by then.
    void finish();

    // How many transactions have ended so far, whichever way.
    int done() const { return done_; }

private:
    void run_client(int number, unsigned seed);

    PgCluster &server_;
    const TestDatabase &database_;
    const Options options_;
    std::atomic<int> done_{0};
    std::atomic<bool> stopping_{false};
    std::vector<std::thread> clients_;
};

} // namespace outbox::test
