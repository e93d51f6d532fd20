#include "monitoring_cost.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/support/process_usage.h"
#include "bench/support/samples.h"
#include "bench/support/threads.h"
#include "support/pg.h"
#include "support/pg_cluster.h"
#include "support/tree.h"
#include "support/wait.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

using test::Clock;

constexpr int64_t kTransaction = 1000; // events in each
constexpr int kClients = 2;
constexpr const char *kDatabase = "behind";
constexpr const char *kRole = "outbox_monitor";
constexpr auto kSettleLimit = std::chrono::minutes(2);

void
fill(const test::PgCluster &server, int64_t events)
{
    const auto write_share = [&](int client)
    {
        test::Db db(server, kDatabase);
        db.exec("set synchronous_commit = off"); // a checkpoint follows
        for (int64_t first = client * kTransaction; first < events;
             first += kClients * kTransaction)
            db.exec("select count(outbox.emit('order', (i % 10000)::text, 'placed', "
                    "jsonb_build_object('text', repeat('x', 230)))) "
                    "from generate_series($1::bigint, $2::bigint) i",
                    first, std::min(first + kTransaction, events) - 1);
    };
    run_threads(kClients, write_share);
    test::Db(server, kDatabase).exec("checkpoint");
}

// The relay has looked at all of it, and cannot publish.
void
wait_until_behind(test::Db &db, int64_t events)
{
    const bool behind = test::wait_until(
        kSettleLimit,
        [&]
        {
            return db.value("select state || ' ' || backlog_events from outbox.relay_status") ==
                   fmt::format("backing_off {}", events);
        });
    if (!behind)
        throw std::runtime_error("the relay does not show the backlog: " +
                                 db.value("select r::text from outbox.relay_status r"));
}

double
milliseconds_of(test::Db &db, const std::string &query)
{
    const auto began = Clock::now();
    db.exec(query);
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

// Round by round through all queries, as an exporter does, so that none has the caches to itself.
std::vector<QueryCost>
measure(const test::PgCluster &server, int rounds)
{
    const auto queries =
        monitoring_queries(test::read_file(test::in_source("monitoring/postgres_exporter.yml")));
    test::Db db(server, kDatabase, kRole);
    std::vector<std::vector<double>> times(queries.size());
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < queries.size(); i++)
            times[i].push_back(milliseconds_of(db, queries[i].second));
    std::vector<QueryCost> costs;
    for (size_t i = 0; i < queries.size(); i++)
        costs.push_back({queries[i].first, percentile(times[i], 0.5), percentile(times[i], 0.99),
                         percentile(times[i], 1)});
    return costs;
}

// Returns p99 of the slowest.
double
show(const std::string &title, const std::vector<QueryCost> &costs)
{
    std::cout << fmt::format("\n{}\n  {:<22} {:>9} {:>9} {:>9}\n", title, "query", "p50 ms",
                             "p99 ms", "max ms");
    double slowest = 0;
    for (const QueryCost &cost : costs)
    {
        std::cout << fmt::format("  {:<22} {:>9.3f} {:>9.3f} {:>9.3f}\n", cost.name, cost.p50_ms,
                                 cost.p99_ms, cost.max_ms);
        slowest = std::max(slowest, cost.p99_ms);
    }
    return slowest;
}

void
show_capacity(test::Db &db, int64_t events)
{
    const double bytes =
        std::stod(db.value("select sum(pg_total_relation_size(relid)) "
                           "from pg_partition_tree('outbox.events') where isleaf"));
    const auto relay =
        static_cast<pid_t>(std::stol(db.value("select pid from outbox.relay_status")));
    const MemoryUse memory = memory_use(relay);
    std::cout << fmt::format("disk: {:.0f} MB a million events ({:.0f} bytes each, indexes "
                             "included; payload 242 bytes as text)\n",
                             bytes / static_cast<double>(events),
                             bytes / static_cast<double>(events))
              << fmt::format("relay: {:.1f} MB of its own memory; takes 1 of max_worker_processes "
                             "and no connection ({} client connections now, all ours)\n",
                             static_cast<double>(memory.own) / 1e6,
                             db.value("select count(*) from pg_stat_activity "
                                      "where backend_type = 'client backend'"));
}

// As if Kafka refused the first event of a topic: a row for each event that waits behind it, and
// known to the planner, as autovacuum lets it know within a minute.
void
set_aside(test::Db &db, int64_t waiting)
{
    db.exec("set statement_timeout = 0");
    db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking, attempts, last_error) "
            "select i, 1, 0, outbox.uuid_v7(), 1, 'outbox.event.order', 'k', "
            "case when i = 1 then 'FAILED' else 'WAITING' end, i = 1, 1, null "
            "from generate_series(1, $1::bigint) i",
            waiting);
    db.exec("analyze outbox.deliveries");
    db.exec("checkpoint");
}

} // namespace

std::vector<std::pair<std::string, std::string>>
monitoring_queries(const std::string &file_text)
{
    std::vector<std::pair<std::string, std::string>> queries;
    std::istringstream lines(file_text);
    std::string line;
    std::string name;
    bool inside = false;
    while (std::getline(lines, line))
    {
        const bool indented = line.rfind("    ", 0) == 0;
        if (!line.empty() && line.back() == ':' && line[0] != ' ' && line[0] != '#')
            name = line.substr(0, line.size() - 1);
        else if (line == "  query: |")
            queries.emplace_back(name, "");
        else if (inside && indented)
            queries.back().second += line + "\n";
        inside = line == "  query: |" || (inside && indented);
    }
    if (queries.empty())
        throw std::runtime_error("monitoring/postgres_exporter.yml has no queries");
    return queries;
}

bool
measure_monitoring_cost(const MonitoringOptions &options)
{
    std::cerr << "starting PostgreSQL ...\n";
    test::PgCluster server("monitoring");
    server.init({{"synchronous_commit", "on"},
                 {"fsync", "on"},
                 {"full_page_writes", "on"},
                 {"shared_buffers", "512MB"},
                 {"max_wal_size", "4GB"},
                 {"checkpoint_timeout", "30min"},
                 {"outbox.bootstrap_servers", fmt::format("127.0.0.1:{}", test::free_port())}});
    server.start();
    test::Db(server, "postgres").exec(fmt::format("create database {}", kDatabase));
    test::Db db(server, kDatabase);
    db.exec("create extension outbox");
    db.exec(fmt::format("create role {} login", kRole));
    db.exec(fmt::format("select outbox.grant_monitor('{}')", kRole));

    std::cerr << fmt::format("committing {} events while Kafka is unreachable ...\n",
                             options.events);
    fill(server, options.events);
    wait_until_behind(db, options.events);
    std::cout << fmt::format("A backlog of {} events.\n", options.events);
    show_capacity(db, options.events);
    double slowest = show("Queries of postgres_exporter.yml, Kafka unreachable:",
                          measure(server, options.rounds));
    if (options.waiting > 0)
    {
        std::cerr << fmt::format("setting {} of them aside ...\n", options.waiting);
        set_aside(db, options.waiting);
        slowest = std::max(
            slowest,
            show(fmt::format("The same with {} events in outbox.deliveries:", options.waiting),
                 measure(server, options.rounds)));
    }
    server.stop();
    std::cout << fmt::format("\nslowest query, p99: {:.3f} ms, limit {:.0f} ms: {}\n", slowest,
                             options.limit_ms, slowest < options.limit_ms ? "met" : "MISSED");
    return slowest < options.limit_ms;
}

void
add_monitoring_cost(CLI::App &app)
{
    const auto options = std::make_shared<MonitoringOptions>();
    CLI::App *command =
        app.add_subcommand("monitoring", "times the monitoring queries while the relay is behind");
    command->add_option("--events", options->events, "the backlog")
        ->check(CLI::Range(int64_t{1000}, int64_t{100000000}))
        ->capture_default_str();
    command
        ->add_option("--waiting", options->waiting, "rows of outbox.deliveries in the second half")
        ->check(CLI::Range(int64_t{0}, int64_t{100000000}))
        ->capture_default_str();
    command->add_option("--rounds", options->rounds, "how often each query is run")
        ->check(CLI::Range(10, 100000))
        ->capture_default_str();
    command->callback([options]
                      { throw CLI::RuntimeError(measure_monitoring_cost(*options) ? 0 : 1); });
}

} // namespace outbox::bench
