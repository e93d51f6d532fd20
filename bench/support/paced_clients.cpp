#include "paced_clients.h"

#include <chrono>
#include <exception>
#include <random>
#include <thread>
#include <vector>

#include "threads.h"

namespace outbox::bench
{

namespace
{

using Clock = std::chrono::steady_clock;

void
run_client(int client, int clients, int rate, int count, const Action &action)
{
    const double interval = static_cast<double>(clients) / rate;
    std::mt19937 random(static_cast<unsigned>(client));
    std::uniform_real_distribution<double> jitter(-0.5, 0.5);
    const auto began = Clock::now();
    int done = 0;
    for (int number = client; number < count; number += clients, done++)
    {
        const std::chrono::duration<double> due((done + 1 + jitter(random)) * interval);
        std::this_thread::sleep_until(began + std::chrono::duration_cast<Clock::duration>(due));
        action(number);
    }
}

} // namespace

void
run_paced(int clients, int rate, int count, const std::function<Action(int)> &make_action)
{
    run_threads(clients,
                [&](int client) { run_client(client, clients, rate, count, make_action(client)); });
}

} // namespace outbox::bench
