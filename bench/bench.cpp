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

#include "compare_debezium.h"
#include "document.h"
#include "peers/bare_producer.h"
#include "peers/debezium.h"
#include "peers/polling_relay.h"
#include "plots.h"
#include "report.h"
#include "support/machine.h"
#include "support/servers.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

struct Options
{
    std::vector<std::string> parts = {"write",   "application", "idempotency",
                                      "latency", "steady",      "drain"};
    DrainOptions drain;
    std::vector<std::string> peers = {"polling", "debezium"};
    std::map<std::string, std::string> debezium;
    int rounds = 3;
    int write_events = 50000;
    LatencyOptions latency;
    ApplicationOptions application;
    SteadyOptions steady;
    test::Settings settings;
    std::string json = test::in_build("bench/results.json");
    std::string page;

    bool wants(const std::string &part) const
    {
        return std::find(parts.begin(), parts.end(), part) != parts.end();
    }
    bool has_peer(const std::string &peer) const
    {
        return std::find(peers.begin(), peers.end(), peer) != peers.end();
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
describe_setup(Servers &servers, const Options &options, Results &results)
{
    test::Db db(servers.postgresql, "postgres");
    db.exec("create extension outbox");
    const std::string versions = join(describe_versions(db), ' ');
    db.exec("drop extension outbox");
    results.setup.emplace_back("versions", versions);
    results.setup.emplace_back("PostgreSQL", join(servers.settings()));
    results.setup.emplace_back("broker", "1 node, " + join(broker_settings()));
    results.setup.emplace_back("broker's JVM", jvm_options());
    if (options.has_peer("debezium"))
    {
        std::map<std::string, std::string> debezium = debezium_settings();
        for (const auto &[name, value] : options.debezium)
            debezium[name] = value;
        results.setup.emplace_back("Debezium", join(debezium));
        results.setup.emplace_back("Debezium's JVM", debezium_jvm_options());
    }
    if (load_average() > 1)
        std::cerr << "The machine is busy with other things: the figures will be worse and vary.\n";
}

// Draws the plots beside the figures, and if there is a page to write, once more beside that.
void
show(const std::filesystem::path &json, const std::filesystem::path &page)
{
    const Json results = Json::parse(test::read_file(json));
    for (const Plot &plot : draw_plots(results, json.parent_path()))
        std::cout << plot.title << ": " << (json.parent_path() / plot.file).string() << "\n";
    if (page.empty())
        return;
    const std::filesystem::path directory = std::filesystem::absolute(page).replace_extension();
    write_document(results, draw_plots(results, directory), directory.filename(), page);
    std::cout << "written: " << page.string() << "\n";
}

void
run_benchmark(const Options &options)
{
    Results results;
    results.date = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
    results.setup = describe_machine();
    std::cerr << "starting PostgreSQL and Kafka ...\n";
    Servers servers(options.settings);
    describe_setup(servers, options, results);
    if (options.wants("write"))
        results.write = measure_write_cost(servers, options.write_events, options.rounds);
    if (options.wants("application"))
        results.application =
            measure_application_cost(servers, options.application, options.rounds);
    if (options.wants("idempotency"))
        results.idempotency =
            measure_idempotency_cost(servers, options.write_events, options.rounds);
    if (options.wants("latency"))
        results.latency = measure_latency(servers, options.latency, options.rounds);
    if (options.wants("steady"))
        results.steady = measure_steady(servers, options.steady);
    if (options.wants("drain"))
        results.drain = measure_drain(servers, options.drain, options.rounds);
    servers.stop();

    std::cout << to_text(results);
    const std::filesystem::path json = std::filesystem::absolute(options.json);
    std::filesystem::create_directories(json.parent_path());
    test::write_file(json, to_json(results).dump(2) + "\n");
    std::cout << "\nAll figures of all rounds: " << json.string() << "\n";
    show(json, options.page);
}

} // namespace

} // namespace outbox::bench

namespace
{

using namespace outbox::bench;

// An option that may be given several times.
void
add_pairs(CLI::App &app, const char *option, std::map<std::string, std::string> &pairs,
          const char *help)
{
    const auto add = [&pairs, option](const std::vector<std::string> &settings)
    {
        for (const std::string &setting : settings)
        {
            const size_t equals = setting.find('=');
            if (equals == std::string::npos)
                throw CLI::ValidationError(option, "name=value expected");
            pairs[setting.substr(0, equals)] = setting.substr(equals + 1);
        }
    };
    app.add_option_function<std::vector<std::string>>(option, add, help)->allow_extra_args(false);
}

// "bench": everything, or the parts that are named.
void
add_options(CLI::App &app, Options &options)
{
    app.add_option("part", options.parts,
                   "write, application, idempotency, latency, steady, drain; default: all of them")
        ->check(
            CLI::IsMember({"write", "application", "idempotency", "latency", "steady", "drain"}));
    app.add_option("--events", options.drain.events, "committed events to drain")
        ->check(CLI::Range(int64_t{10000}, int64_t{100000000}))
        ->capture_default_str();
    app.add_option("--backlogs", options.drain.backlogs,
                   "more backlogs for the relay to drain, from small to large")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(int64_t{1000}, int64_t{100000000}));
    app.add_option("--steady-seconds", options.steady.seconds, "length of the steady state")
        ->check(CLI::Range(5, 86400))
        ->capture_default_str();
    app.add_option("--steady-rate", options.steady.rate, "its events a second")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--peers", options.peers, "of polling, debezium; \"none\" leaves them out")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"none", "polling", "debezium"}))
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
    app.add_option("--application-seconds", options.application.seconds,
                   "length of a round of each way to write")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    app.add_option("--latency-rates", options.latency.rates, "events a second")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--latency-seconds", options.latency.seconds, "length of a round")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    add_pairs(app, "--set", options.settings,
              "another setting of PostgreSQL or outbox, as name=value");
    add_pairs(app, "--debezium-set", options.debezium,
              "another property of Debezium's connector, as name=value");
    app.add_option("--json", options.json, "where all figures go")->capture_default_str();
    app.add_option("--page", options.page, "a Markdown page to write them to, too");
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

// "bench document": the plots and the page of a run that was.
CLI::App *
add_document(CLI::App &app, Options &options)
{
    CLI::App *command = app.add_subcommand("document", "draws and writes what a run measured");
    command->add_option("--json", options.json, "its figures")->capture_default_str();
    command->add_option("--page", options.page, "the Markdown page to write");
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
    const CLI::App *document = add_document(app, options);
    const CLI::App *compare =
        app.add_subcommand("compare-debezium", "compares the relay's records with Debezium's");
    CLI11_PARSE(app, argc, argv);
    if (bare_producer->parsed())
        run_bare_producer(bare.bootstrap, bare.topic, bare.events);
    else if (polling_relay->parsed())
        run_polling_relay(polling);
    else if (compare->parsed())
        return compare_with_debezium() ? 0 : 1;
    else if (document->parsed())
        show(std::filesystem::absolute(options.json), options.page);
    else
    {
        options.drain.peers = options.latency.peers = options.steady.peers = options.peers;
        options.drain.debezium = options.latency.debezium = options.debezium;
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
