#include "profile.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "bench/support/topics.h"
#include "drain.h"
#include "support/process.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

// Samples a process, all threads that it has by now, until it is looked at.
class Sampler
{
public:
    explicit Sampler(const std::string &name) : file_(test::run_dir() / (name + ".perf")) {}

    void start(pid_t pid)
    {
        test::Command command({"perf", "record", "--freq", "997", "--pid", std::to_string(pid),
                               "--output", file_.string()});
        command.output = test::new_log("perf").string();
        perf_ = std::make_unique<test::Process>(command);
    }

    ProfileResult::Process result(const std::string &title)
    {
        if (!perf_ || !perf_->stop(SIGINT, std::chrono::seconds(20)))
            throw std::runtime_error("perf (Debian has it in linux-perf) did not sample " + title);
        return {title, shares("comm"), shares("dso"), shares("symbol,dso")};
    }

private:
    // Lines are "12.34|name" or "12.34|[.] function|library|...". Functions without a symbol are
    // one.
    Shares shares(const std::string &sort) const
    {
        constexpr double kSmallest = 1;
        const std::string said = test::run_or_throw(
            test::Command({"perf", "report", "--input", file_.string(), "--stdio", "--sort", sort,
                           "--field-separator", "|"}));
        std::map<std::string, double> sums;
        std::istringstream lines(said);
        for (std::string line; std::getline(lines, line);)
            if (const size_t bar = line.find('|');
                bar != std::string::npos && line.find('#') == std::string::npos)
                sums[name_of(line.substr(bar + 1))] += std::stod(line);
        Shares shares;
        for (const auto &[name, percent] : sums)
            if (percent >= kSmallest)
                shares.emplace_back(name, percent);
        std::sort(shares.begin(), shares.end(),
                  [](const auto &a, const auto &b) { return a.second > b.second; });
        return shares;
    }

    static std::string trimmed(const std::string &text)
    {
        const size_t from = text.find_first_not_of(' ');
        return from == std::string::npos ? ""
                                         : text.substr(from, text.find_last_not_of(' ') + 1 - from);
    }

    static std::string name_of(const std::string &fields)
    {
        std::istringstream parts(fields);
        std::string name;
        std::string library;
        std::getline(parts, name, '|');
        if (!std::getline(parts, library, '|'))
            return trimmed(name);
        name = trimmed(name);
        if (const size_t mark = name.find("] "); name[0] == '[' && mark != std::string::npos)
            name = name.substr(mark + 2);
        if (name.rfind("0x", 0) == 0)
            name = "functions without a symbol";
        return name + " (" + trimmed(library) + ")";
    }

    std::filesystem::path file_;
    std::unique_ptr<test::Process> perf_;
};

nlohmann::ordered_json
to_json(const Shares &shares)
{
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto &[name, percent] : shares)
        list.push_back({{"name", name}, {"percent", percent}});
    return list;
}

} // namespace

ProfileResult
measure_profile(Servers &servers, int64_t events)
{
    std::cerr << "profile ...\n";
    ProfileResult result;
    result.events = events;
    Database database(servers, "profiled");
    fill_events(database, events);
    {
        Sampler sampler("relay");
        drain_relay(servers, database, events, [&](pid_t pid) { sampler.start(pid); });
        result.processes.push_back(sampler.result("outbox relay"));
    }
    const Topic topic(servers.kafka, "outbox.event.profiled_bare");
    Sampler sampler("bare");
    drain_bare(servers, topic, events, [&](pid_t pid) { sampler.start(pid); });
    result.processes.push_back(sampler.result("bare librdkafka producer"));
    return result;
}

nlohmann::ordered_json
to_json(const ProfileResult &result)
{
    nlohmann::ordered_json all = {{"events", result.events}};
    for (const ProfileResult::Process &process : result.processes)
        all["processes"].push_back({{"title", process.title},
                                    {"threads", to_json(process.threads)},
                                    {"libraries", to_json(process.libraries)},
                                    {"functions", to_json(process.functions)}});
    return all;
}

} // namespace outbox::bench
