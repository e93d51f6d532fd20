#include "prometheus.h"

#include <cmath>
#include <stdexcept>

#include "support/process.h"

namespace outbox::test
{

namespace
{

// Prometheus answers 400 with a text that says why; --fail would hide it.
const std::vector<std::string> kCurl = {"curl", "--silent", "--show-error", "--max-time", "10"};

std::string
curl(const std::vector<std::string> &arguments)
{
    Command command(kCurl);
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    return run_or_throw(command);
}

double
number(const Json &text)
{
    return std::stod(text.get<std::string>());
}

std::vector<Series>
to_series(const Json &data)
{
    std::vector<Series> all;
    if (data.at("resultType") == "scalar")
        throw std::runtime_error("a scalar, not a vector");
    for (const Json &one : data.at("result"))
    {
        Series series;
        for (const auto &[name, value] : one.at("metric").items())
            if (name != "__name__")
                series.labels[name] = value.get<std::string>();
        const Json points = one.contains("value") ? Json::array({one["value"]}) : one.at("values");
        for (const Json &point : points)
            series.points.emplace_back(point.at(0).get<double>(), number(point.at(1)));
        all.push_back(std::move(series));
    }
    return all;
}

} // namespace

std::string
http_get(const std::string &url)
{
    return curl({"--fail", url});
}

bool
Prometheus::ready() const
{
    return run(Command({"curl", "--silent", "--fail", "--max-time", "5", base_ + "/-/ready"})).ok();
}

Json
Prometheus::get(const std::string &path, const std::vector<std::string> &parameters) const
{
    std::vector<std::string> arguments = {"--get", base_ + path};
    for (const std::string &parameter : parameters)
    {
        arguments.emplace_back("--data-urlencode");
        arguments.push_back(parameter);
    }
    const std::string text = curl(arguments);
    const Json answer = Json::parse(text);
    if (answer.at("status") != "success")
        throw std::runtime_error("Prometheus says: " + text);
    return answer.at("data");
}

std::vector<Series>
Prometheus::query(const std::string &expression) const
{
    return to_series(get("/api/v1/query", {"query=" + expression}));
}

std::optional<double>
Prometheus::value(const std::string &expression) const
{
    const std::vector<Series> series = query(expression);
    if (series.size() != 1)
        return std::nullopt;
    return series.front().last();
}

bool
Prometheus::becomes(const std::string &expression, double expected, Milliseconds limit) const
{
    return wait_until(limit,
                      [&]
                      {
                          const std::optional<double> now = value(expression);
                          return now && std::abs(*now - expected) < 1e-9;
                      });
}

bool
Prometheus::vanishes(const std::string &expression, Milliseconds limit) const
{
    return wait_until(limit, [&] { return query(expression).empty(); });
}

std::vector<Json>
Prometheus::rules() const
{
    std::vector<Json> all;
    const Json data = get("/api/v1/rules", {});
    for (const Json &group : data.at("groups"))
        for (const Json &rule : group.at("rules"))
            all.push_back(rule);
    return all;
}

} // namespace outbox::test
