#include "run.h"

#include <chrono>
#include <ctime>
#include <iostream>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "bench/support/machine.h"
#include "bench/support/servers.h"
#include "parts.h"
#include "support/process.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

using std::chrono::steady_clock;

std::vector<Part>
wanted_parts(const Options &options)
{
    std::vector<Part> wanted;
    for (const std::string &name : options.parts)
        wanted.push_back(part_of(name));
    if (wanted.empty())
        for (const Part &part : parts())
            if (part.in_whole_run || options.all)
                wanted.push_back(part);
    return wanted;
}

void
print_durations(const std::vector<Part> &wanted, const Options &options)
{
    constexpr double kMinute = 60;
    double sum = 0;
    for (const Part &part : wanted)
    {
        const double seconds = part.estimate(options);
        sum += seconds;
        std::cerr << fmt::format("  {:<16} about {:4.1f} min  {}\n", part.name, seconds / kMinute,
                                 part.about);
    }
    std::cerr << fmt::format("  {:<16} about {:4.1f} min\n", "together", sum / kMinute);
}

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

// What git prints, without the end of the line; nothing when there is no git, or no repository.
std::optional<std::string>
git(std::vector<std::string> words)
{
    words.insert(words.begin(), {"git", "-C", test::in_source(".")});
    test::Finished ran = test::run(test::Command(words));
    if (!ran.ok())
        return std::nullopt;
    ran.output.erase(ran.output.find_last_not_of('\n') + 1);
    return ran.output;
}

// What was built, with "-dirty" if it has changes that are not committed; those that the benchmark
// writes itself do not count.
std::string
commit()
{
    const std::optional<std::string> head = git({"rev-parse", "--short=10", "HEAD"});
    const std::optional<std::string> changed =
        git({"status", "--porcelain", "--untracked-files=no", "--", ":!docs/benchmarks.md",
             ":!docs/benchmarks"});
    if (!head || !changed)
        return "unknown";
    return *head + (changed->empty() ? "" : "-dirty");
}

Json
describe_setup(Servers &servers)
{
    Json setup;
    for (const auto &[name, value] : describe_machine())
        setup[name] = value;
    setup.erase("load before"); // each part has its own
    test::Db db(servers.postgresql, "postgres");
    db.exec("create extension outbox");
    setup["versions"] = join(describe_versions(db), ' ');
    db.exec("drop extension outbox");
    setup["PostgreSQL"] = join(servers.settings());
    setup["broker"] = "1 node, " + join(broker_settings());
    setup["broker's JVM"] = jvm_options();
    return setup;
}

Json
measure(Servers &servers, const Part &part, const Options &options, const Json &setup)
{
    Json result = {{"part", part.name},
                   {"date", fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)))},
                   {"commit", commit()},
                   {"load_before", load_average()}};
    if (load_average() > 1)
        std::cerr << "The machine is busy with other things, or still with the part before: the "
                     "figures may be worse and vary.\n";
    const auto began = steady_clock::now();
    const Json figures = part.measure(servers, options);
    result["seconds"] = std::chrono::duration<double>(steady_clock::now() - began).count();
    result["setup"] = setup;
    result["figures"] = figures;
    return result;
}

} // namespace

void
run_parts(const Options &options)
{
    const std::vector<Part> wanted = wanted_parts(options);
    print_durations(wanted, options);
    const std::filesystem::path directory = std::filesystem::absolute(options.directory);
    std::filesystem::create_directories(directory);
    std::cerr << "starting PostgreSQL and Kafka ...\n";
    Servers servers(options.settings);
    const Json setup = describe_setup(servers);
    for (const auto &[name, value] : setup.items())
        std::cout << fmt::format("  {:<16}{}\n", name, value.get<std::string>());
    for (const Part &part : wanted)
    {
        const Json result = measure(servers, part, options, setup);
        const std::filesystem::path file = directory / (std::string(part.name) + ".json");
        test::write_file(file, result.dump(2) + "\n");
        std::cout << "All figures of all rounds: " << file.string() << "\n";
    }
    servers.stop();
}

} // namespace outbox::bench
