#include "backlog.h"

#include <algorithm>

#include "inputs.h"
#include "threads.h"

namespace outbox::bench
{

namespace
{

constexpr int64_t kTransaction = 100; // events in each
constexpr int kClients = 4;

} // namespace

void
fill(const Database &database, int64_t events, const std::string &sql)
{
    const auto write_share = [&](int client)
    {
        test::Db db = database.connect();
        db.exec("set synchronous_commit = off"); // a checkpoint follows
        const auto keys = static_cast<int64_t>(kKeys);
        for (int64_t first = client * kTransaction; first < events;
             first += kClients * kTransaction)
        {
            const int64_t last = std::min(first + kTransaction, events) - 1;
            db.exec(sql, database.type(), kEventType, first % keys, first % keys + (last - first));
        }
    };
    run_threads(kClients, write_share);
    database.connect().exec("checkpoint");
}

} // namespace outbox::bench
