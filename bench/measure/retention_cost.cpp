#include "retention_cost.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/support/paced_clients.h"
#include "bench/support/samples.h"
#include "latency_watch.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

using test::Clock;

constexpr int kSharesOfRetention = 6; // each turn of the ring has one
constexpr int kRetentionDays = 7;     // that the simulated month has
constexpr auto kTurnLimit = std::chrono::seconds(60);
constexpr size_t kShownSamples = 11;

// What TRUNCATE and partitions have to do with.
constexpr std::array<const char *, 6> kCatalogues = {"pg_class",  "pg_attribute", "pg_index",
                                                     "pg_depend", "pg_type",      "pg_statistic"};

// A wait for a lock of more than this is in the server's log.
const test::Settings kSettings = {
    {"deadlock_timeout", "10ms"}, {"log_lock_waits", "on"}, {"autovacuum_naptime", "1s"}};

long
number(test::Db &db, const std::string &query)
{
    return std::stol(db.value(query));
}

long
done(test::Db &db, const std::string &task)
{
    return std::stol(db.value(
        "select sum(done_total)::bigint from outbox.maintenance_status where task = $1", task));
}

// Of anybody: "… still waiting for SomeLock on relation 1 of …", or "on extension of relation 1".
long
waits_in_log(const Servers &servers, const std::string &object)
{
    const std::string log = servers.postgresql.log_text();
    const std::string sign = "still waiting for ";
    long count = 0;
    for (size_t at = log.find(sign); at != std::string::npos; at = log.find(sign, at + 1))
    {
        const size_t on = log.find(" on ", at);
        count += on != std::string::npos && log.compare(on + 4, object.size(), object) == 0 ? 1 : 0;
    }
    return count;
}

void
set_retention(Servers &servers, int seconds)
{
    servers.postgresql.configure("outbox.retention", fmt::format("{}s", seconds));
    servers.postgresql.reload();
}

// A transaction of one statement that emits; that one is timed, the COMMIT is not.
Action
emitting(const Database &database, int each, std::vector<double> &took)
{
    auto db = std::make_shared<test::Db>(database.connect());
    const std::string type = database.type();
    return [db, type, each, &took](int number)
    {
        db->exec("begin");
        const auto start = Clock::now();
        db->exec("select count(outbox.emit($1, (i % 100)::text, 'e', $2::jsonb)) from "
                 "generate_series(1, $3::int) i",
                 type, payload(number), each);
        took[static_cast<size_t>(number)] =
            std::chrono::duration<double, std::milli>(Clock::now() - start).count();
        db->exec("commit");
    };
}

EmitWaits
emit_at_rate(Servers &servers, const Database &database, const RetentionOptions &options)
{
    test::Db db = database.connect();
    EmitWaits waits;
    const int actions = options.rate / options.each * options.seconds;
    waits.statements.resize(static_cast<size_t>(actions));
    const long turns = done(db, "rotation");
    const long truncations = done(db, "truncation");
    const long waited = waits_in_log(servers, "relation");
    const long grown = waits_in_log(servers, "extension");
    const auto start = Clock::now();
    run_paced(options.clients, options.rate / options.each, actions,
              [&](int) { return emitting(database, options.each, waits.statements); });
    const std::chrono::duration<double> took = Clock::now() - start;
    waits.events_a_second = actions * options.each / took.count();
    waits.turns = done(db, "rotation") - turns;
    waits.truncations = done(db, "truncation") - truncations;
    waits.lock_waits = waits_in_log(servers, "relation") - waited;
    waits.growth_waits = waits_in_log(servers, "extension") - grown;
    if (db.value("select outbox.drain('120 s')") != "t")
        throw std::runtime_error("the events are not published in two minutes");
    return waits;
}

RingSample
look(test::Db &db)
{
    RingSample sample;
    sample.turns = done(db, "rotation");
    sample.outbox_bytes =
        number(db, "select sum(pg_total_relation_size(oid))::bigint from pg_class where "
                   "relnamespace = 'outbox'::regnamespace and relkind = 'r'");
    sample.dead_tuples =
        number(db, "select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables where "
                   "schemaname = 'outbox' and relname like 'events%'");
    for (const char *name : kCatalogues)
    {
        const std::string catalogue = name;
        sample.catalogue_bytes.push_back(
            number(db, "select pg_total_relation_size('" + catalogue + "')"));
        sample.catalogue_rows.push_back(number(db, "select count(*) from " + catalogue));
    }
    return sample;
}

// Emits a tenth of the rate, and looks after each turn.
std::vector<RingSample>
live_through(const Database &database, const RetentionOptions &options)
{
    const int turns = options.days * kSharesOfRetention / kRetentionDays;
    test::Db db = database.connect();
    test::Db writer = database.connect();
    std::vector<RingSample> samples;
    for (long wanted = done(db, "rotation") + 1; samples.size() < static_cast<size_t>(turns);
         wanted = samples.back().turns + 1)
    {
        const bool turned = test::wait_until(
            kTurnLimit,
            [&]
            {
                writer.exec("select count(outbox.emit($1, (i % 100)::text, 'e', $2::jsonb)) from "
                            "generate_series(1, $3::int) i",
                            database.type(), payload(static_cast<int>(wanted)),
                            std::max(options.rate / 400, 1));
                return done(db, "rotation") >= wanted;
            });
        if (!turned)
            throw std::runtime_error("the ring does not turn");
        samples.push_back(look(db));
    }
    return samples;
}

std::string
line_of(const char *name, const EmitWaits &waits)
{
    const std::vector<double> &all = waits.statements;
    return fmt::format(
        "  {:<18} {:>9.0f} {:>6} {:>6} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9} {:>9}\n", name,
        waits.events_a_second, waits.turns, waits.truncations, percentile(all, 0.5),
        percentile(all, 0.99), percentile(all, 0.999), percentile(all, 1), waits.lock_waits,
        waits.growth_waits);
}

std::string
line_of(const RingSample &sample)
{
    std::string text = fmt::format("  {:>5} {:>11} {:>6}", sample.turns, sample.outbox_bytes / 1024,
                                   sample.dead_tuples);
    for (size_t i = 0; i < sample.catalogue_bytes.size(); i++)
        text +=
            fmt::format(" {:>6} {:>6}", sample.catalogue_rows[i], sample.catalogue_bytes[i] / 1024);
    return text + "\n";
}

} // namespace

RetentionResult
measure_retention(const RetentionOptions &options)
{
    RetentionResult result;
    result.options = options;
    Servers servers(kSettings);
    {
        Database database(servers, "retention");
        database.start_relay();
        test::Db db = database.connect();
        wait_for_relay(db);
        std::cerr << "emitting while the ring stands still ...\n";
        (void) emit_at_rate(servers, database, options); // caches, topics, the heap of the relay
        result.still = emit_at_rate(servers, database, options);
        std::cerr << "emitting while it turns ...\n";
        set_retention(servers, options.retention_seconds);
        (void) emit_at_rate(servers, database, options); // what was emitted before goes
        result.turning = emit_at_rate(servers, database, options);
        std::cerr << fmt::format("{} days ...\n", options.days);
        result.month = live_through(database, options);
    }
    servers.stop();
    return result;
}

std::string
to_text(const RetentionResult &result)
{
    const RetentionOptions &options = result.options;
    std::string text = fmt::format(
        "\nStatements that emit {} events each, {} clients, {} events/s wanted, {} s each\n"
        "  {:<18} {:>9} {:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        options.each, options.clients, options.rate, options.seconds, "", "events/s", "turns",
        "empt.", "p50 ms", "p99", "p99.9", "max", "locked *", "growth *");
    text += line_of("ring stands still", result.still);
    text += line_of("ring turns", result.turning);
    text +=
        "  * waits of more than 10 ms, by anybody, as the server logged them: for the lock on a "
        "table, as\n    the ring takes it; to make a table's file longer, which the ring has no "
        "part in\n";
    text += fmt::format("\n{} days of {} days' retention: {} turns of the ring; kB, and rows of "
                        "the catalogue\n  {:>5} {:>11} {:>6}",
                        options.days, kRetentionDays, result.month.size(), "turns", "outbox.* kB",
                        "dead");
    for (const char *name : kCatalogues)
        text += fmt::format(" {:>13}", name);
    text += "\n";
    const size_t step = std::max(result.month.size() / kShownSamples, size_t{1});
    for (size_t i = 0; i < result.month.size(); i += step)
        text += line_of(result.month[i]);
    return text + line_of(result.month.back());
}

void
run_retention(const RetentionOptions &options)
{
    std::cout << to_text(measure_retention(options));
}

} // namespace outbox::bench
