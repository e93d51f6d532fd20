#include "pgbench.h"

#include <fstream>
#include <stdexcept>

#include "inputs.h"
#include "process_usage.h"
#include "support/process.h"
#include "support/wait.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

// A line is: client, transaction, microseconds, ...
std::vector<double>
read_logs(const std::filesystem::path &directory)
{
    std::vector<double> milliseconds;
    for (const auto &entry : std::filesystem::directory_iterator(directory))
    {
        std::ifstream log(entry.path());
        double client = 0;
        double transaction = 0;
        double microseconds = 0;
        for (std::string rest;
             log >> client >> transaction >> microseconds && std::getline(log, rest);)
            milliseconds.push_back(microseconds / 1000);
    }
    if (milliseconds.empty())
        throw std::runtime_error("pgbench has no transaction in its log");
    return milliseconds;
}

// pgbench's connections have ended, and the server has heard of it soon.
void
wait_for_backends(const Database &database)
{
    constexpr auto kLimit = std::chrono::seconds(60);
    const auto all_ended = [&]
    {
        return database.connect().value("select count(*) from pg_stat_activity where datname = "
                                        "current_database() and application_name = 'pgbench'") ==
               "0";
    };
    if (!test::wait_until(kLimit, all_ended))
        throw std::runtime_error("the backends of pgbench do not end");
}

// pgbench replaces variables in what it sends as text, and sends them as parameters otherwise.
std::string
define(const char *variable, const std::string &value, bool as_text)
{
    const char *quote = as_text ? "'" : "";
    return std::string("--define=") + variable + "=" + quote + value + quote;
}

} // namespace

PgbenchRun
run_pgbench(Servers &servers, const Database &database, const std::string &script, int clients,
            int seconds, int transactions, const std::string &query_mode)
{
    constexpr auto kMore = std::chrono::minutes(10);
    const std::filesystem::path directory = test::run_dir() / test::unique_name("pgbench-");
    std::filesystem::create_directories(directory / "logs");
    const std::filesystem::path file = directory / "script.sql";
    test::write_file(file, script);
    const bool as_text = query_mode == kQueryModes[0];
    test::Command command(
        {test::PgCluster::program("pgbench"), "--no-vacuum", "--protocol=" + query_mode,
         "--client=" + std::to_string(clients), "--jobs=2", "--log",
         "--log-prefix=" + (directory / "logs" / "log").string(),
         define("type", database.type(), as_text), define("event", kEventType, as_text),
         define("payload", inputs().front().payload, as_text),
         "--host=" + servers.postgresql.socket_dir().string(),
         "--port=" + std::to_string(servers.postgresql.port()), "--username=postgres",
         "--file=" + file.string(),
         transactions > 0 ? "--transactions=" + std::to_string(transactions)
                          : "--time=" + std::to_string(seconds),
         database.type()});
    const pid_t postmaster = servers.postgresql.postmaster().pid();
    const double before = ended_children_cpu_seconds(postmaster);
    const auto began = test::Clock::now();
    test::run_or_throw(command, std::chrono::seconds(seconds) + kMore);
    PgbenchRun run;
    run.seconds = std::chrono::duration<double>(test::Clock::now() - began).count();
    run.milliseconds = read_logs(directory / "logs");
    wait_for_backends(database);
    constexpr double kMicroseconds = 1e6;
    run.cpu_microseconds = (ended_children_cpu_seconds(postmaster) - before) * kMicroseconds /
                           static_cast<double>(run.milliseconds.size());
    std::filesystem::remove_all(directory);
    return run;
}

} // namespace outbox::bench
