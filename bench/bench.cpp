// The program behind "make bench": starts a private PostgreSQL and a real Kafka, measures the relay
// and what it is compared with one after the other, prints the figures and writes them as JSON.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "peers/bare_producer.h"
#include "peers/polling_relay.h"
#include "report.h"
#include "support/machine.h"
#include "support/servers.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

struct Options
{
    std::vector<std::string> parts = {"write", "idempotency", "latency", "drain"};
    DrainOptions drain;
    std::vector<std::string> peers = {"polling"};
    int rounds = 3;
    int write_events = 50000;
    LatencyOptions latency;
    test::Settings settings;
    std::string json = OUTBOX_BUILD_DIR "/bench/results.json";

    bool wants(const std::string &part) const
    {
        return std::find(parts.begin(), parts.end(), part) != parts.end();
    }
};

// "name=value, name=value" with another sign for "=" if wanted.
template <class Pairs>
std::string
join(const Pairs &pairs, char between = '=')
{
    std::string text;
    for (const auto &[name, value] : pairs)
        text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name, between, value);
    return text;
}

void
describe_setup(Servers &servers, Results &results)
{
    test::Db db(servers.postgresql, "postgres");
    db.exec("create extension outbox");
    const std::string versions = join(describe_versions(db), ' ');
    db.exec("drop extension outbox");
    results.setup.emplace_back("versions", versions);
    results.setup.emplace_back("PostgreSQL", join(servers.settings()));
    results.setup.emplace_back("broker", "1 node, " + join(broker_settings()));
    results.setup.emplace_back("its JVM", jvm_options());
    if (load_average() > 1)
        std::cerr << "The machine is busy with other things: the figures will be worse and vary.\n";
}

void
run_benchmark(const Options &options)
{
    Results results;
    results.date = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
    results.setup = describe_machine();
    std::cerr << "starting PostgreSQL and Kafka ...\n";
    Servers servers(options.settings);
    describe_setup(servers, results);
    if (options.wants("write"))
        results.write = measure_write_cost(servers, options.write_events, options.rounds);
    if (options.wants("idempotency"))
        results.idempotency =
            measure_idempotency_cost(servers, options.write_events, options.rounds);
    if (options.wants("latency"))
        results.latency = measure_latency(servers, options.latency, options.rounds);
    if (options.wants("drain"))
        results.drain = measure_drain(servers, options.drain, options.rounds);
    servers.stop();

    std::cout << to_text(results);
    const std::filesystem::path json = std::filesystem::absolute(options.json);
    std::filesystem::create_directories(json.parent_path());
    test::write_file(json, to_json(results).dump(2) + "\n");
    std::cout << "\nAll figures of all rounds: " << json.string() << "\n";
}

} // namespace

} // namespace outbox::bench

namespace
{

using namespace outbox::bench;

// "bench": everything, or the parts that are named.
void
add_options(CLI::App &app, Options &options)
{
    app.add_option("part", options.parts,
                   "write, idempotency, latency, drain; default: all of them")
        ->check(CLI::IsMember({"write", "idempotency", "latency", "drain"}));
    app.add_option("--events", options.drain.events, "committed events to drain")
        ->check(CLI::Range(int64_t{10000}, int64_t{100000000}))
        ->capture_default_str();
    app.add_option("--peers", options.peers, "of polling; \"none\" leaves them out")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"none", "polling"}))
        ->capture_default_str();
    app.add_option("--peer-seconds", options.drain.peer_seconds,
                   "how long a peer may drain, before it is told by what it has done")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    app.add_option("--polling-batch", options.drain.polling_batches,
                   "rows of a polling relay's transaction; several are compared")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 1000000));
    app.add_option("--rounds", options.rounds, "how often everything is measured")
        ->check(CLI::Range(1, 99))
        ->capture_default_str();
    app.add_option("--write-events", options.write_events, "events written in a round")
        ->check(CLI::Range(1000, 10000000))
        ->capture_default_str();
    app.add_option("--latency-rates", options.latency.rates, "events a second")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--latency-seconds", options.latency.seconds, "length of a round")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    app.add_option_function<std::vector<std::string>>(
           "--set",
           [&options](const std::vector<std::string> &settings)
           {
               for (const std::string &setting : settings)
               {
                   const size_t equals = setting.find('=');
                   if (equals == std::string::npos)
                       throw CLI::ValidationError("--set", "name=value expected");
                   options.settings[setting.substr(0, equals)] = setting.substr(equals + 1);
               }
           },
           "another setting of PostgreSQL or outbox, as name=value")
        ->allow_extra_args(false);
    app.add_option("--json", options.json, "where all figures go")->capture_default_str();
}

// "bench bare-producer": what "bench" starts as the contender that is the limit.
struct BareProducerOptions
{
    std::string bootstrap;
    std::string topic;
    int64_t events = 0;
};

CLI::App *
add_bare_producer(CLI::App &app, BareProducerOptions &options)
{
    CLI::App *command = app.add_subcommand("bare-producer", "produces at once to a topic");
    command->add_option("--bootstrap", options.bootstrap)->required();
    command->add_option("--topic", options.topic)->required();
    command->add_option("--events", options.events)->required();
    return command;
}

// "bench polling-relay": a contender's process.
CLI::App *
add_polling_relay(CLI::App &app, PollingOptions &options)
{
    CLI::App *command =
        app.add_subcommand("polling-relay", "publishes from a classic outbox table");
    command->add_option("--conninfo", options.conninfo)->required();
    command->add_option("--bootstrap", options.bootstrap)->required();
    command->add_option("--workers", options.workers)->check(CLI::Range(1, 64));
    command->add_option("--batch", options.batch)->check(CLI::Range(1, 1000000));
    command->add_option("--idle-ms", options.idle_ms)->check(CLI::Range(0, 60000));
    return command;
}

int
run(int argc, char **argv)
{
    CLI::App app("Measures outbox beside what it is compared with.", "bench");
    Options options;
    BareProducerOptions bare;
    add_options(app, options);
    const CLI::App *bare_producer = add_bare_producer(app, bare);
    PollingOptions polling;
    const CLI::App *polling_relay = add_polling_relay(app, polling);
    CLI11_PARSE(app, argc, argv);
    if (bare_producer->parsed())
        run_bare_producer(bare.bootstrap, bare.topic, bare.events);
    else if (polling_relay->parsed())
        run_polling_relay(polling);
    else
    {
        options.drain.peers = options.latency.peers = options.peers;
        run_benchmark(options);
    }
    return 0;
}

} // namespace

int
main(int argc, char **argv)
{
    // A server that died is an error to report, not to die of.
    if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return 1;
    try
    {
        return run(argc, argv);
    }
    catch (const std::exception &error)
    {
        std::cerr << "bench: " << error.what() << "\n";
        return 1;
    }
}
