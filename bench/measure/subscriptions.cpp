#include "subscriptions.h"

#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bench/support/pipeline.h"
#include "bench/support/process_usage.h"
#include "drain.h"
#include "latency_watch.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

constexpr int kOthers[] = {0, 1, 3}; // besides `default`: the third has four relays
constexpr int kRate = 200;
constexpr int kWarmUp = 500;
constexpr double kDrainSeconds = 600;
constexpr auto kStart = std::chrono::seconds(60);
constexpr auto kIdle = std::chrono::seconds(20);

// Subscriptions of one database to the same Kafka, each with a topic of its own.
class Others
{
public:
    Others(Servers &servers, const Database &database) : servers_(servers), database_(database) {}

    void create(int count, const std::string &start = "now")
    {
        make_topics(count);
        test::Db db = database_.connect();
        for (int i = 0; i < count; i++)
        {
            const std::string name = fmt::format("s{}", i);
            db.exec("select outbox.create_subscription($1, 'kafka', jsonb_build_object("
                    "'bootstrap_servers', $2::text, 'topic_template', $1 || '.{aggregate_type}'), "
                    "start => $3)",
                    name, servers_.kafka.bootstrap(), start);
        }
    }

    void make_topics(int count)
    {
        while (static_cast<int>(topics_.size()) < count)
            topics_.push_back(std::make_unique<Topic>(
                servers_.kafka, fmt::format("s{}.{}", topics_.size(), database_.type())));
    }

    void wait_until_running() const
    {
        test::Db db = database_.connect();
        if (!test::wait_until(kStart,
                              [&]
                              {
                                  return db.value("select count(*) from outbox.subscription_status "
                                                  "where state <> 'running'") == "0";
                              }))
            throw std::runtime_error("not all subscriptions are running");
    }

    const std::string &topic(size_t which) const { return topics_.at(which)->name(); }

    std::vector<pid_t> processes() const
    {
        test::Db db = database_.connect();
        std::vector<pid_t> found;
        for (const std::string &pid :
             db.column("select pid from outbox.subscription_status where pid is not null"))
            found.push_back(std::stoi(pid));
        return found;
    }

    pid_t process() const
    {
        const std::vector<pid_t> found = processes();
        return found.empty() ? 0 : found.front();
    }

private:
    Servers &servers_;
    const Database &database_;
    std::vector<std::unique_ptr<Topic>> topics_;
};

// In a transaction that is not committed: the relays have nothing to do meanwhile.
WriteCost
measure_emit(const Database &database, int events)
{
    database.connect().exec("checkpoint");
    Pipeline session(database.conninfo());
    session.prepare("select outbox.emit($1, $2, $3, $4)", 4);
    session.exec("begin");
    const auto make = [&](int number)
    {
        const Input &input = inputs()[static_cast<size_t>(number) % inputs().size()];
        return std::vector<WireParam>{text_param(database.type()), text_param(input.key),
                                      text_param(kEventType), text_param(input.payload)};
    };
    session.run(kWarmUp, make);
    Meter meter(session);
    session.run(events, make);
    return meter.cost_of(events);
}

void
measure_beside(Servers &servers, int events, const LatencyOptions &latency, int round,
               SubscriptionsResult &result)
{
    for (const int others : kOthers)
    {
        Database database(servers, fmt::format("beside_{}_{}", others, round));
        test::Db(database.connect()).exec("create extension pg_walinspect");
        Others subscriptions(servers, database);
        subscriptions.create(others);
        database.start_relay();
        test::Db db = database.connect();
        wait_for_relay(db);
        subscriptions.wait_until_running();
        measure_way(servers, database,
                    "select count(outbox.emit($1, aggregate_id, $2, payload)) from input",
                    Load(latency, kRate), running_relay(db), result.ways[others]);
        show_progress(fmt::format("{} besides default", others), result.ways[others].latencies);
        result.emit[others].push_back(measure_emit(database, events));
        std::cerr << fmt::format("  emit() {:6.2f} us  CPU {:6.2f} us\n",
                                 result.emit[others].back().microseconds,
                                 result.emit[others].back().cpu_microseconds);
    }
}

// The default relay knows no Kafka meanwhile.
DrainRun
drain_subscription(Servers &servers, const Database &database, int64_t backlog)
{
    Others subscriptions(servers, database);
    subscriptions.make_topics(1);
    return complete(watch_drain(servers, subscriptions.topic(0), backlog,
                                {[&] { subscriptions.create(1, "retained"); },
                                 [&] { return subscriptions.process(); }},
                                kDrainSeconds),
                    subscriptions.topic(0));
}

// Its WAL, in whatever database, is nobody's here.
class WithoutAutovacuum
{
public:
    explicit WithoutAutovacuum(Servers &servers) : db_(servers.postgresql, "postgres")
    {
        db_.exec("alter system set autovacuum = off");
        db_.exec("select pg_reload_conf()");
    }
    ~WithoutAutovacuum()
    {
        try
        {
            db_.exec("alter system reset autovacuum");
            db_.exec("select pg_reload_conf()");
        }
        catch (const std::exception &error)
        {
            std::cerr << "autovacuum stays off: " << error.what() << "\n";
        }
    }
    WithoutAutovacuum(const WithoutAutovacuum &) = delete;
    WithoutAutovacuum &operator=(const WithoutAutovacuum &) = delete;

private:
    test::Db db_;
};

IdleCost
measure_idle(Servers &servers, int round)
{
    Database database(servers, fmt::format("idle_{}", round));
    Others subscriptions(servers, database);
    subscriptions.create(kIdleSubscriptions);
    subscriptions.wait_until_running();
    test::Db db = database.connect();
    const std::vector<pid_t> processes = subscriptions.processes();
    const auto cpu = [&]
    {
        double seconds = 0;
        for (const pid_t process : processes)
            seconds += exact_cpu_seconds(process);
        return seconds;
    };
    // What the start and the databases before leave to be done is over.
    WithoutAutovacuum quiet(servers);
    db.exec("checkpoint");
    std::this_thread::sleep_for(kIdle / 2);
    const double before = cpu();
    const std::string lsn = db.value("select pg_current_wal_insert_lsn()");
    std::this_thread::sleep_for(kIdle);
    const auto seconds = static_cast<double>(kIdle.count());
    IdleCost cost;
    cost.cores = (cpu() - before) / seconds;
    cost.wal_bytes_per_second =
        std::stod(db.value("select pg_current_wal_insert_lsn() - $1::pg_lsn", lsn)) / seconds;
    std::cerr << fmt::format("  {} idle: {:.3f} % of a core, {:.0f} bytes of WAL a second\n",
                             kIdleSubscriptions, cost.cores * 100, cost.wal_bytes_per_second);
    return cost;
}

} // namespace

SubscriptionsResult
measure_subscriptions(Servers &servers, int events, int64_t backlog, const LatencyOptions &latency,
                      int rounds)
{
    std::cerr << "subscriptions ...\n";
    SubscriptionsResult result;
    result.emitted = events;
    for (int round = 0; round < rounds; round++)
    {
        measure_beside(servers, events, latency, round, result);
        Database alone(servers, fmt::format("alone_{}", round));
        fill_events(alone, backlog);
        result.of_default.push_back(drain_relay(servers, alone, backlog));
        show_progress("default", result.of_default.back());
        Database other(servers, fmt::format("other_{}", round));
        fill_events(other, backlog);
        result.of_subscription.push_back(drain_subscription(servers, other, backlog));
        show_progress("subscription", result.of_subscription.back());
        result.idle.push_back(measure_idle(servers, round));
    }
    return result;
}

nlohmann::ordered_json
to_json(const SubscriptionsResult &result)
{
    nlohmann::ordered_json all = {{"events", result.emitted},
                                  {"of_default", to_json(result.of_default)},
                                  {"of_subscription", to_json(result.of_subscription)}};
    for (const auto &[others, rounds] : result.emit)
        for (const WriteCost &cost : rounds)
            all["emit"][std::to_string(others)].push_back(
                {{"microseconds", cost.microseconds},
                 {"cpu_microseconds", cost.cpu_microseconds},
                 {"wal_bytes", cost.wal_bytes}});
    for (const auto &[others, way] : result.ways)
        for (const std::vector<double> &round : way.latencies.rounds)
        {
            all["p50_ms"][std::to_string(others)].push_back(percentile(round, 0.5));
            all["p99_ms"][std::to_string(others)].push_back(percentile(round, 0.99));
        }
    for (const IdleCost &cost : result.idle)
        all["idle"].push_back(
            {{"cores", cost.cores}, {"wal_bytes_per_second", cost.wal_bytes_per_second}});
    return all;
}

} // namespace outbox::bench
