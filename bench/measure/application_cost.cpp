#include "application_cost.h"

#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/peers/classic_outbox.h"
#include "bench/peers/polling_relay.h"
#include "bench/support/pgbench.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

constexpr const char *kEvents =
    "insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) "
    "values (:type, 'order-' || :n::text, :event, :payload);\n";
// All that the classic row holds, for a Debezium that reads messages instead of a table.
constexpr const char *kMessage =
    "select pg_logical_emit_message(true, 'outbox', json_build_object('id', gen_random_uuid(), "
    "'aggregate_type', :type::text, 'aggregate_id', 'order-' || :n::text, 'type', :event::text, "
    "'payload', :payload::json)::text);\n";

struct Way
{
    const char *name;
    const char *title;
    const char *sql;
};

constexpr Way kWays[] = {
    {"none", "no event", ""},
    {"classic", "INSERT into a classic outbox table", kClassicScript},
    {"partitioned", "INSERT into the same table, in partitions", kPartitionedScript},
    {"emit", "outbox.emit()", kEmitScript},
    {"events", "INSERT INTO outbox.events", kEvents},
    {"message", "pg_logical_emit_message()", kMessage},
};

void
make_tables(const Database &database)
{
    make_classic_outbox(database);
    make_partitioned_outbox(database);
    test::Db db = database.connect();
    db.exec("create extension pg_walinspect");
    db.exec("create table bench_accounts (id int primary key, balance bigint not null) "
            "with (fillfactor = 50)");
    db.exec("insert into bench_accounts select n, 0 from generate_series(0, 9999) n");
    db.exec("vacuum analyze bench_accounts");
}

void
measure_clients(Servers &servers, const Database &database, const Way &way, const char *query_mode,
                const ApplicationOptions &options, WriteWay &result)
{
    database.connect().exec("checkpoint");
    const std::string script =
        kRandomNumber +
        std::string("begin;\nupdate bench_accounts set balance = balance + 1 where id = :n;\n") +
        way.sql + "commit;\n";
    const PgbenchRun run =
        run_pgbench(servers, database, script, options.clients, options.seconds, 0, query_mode);
    WriteWay::Mode &mode = result.modes[query_mode];
    mode.rates.push_back(run.rate());
    mode.cpu_microseconds.push_back(run.cpu_microseconds);
    if (query_mode == std::string(kPrepared))
        for (const auto &[name, fraction] :
             {std::pair{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1.0}})
            result.ms[name].push_back(percentile(run.milliseconds, fraction));
    std::cerr << fmt::format("  {:<11} {:<8} {:>8.0f} transactions/s  CPU {:.1f} us\n", way.name,
                             query_mode, run.rate(), run.cpu_microseconds);
}

// Writes the events, waits until `published`, and counts the WAL of both.
double
wal_bytes(Servers &servers, const Database &database, const char *sql, int events,
          const std::function<bool(test::Db &)> &published)
{
    constexpr int kClients = 4;
    test::Db db = database.connect();
    db.exec("checkpoint");
    const std::string before = db.value("select pg_current_wal_insert_lsn()");
    run_pgbench(servers, database, std::string(kRandomNumber) + sql, kClients, 0,
                events / kClients);
    if (!test::wait_until(std::chrono::seconds(60), [&] { return published(db); }))
        throw std::runtime_error("the events do not get published");
    db.exec("select pg_logical_emit_message(true, 'bench', '')"); // flushes all before it
    return std::stod(db.value("select sum(record_size) from "
                              "pg_get_wal_stats($1, pg_current_wal_flush_lsn())",
                              before)) /
           (events / kClients * kClients);
}

// Nothing else may write WAL meanwhile: each has a database of its own, and no vacuum.
void
measure_wal(Servers &servers, int round, int events, std::vector<PublishedWal> &wal)
{
    const auto add = [&](size_t i, double bytes)
    {
        wal.at(i).bytes.push_back(bytes);
        std::cerr << fmt::format("  WAL of an event: {:7.1f} bytes  {}\n", bytes, wal[i].title);
    };
    Database database(servers, fmt::format("wal_{}", round));
    make_tables(database);
    database.connect().exec("alter table classic_outbox set (autovacuum_enabled = false)");

    const auto at_once = [](test::Db &) { return true; };
    add(0, wal_bytes(servers, database, kMessage, events, at_once));

    PollingOptions polling;
    auto relay = start_polling_relay(servers, database, polling);
    add(1, wal_bytes(servers, database, kClassicScript, events,
                     [](test::Db &db)
                     {
                         return db.value("select not exists (select from classic_outbox "
                                         "where status = 'NEW')") == "t";
                     }));
    relay.reset();

    database.start_relay();
    test::Db db = database.connect();
    wait_for_relay(db);
    const int written = events / 4 * 4;
    add(2, wal_bytes(servers, database, kEmitScript, events,
                     [&](test::Db &)
                     {
                         return db.value("select published_total from outbox.relay_status") ==
                                std::to_string(written);
                     }));
}

} // namespace

ApplicationResult
measure_application_cost(Servers &servers, const ApplicationOptions &options, int rounds)
{
    std::cerr << "what the application pays ...\n";
    ApplicationResult result;
    result.options = options;
    for (const Way &way : kWays)
        result.ways.push_back({way.name, way.title, {}, {}});
    result.wal = {{"message", "pg_logical_emit_message(), for Debezium", {}},
                  {"classic", "classic table: INSERT, UPDATE by a polling relay", {}},
                  {"emit", "outbox.emit(), published by the relay", {}}};
    for (int round = 0; round < rounds; round++)
    {
        {
            const Database database(servers, fmt::format("application_{}", round));
            make_tables(database);
            // Each round begins with another one.
            for (const char *mode : kQueryModes)
                for (size_t i = 0; i < std::size(kWays); i++)
                {
                    const size_t way = (i + static_cast<size_t>(round)) % std::size(kWays);
                    measure_clients(servers, database, kWays[way], mode, options, result.ways[way]);
                }
        }
        measure_wal(servers, round, options.wal_events, result.wal);
    }
    return result;
}

nlohmann::ordered_json
to_json(const ApplicationResult &result)
{
    nlohmann::ordered_json all = {{"clients", result.options.clients},
                                  {"seconds", result.options.seconds}};
    for (const WriteWay &way : result.ways)
    {
        all["ways"][way.name] = {{"title", way.title}};
        for (const auto &[mode, of] : way.modes)
            all["ways"][way.name][mode] = {{"transactions_per_second", of.rates},
                                           {"cpu_microseconds", of.cpu_microseconds}};
        for (const auto &[name, values] : way.ms)
            all["ways"][way.name]["ms"][name] = values;
    }
    for (const PublishedWal &wal : result.wal)
        all["wal"][wal.name] = {{"title", wal.title}, {"bytes", wal.bytes}};
    return all;
}

} // namespace outbox::bench
