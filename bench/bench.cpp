// The program behind "make bench": starts a private PostgreSQL and a real Kafka, measures the relay
// and what it is compared with one after the other, prints the figures and writes them as JSON.
#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "measure/monitoring_cost.h"
#include "measure/retention_cost.h"
#include "options.h"
#include "parts.h"
#include "peers/bare_producer.h"
#include "peers/polling_relay.h"
#include "run.h"

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

// What all parts share, and what says where the figures go.
void
add_options(CLI::App &app, Options &options, std::map<std::string, std::string> &debezium)
{
    std::vector<std::string> names;
    std::string about;
    for (const Part &part : parts())
    {
        names.emplace_back(part.name);
        about += (about.empty() ? "" : ", ") + names.back();
    }
    app.add_option("part", options.parts, about + "; default: all but tuning and profile")
        ->check(CLI::IsMember(names));
    app.add_flag("--all", options.all, "those, too");
    app.add_option("--rounds", options.rounds, "how often everything is measured")
        ->check(CLI::Range(1, 99))
        ->capture_default_str();
    add_pairs(app, "--set", options.settings,
              "another setting of PostgreSQL or outbox, as name=value");
    add_pairs(app, "--debezium-set", debezium,
              "another property of Debezium's connector, as name=value");
    app.add_option("--directory", options.directory, "where figures go")->capture_default_str();
}

// What single parts do.
void
add_part_options(CLI::App &app, Options &options, std::vector<std::string> &peers)
{
    app.add_option("--events", options.drain.events, "committed events to drain")
        ->check(CLI::Range(int64_t{10000}, int64_t{100000000}))
        ->capture_default_str();
    app.add_option("--backlogs", options.growth.backlogs, "of growth, from small to large")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(int64_t{1000}, int64_t{100000000}))
        ->capture_default_str();
    app.add_option("--clients", options.growth.clients, "of growth")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 50))
        ->capture_default_str();
    app.add_option("--databases", options.growth.databases, "of growth")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 20))
        ->capture_default_str();
    app.add_option("--growth-events", options.growth.events, "that they drain together")
        ->check(CLI::Range(int64_t{10000}, int64_t{100000000}))
        ->capture_default_str();
    app.add_option("--client-seconds", options.growth.client_seconds,
                   "length of a round of each number of clients")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    app.add_option("--steady-seconds", options.steady.seconds, "length of the steady state")
        ->check(CLI::Range(5, 86400))
        ->capture_default_str();
    app.add_option("--steady-rate", options.steady.rate, "its events a second")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    app.add_option("--peers", peers, "of polling, debezium; \"none\" leaves them out")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"none", "polling", "debezium"}))
        ->capture_default_str();
    app.add_option("--peer-seconds", options.drain.peer_seconds,
                   "how long a peer may drain before it is measured by what it has done")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    app.add_option("--polling-batch", options.drain.polling_batches,
                   "rows of a polling relay's transaction; several are compared")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 1000000));
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
}

// "bench bare-producer": what "bench" starts as the contender that is the limit.
struct BareProducerOptions
{
    std::string bootstrap;
    std::string topic;
    int64_t events = 0;
    Pace pace;
};

CLI::App *
add_bare_producer(CLI::App &app, BareProducerOptions &options)
{
    CLI::App *command = app.add_subcommand("bare-producer", "produces to a topic");
    command->add_option("--bootstrap", options.bootstrap)->required();
    command->add_option("--topic", options.topic)->required();
    command->add_option("--events", options.events)->required();
    command->add_option("--rate", options.pace.rate, "events a second; 0: as fast as it can");
    command->add_option("--each", options.pace.each, "events at a time, when there is a rate");
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

// "bench retention": servers of its own, as it sets them otherwise.
CLI::App *
add_retention(CLI::App &app, RetentionOptions &options)
{
    CLI::App *command =
        app.add_subcommand("retention", "what the turns of the ring cost, and a month of them");
    command->add_option("--rate", options.rate, "events a second")
        ->check(CLI::Range(1000, 100000))
        ->capture_default_str();
    command->add_option("--seconds", options.seconds, "length of each of four rounds")
        ->check(CLI::Range(1, 3600))
        ->capture_default_str();
    command->add_option("--days", options.days, "to simulate")
        ->check(CLI::Range(2, 3650))
        ->capture_default_str();
    return command;
}

int
run(int argc, char **argv)
{
    CLI::App app("Measures outbox beside what it is compared with.", "bench");
    Options options;
    std::vector<std::string> peers = {"polling", "debezium"};
    std::map<std::string, std::string> debezium;
    BareProducerOptions bare;
    PollingOptions polling;
    add_options(app, options, debezium);
    add_part_options(app, options, peers);
    const CLI::App *bare_producer = add_bare_producer(app, bare);
    const CLI::App *polling_relay = add_polling_relay(app, polling);
    add_monitoring_cost(app);
    RetentionOptions retention_options;
    const CLI::App *retention = add_retention(app, retention_options);
    CLI11_PARSE(app, argc, argv);
    if (bare_producer->parsed())
        run_bare_producer(bare.bootstrap, bare.topic, bare.events, bare.pace);
    else if (polling_relay->parsed())
        run_polling_relay(polling);
    else if (retention->parsed())
        run_retention(retention_options);
    else
    {
        options.drain.peers = options.latency.peers = peers;
        options.drain.debezium = options.latency.debezium = options.steady.debezium = debezium;
        run_parts(options);
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
