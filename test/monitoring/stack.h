// The exporters and Prometheus of Debian's packages, running on the files of monitoring/.
#pragma once

#include <memory>
#include <string>

#include "prometheus.h"
#include "support/pg_cluster.h"
#include "support/process.h"

namespace outbox::test
{

// The text of a file of monitoring/.
std::string shipped(const std::string &file);

// Watches one database as a role that has outbox.grant_monitor() and a lock_timeout, nothing else.
// Everything is as shipped but for addresses, for intervals of a second, and for alert rules that
// wait for a second before they fire.
class MonitoringStack
{
public:
    static constexpr const char *kRole = "outbox_monitor";

    MonitoringStack(const PgCluster &server, const std::string &database);

    const Prometheus &prometheus() const { return prometheus_; }

private:
    std::unique_ptr<Process> postgres_exporter_;
    std::unique_ptr<Process> sql_exporter_;
    int prometheus_port_;
    Prometheus prometheus_;
    std::unique_ptr<Process> prometheus_process_;
};

} // namespace outbox::test
