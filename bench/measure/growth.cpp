#include "growth.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "application_cost.h"
#include "bench/peers/classic_outbox.h"
#include "bench/support/backends.h"
#include "bench/support/pgbench.h"
#include "bench/support/topics.h"
#include "drain.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

using test::Clock;

constexpr auto kLimit = std::chrono::seconds(120);
constexpr int64_t kLargeBacklog = 2000000; // beyond, one round says enough

BacklogGrowth
grow_backlog(Servers &servers, int64_t events, int rounds)
{
    BacklogGrowth growth;
    growth.events = events;
    for (int round = 0; round < (events > kLargeBacklog ? 1 : rounds); round++)
    {
        Database database(servers, fmt::format("grown_{}_{}", events, round));
        growth.writer_memory =
            std::max(growth.writer_memory,
                     most_backend_memory(database, [&] { fill_events(database, events); }));
        growth.runs.push_back(drain_relay(servers, database, events));
        show_progress("relay", growth.runs.back());
    }
    return growth;
}

// Adds a round.
void
run_clients(Servers &servers, const Database &database, const char *sql, int seconds,
            ClientGrowth &growth)
{
    database.connect().exec("checkpoint");
    PgbenchRun run;
    const auto work = [&]
    {
        run = run_pgbench(servers, database, std::string(kRandomNumber) + sql, growth.clients,
                          seconds);
    };
    growth.backend_memory = std::max(growth.backend_memory, most_backend_memory(database, work));
    growth.rates.push_back(run.rate());
    growth.cpu_microseconds.push_back(run.cpu_microseconds);
    std::cerr << fmt::format("  {:<10} {:>2} clients  {:>8.0f} events/s  CPU {:6.1f} us\n",
                             growth.name, growth.clients, growth.rates.back(),
                             growth.cpu_microseconds.back());
}

void
wait_until_published(Servers &servers, const Database &database)
{
    const int64_t events =
        std::stoll(database.connect().value("select count(*) from outbox.events"));
    TopicWatch topic(servers.kafka.bootstrap(), database.topic());
    if (!test::wait_until(kLimit, [&] { return topic.records() >= events; }))
        throw std::runtime_error("the events of pgbench do not get published");
}

std::vector<ClientGrowth>
grow_clients(Servers &servers, const GrowthOptions &options, int rounds)
{
    constexpr size_t kWays = 3;
    std::vector<ClientGrowth> all;
    for (const int clients : options.clients)
    {
        all.push_back({clients, "classic", "INSERT into a classic outbox table", {}, {}, 0});
        all.push_back({clients, "emit", "outbox.emit(), the relay idle", {}, {}, 0});
        all.push_back({clients, "published", "outbox.emit(), the relay publishing", {}, {}, 0});
    }
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < all.size(); i += kWays)
        {
            Database database(servers, fmt::format("clients_{}_{}", all[i].clients, round));
            make_classic_outbox(database);
            run_clients(servers, database, kClassicScript, options.client_seconds, all[i]);
            run_clients(servers, database, kEmitScript, options.client_seconds, all[i + 1]);
            database.start_relay();
            wait_until_published(servers, database);
            run_clients(servers, database, kEmitScript, options.client_seconds, all[i + 2]);
            wait_until_published(servers, database);
        }
    return all;
}

using Databases = std::vector<std::unique_ptr<Database>>;

std::vector<pid_t>
relays(test::Db &db)
{
    std::vector<pid_t> pids;
    for (const std::string &pid :
         db.column("select pid from pg_stat_activity where backend_type = 'outbox relay'"))
        pids.push_back(std::stoi(pid));
    return pids;
}

template <class Figure>
double
sum_over(const std::vector<pid_t> &pids, const Figure &figure)
{
    double sum = 0;
    for (const pid_t pid : pids)
        sum += figure(pid);
    return sum;
}

// All relays at once; "go" is the reload that gives them their brokers.
DrainRun
drain_databases(Servers &servers, Databases &databases, int64_t events)
{
    constexpr auto kLook = std::chrono::milliseconds(20);
    std::vector<std::string> topics;
    for (const auto &database : databases)
        topics.push_back(database->topic());
    TopicWatch watch(servers.kafka.bootstrap(), topics);
    test::Db db = databases.front()->connect();
    const pid_t broker = servers.kafka.process(0).pid();
    const double broker_before = cpu_seconds(broker);
    const double machine_before = machine_cpu_seconds();
    DrainRun run;
    const auto began = Clock::now();
    for (const auto &database : databases)
        database->name_kafka();
    servers.postgresql.reload();
    while (run.events < events)
    {
        std::this_thread::sleep_for(kLook);
        run.events = watch.records();
        run.seconds = std::chrono::duration<double>(Clock::now() - began).count();
        if (run.first_seconds == 0 && run.events > 0)
            run.first_seconds = run.seconds;
        run.memory.raise_to(
            {0, 0,
             static_cast<long>(sum_over(relays(db), [](pid_t pid)
                                        { return static_cast<double>(memory_use(pid).own); }))});
        if (run.seconds > std::chrono::duration<double>(kLimit).count())
            throw std::runtime_error(fmt::format("only {} of {} events of {} databases arrived",
                                                 run.events, events, databases.size()));
    }
    run.cpu_seconds = sum_over(relays(db), cpu_seconds);
    run.broker_cpu_seconds = cpu_seconds(broker) - broker_before;
    run.other_cpu_seconds =
        machine_cpu_seconds() - machine_before - run.cpu_seconds - run.broker_cpu_seconds;
    return run;
}

// Seconds of all relays' processor time in an hour in which nothing happens.
double
idle_cpu(test::Db &db)
{
    constexpr auto kSettled = std::chrono::seconds(2);
    constexpr auto kWatched = std::chrono::seconds(5);
    std::this_thread::sleep_for(kSettled);
    const std::vector<pid_t> pids = relays(db);
    const double before = sum_over(pids, exact_cpu_seconds);
    const auto began = Clock::now();
    std::this_thread::sleep_for(kWatched);
    const std::chrono::duration<double, std::ratio<3600>> hours = Clock::now() - began;
    return (sum_over(pids, exact_cpu_seconds) - before) / hours.count();
}

DatabaseGrowth
grow_databases(Servers &servers, int count, int64_t events, int rounds)
{
    DatabaseGrowth growth;
    growth.databases = count;
    const int64_t each = events / count;
    for (int round = 0; round < rounds; round++)
    {
        Databases databases;
        for (int i = 0; i < count; i++)
        {
            // Their topics' names are of one length, because records hold them.
            databases.push_back(std::make_unique<Database>(
                servers, fmt::format("many_{:02}_{:02}_{:02}", count, round, i)));
            fill_events(*databases.back(), each);
        }
        growth.runs.push_back(drain_databases(servers, databases, each * count));
        test::Db db = databases.front()->connect();
        growth.idle_cpu.push_back(idle_cpu(db));
        show_progress(fmt::format("{} dbs", count).c_str(), growth.runs.back());
    }
    return growth;
}

} // namespace

GrowthResult
measure_growth(Servers &servers, const GrowthOptions &options, int rounds)
{
    std::cerr << "growth ...\n";
    {
        constexpr int64_t kWarmUp = 500000; // the broker's code gets compiled meanwhile
        Database database(servers, "grown_warm_up");
        fill_events(database, kWarmUp);
        drain_relay(servers, database, kWarmUp);
    }
    GrowthResult result;
    result.options = options;
    for (const int64_t backlog : options.backlogs)
        result.backlogs.push_back(grow_backlog(servers, backlog, rounds));
    result.clients = grow_clients(servers, options, rounds);
    for (const int databases : options.databases)
        result.databases.push_back(grow_databases(servers, databases, options.events, rounds));
    return result;
}

nlohmann::ordered_json
to_json(const GrowthResult &result)
{
    nlohmann::ordered_json all;
    for (const BacklogGrowth &backlog : result.backlogs)
        all["backlogs"].push_back({{"events", backlog.events},
                                   {"writer_memory_bytes", backlog.writer_memory},
                                   {"runs", to_json(backlog.runs)}});
    for (const ClientGrowth &clients : result.clients)
        all["clients"].push_back({{"clients", clients.clients},
                                  {"name", clients.name},
                                  {"title", clients.title},
                                  {"events_per_second", clients.rates},
                                  {"cpu_microseconds", clients.cpu_microseconds},
                                  {"backend_memory_bytes", clients.backend_memory}});
    for (const DatabaseGrowth &databases : result.databases)
        all["databases"].push_back({{"databases", databases.databases},
                                    {"idle_cpu_seconds_per_hour", databases.idle_cpu},
                                    {"runs", to_json(databases.runs)}});
    return all;
}

} // namespace outbox::bench
