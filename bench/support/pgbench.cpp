#include "pgbench.h"

#include <fstream>
#include <stdexcept>

#include "inputs.h"
#include "support/process.h"
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

} // namespace

PgbenchRun
run_pgbench(const Servers &servers, const Database &database, const std::string &script,
            int clients, int seconds, int transactions)
{
    constexpr auto kMore = std::chrono::minutes(10);
    const std::filesystem::path directory = test::run_dir() / test::unique_name("pgbench-");
    std::filesystem::create_directories(directory / "logs");
    const std::filesystem::path file = directory / "script.sql";
    test::write_file(file, script);
    test::Command command({test::PgCluster::program("pgbench"), "--no-vacuum",
                           "--protocol=prepared", "--client=" + std::to_string(clients), "--jobs=2",
                           "--log", "--log-prefix=" + (directory / "logs" / "log").string(),
                           "--define=type=" + database.type(),
                           std::string("--define=event=") + kEventType,
                           "--define=payload=" + inputs().front().payload,
                           "--host=" + servers.postgresql.socket_dir().string(),
                           "--port=" + std::to_string(servers.postgresql.port()),
                           "--username=postgres", "--file=" + file.string(),
                           transactions > 0 ? "--transactions=" + std::to_string(transactions)
                                            : "--time=" + std::to_string(seconds),
                           database.type()});
    const auto began = test::Clock::now();
    test::run_or_throw(command, std::chrono::seconds(seconds) + kMore);
    PgbenchRun run;
    run.seconds = std::chrono::duration<double>(test::Clock::now() - began).count();
    run.milliseconds = read_logs(directory / "logs");
    std::filesystem::remove_all(directory);
    return run;
}

} // namespace outbox::bench
