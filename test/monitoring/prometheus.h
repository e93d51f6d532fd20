// Asks a Prometheus by its HTTP API, as Grafana does.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/wait.h"

namespace outbox::test
{

using Json = nlohmann::json;
using Labels = std::map<std::string, std::string>;

// The body of what a URL gives. Throws when there is no answer, or one that is no success.
std::string http_get(const std::string &url);

struct Series
{
    Labels labels; // without the metric's name
    std::vector<std::pair<double, double>> points;

    double last() const { return points.back().second; }
};

class Prometheus
{
public:
    explicit Prometheus(int port) : base_("http://127.0.0.1:" + std::to_string(port)) {}

    bool ready() const;

    // The series that an expression has now, one point each; throws when it is no expression.
    std::vector<Series> query(const std::string &expression) const;

    // The value of an expression that has one series; nothing when it has none or several.
    std::optional<double> value(const std::string &expression) const;

    // Waits until the expression has this value.
    bool becomes(const std::string &expression, double expected,
                 Milliseconds limit = std::chrono::seconds(30)) const;

    // Waits until the expression has no series.
    bool vanishes(const std::string &expression,
                  Milliseconds limit = std::chrono::seconds(30)) const;

    // Alert rules as /api/v1/rules lists them.
    std::vector<Json> rules() const;

private:
    Json get(const std::string &path, const std::vector<std::string> &parameters) const;

    std::string base_;
};

} // namespace outbox::test
