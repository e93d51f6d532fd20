#include "steady.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/peers/classic_outbox.h"
#include "bench/peers/debezium.h"
#include "bench/peers/polling_relay.h"
#include "bench/support/threads.h"
#include "bench/support/topics.h"
#include "latency_watch.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

using test::Clock;

constexpr auto kDrainedLimit = std::chrono::seconds(60);

// Of the tables whose events these are: $1, or the leaves below it.
constexpr const char *kSizes =
    "select sum(pg_table_size(oid)), sum(pg_indexes_size(oid)), "
    "sum(pg_stat_get_dead_tuples(oid)), sum(pg_stat_get_autovacuum_count(oid)) from pg_class "
    "where relkind = 'r' and (oid = $1::regclass or "
    "oid in (select relid from pg_partition_tree($1::regclass)))";
constexpr const char *kWalKept =
    "select coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)::bigint "
    "from pg_replication_slots";

SteadySample
look(test::Db &db, const std::string &table, double seconds, long behind, pid_t process)
{
    const test::Result row = db.exec(kSizes, table);
    SteadySample sample;
    sample.seconds = seconds;
    sample.table_bytes = std::stol(row.text(0, 0));
    sample.index_bytes = std::stol(row.text(0, 1));
    sample.dead_tuples = std::stol(row.text(0, 2));
    sample.autovacuums = std::stol(row.text(0, 3));
    sample.wal_kept = std::stol(db.value(kWalKept));
    sample.behind = behind;
    sample.cpu_seconds = cpu_seconds(process);
    sample.memory = memory_use(process);
    return sample;
}

// What is written, and into what.
struct Writing
{
    std::string table;
    std::string sql;        // see transactions()
    std::string afterwards; // the same
};

// Writes for as long as asked, looking from time to time, and then waits until all is published.
std::vector<SteadySample>
watch(Servers &servers, const Database &database, const Writing &writing,
      const SteadyOptions &options, pid_t process)
{
    LatencyOptions of_load;
    of_load.seconds = options.seconds;
    Load load(of_load, options.rate);
    TopicWatch topic(servers.kafka.bootstrap(), database.topic());
    const int64_t before = topic.records(); // of a warm-up
    test::Db db = database.connect();
    std::vector<SteadySample> samples;
    const auto began = Clock::now();
    const auto seconds = [&]
    { return std::chrono::duration<double>(Clock::now() - began).count(); };

    const auto take = [&]
    {
        const long written =
            std::min(static_cast<long>(options.rate * seconds()), static_cast<long>(load.events()));
        samples.push_back(look(db, writing.table, seconds(),
                               std::max(written - (topic.records() - before), 0L), process));
    };
    const auto write = [&]
    {
        run_paced(load.clients, load.rate / load.each, load.events() / load.each,
                  [&](int)
                  { return transactions(database, writing.sql, load, writing.afterwards); });
    };
    const auto look_on = [&]
    {
        const std::chrono::duration<double> all(static_cast<double>(load.events()) / load.rate);
        for (int i = 1; i <= options.samples; i++)
        {
            std::this_thread::sleep_until(
                began + std::chrono::duration_cast<Clock::duration>(all * i / options.samples));
            take();
        }
    };
    run_threads(2, [&](int thread) { thread == 0 ? write() : look_on(); });
    if (!test::wait_until(kDrainedLimit, [&] { return topic.records() - before >= load.events(); }))
        throw std::runtime_error("events of the steady state are missing in " + database.topic());
    take();
    return samples;
}

void
show_progress(const SteadyRun &run)
{
    const SteadySample &last = run.samples.back();
    std::cerr << fmt::format("  {:<10} {:.0f} MB table, {:.0f} MB indexes, {} dead tuples, {} "
                             "autovacuums, {:.0f} MB memory, {:.0f} MB of WAL kept\n",
                             run.name, static_cast<double>(last.table_bytes) / 1e6,
                             static_cast<double>(last.index_bytes) / 1e6, run.most_dead_tuples(),
                             last.autovacuums, static_cast<double>(last.memory.own) / 1e6,
                             static_cast<double>(last.wal_kept) / 1e6);
}

} // namespace

long
SteadyRun::most_dead_tuples() const
{
    long most = 0;
    for (const SteadySample &sample : samples)
        most = std::max(most, sample.dead_tuples);
    return most;
}

SteadyResult
measure_steady(Servers &servers, const SteadyOptions &options)
{
    std::cerr << fmt::format("steady state at {} events/s ...\n", options.rate);
    Database database(servers, "steady");
    database.start_relay();
    test::Db db = database.connect();
    wait_for_relay(db);
    SteadyResult result = {options, {"relay", "outbox relay", {}}};
    result.run.samples =
        watch(servers, database,
              {"outbox.events",
               "select count(outbox.emit($1, aggregate_id, $2, payload)) from input", ""},
              options, running_relay(db));
    show_progress(result.run);
    return result;
}

SteadyResult
measure_steady_polling(Servers &servers, const SteadyOptions &options)
{
    std::cerr << fmt::format("steady state of a polling relay at {} events/s ...\n", options.rate);
    const Database database(servers, "steady_polling");
    make_classic_outbox(database);
    const PollingOptions polling;
    const auto relay = start_polling_relay(servers, database, polling);
    SteadyResult result = {options, {"polling", polling_title(polling) + ", rows marked", {}}};
    result.run.samples =
        watch(servers, database, {kClassicTable, kClassicInsertInput, ""}, options, relay->pid());
    show_progress(result.run);
    return result;
}

SteadyResult
measure_steady_debezium(Servers &servers, const SteadyOptions &options)
{
    std::cerr << fmt::format("steady state of Debezium at {} events/s ...\n", options.rate);
    const LogicalDecoding logical_decoding(servers);
    const Database database(servers, "steady_debezium");
    make_classic_outbox(database);
    const Debezium debezium(
        servers, database,
        classic_connector(database, debezium_settings(Purpose::kThroughput, options.debezium)));
    SteadyResult result = {options, {"debezium", "Debezium, rows deleted", {}}};
    result.run.samples = watch(servers, database,
                               {kClassicTable, kClassicInsertInput + std::string(" returning id"),
                                "delete from classic_outbox where id = any($1::uuid[])"},
                               options, debezium.pid());
    show_progress(result.run);
    return result;
}

nlohmann::ordered_json
to_json(const SteadyResult &result)
{
    nlohmann::ordered_json samples = nlohmann::ordered_json::array();
    for (const SteadySample &sample : result.run.samples)
        samples.push_back({{"seconds", sample.seconds},
                           {"table_bytes", sample.table_bytes},
                           {"index_bytes", sample.index_bytes},
                           {"dead_tuples", sample.dead_tuples},
                           {"autovacuums", sample.autovacuums},
                           {"wal_kept_bytes", sample.wal_kept},
                           {"behind", sample.behind},
                           {"cpu_seconds", sample.cpu_seconds},
                           {"own_memory_bytes", sample.memory.own}});
    return {{"rate", result.options.rate},
            {"seconds", result.options.seconds},
            {"title", result.run.title},
            {"samples", samples}};
}

} // namespace outbox::bench
