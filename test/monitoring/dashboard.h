// monitoring/dashboard.json: its panels, and what each of them asks Prometheus.
#pragma once

#include <string>
#include <vector>

#include "prometheus.h"

namespace outbox::test
{

struct Target
{
    std::string expression; // Grafana's variables replaced: all jobs, one database
    std::string legend;     // "{{state}}" stands for a label
};

struct Panel
{
    std::string title;
    std::vector<Target> targets;
};

// `rate_interval` is what Grafana makes of the scrape interval. Throws when a variable is left.
std::vector<Panel> dashboard_panels(const std::string &database, const std::string &rate_interval);

// The legend of a series.
std::string legend_of(const Target &target, const Series &series);

} // namespace outbox::test
