// What arrives in Prometheus, by both exporters, is what the views say.
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "dashboard.h"
#include "scene.h"

using namespace outbox::test;

namespace
{

// The names of the metrics that postgres_exporter.yml promises.
std::set<std::string>
promised_metrics()
{
    std::set<std::string> names;
    std::istringstream lines(shipped("postgres_exporter.yml"));
    const std::regex query("([a-z_]+):");
    const std::regex column("    - ([a-z_]+):");
    const std::regex usage("        usage: (GAUGE|COUNTER|HISTOGRAM)");
    std::string line;
    std::string prefix;
    std::string name;
    std::smatch match;
    while (std::getline(lines, line))
        if (std::regex_match(line, match, query))
            prefix = match[1];
        else if (std::regex_match(line, match, column))
            name = prefix + "_" + match[1].str();
        else if (std::regex_match(line, match, usage))
        {
            if (match[1] != "HISTOGRAM")
                names.insert(name);
            else
                names.insert({name + "_bucket", name + "_sum", name + "_count"});
        }
    return names;
}

// The relays: that of the default subscription, and the others.
#define RELAYS                                                                                     \
    "(select 'default' as subscription, state, oldest_event_at, in_flight_events, "                \
    "in_flight_bytes, consecutive_failures, config_error from outbox.relay_status union all "      \
    "select name, state, oldest_event_at, in_flight_events, in_flight_bytes, "                     \
    "consecutive_failures, config_error from outbox.subscription_status) r"

// What the views say of each metric: SQL whose first column is the value, and whose others are
// labels by their names.
const std::map<std::string, std::string> kTruth = {
    {"outbox_backlog_events", "select backlog_events from outbox.backpressure"},
    {"outbox_backlog_limit_events", "select max_backlog_events from outbox.backpressure"},
    {"outbox_backlog_counted", "select counted::int from outbox.backpressure"},
    {"outbox_oldest_event_age_seconds",
     "select coalesce(extract(epoch from clock_timestamp() - oldest_event_at), 0), subscription "
     "from " RELAYS},
    {"outbox_in_flight_events", "select in_flight_events, subscription from " RELAYS},
    {"outbox_in_flight_bytes", "select in_flight_bytes, subscription from " RELAYS},
    {"outbox_consecutive_failures", "select consecutive_failures, subscription from " RELAYS},
    {"outbox_config_error", "select (config_error is not null)::int, subscription from " RELAYS},
    {"outbox_relay_in_state", "select 1, state, subscription from " RELAYS},
    {"outbox_published_events_total", "select published, topic, subscription from outbox.stats"},
    {"outbox_published_bytes_total", "select bytes, topic, subscription from outbox.stats"},
    {"outbox_published_batches_total", "select batches, topic, subscription from outbox.stats"},
    {"outbox_delivery_refusals_total", "select refused, topic, subscription from outbox.stats"},
    {"outbox_delivery_failures_total", "select failed, topic, subscription from outbox.stats"},
    {"outbox_delivery_retries_total", "select retried, topic, subscription from outbox.stats"},
    {"outbox_created_to_acked_seconds_bucket",
     "select events, replace(le_seconds::text, 'Infinity', '+Inf') as le, subscription "
     "from outbox.stats_histogram where measure = 'created_to_acked'"},
    {"outbox_created_to_acked_seconds_sum",
     "select created_to_acked_ms_sum / 1000, subscription from outbox.stats_total"},
    {"outbox_created_to_acked_seconds_count",
     "select published, subscription from outbox.stats_total"},
    {"outbox_sent_to_acked_seconds_bucket",
     "select events, replace(le_seconds::text, 'Infinity', '+Inf') as le, subscription "
     "from outbox.stats_histogram where measure = 'sent_to_acked'"},
    {"outbox_sent_to_acked_seconds_sum",
     "select sent_to_acked_ms_sum / 1000, subscription from outbox.stats_total"},
    {"outbox_sent_to_acked_seconds_count",
     "select published, subscription from outbox.stats_total"},
    {"outbox_deliveries_events",
     "select count(*), state, subscription from outbox.deliveries group by state, subscription"},
    {"outbox_subscription_holding_seconds",
     "select coalesce(extract(epoch from clock_timestamp() - (select min(m.held_back_since) "
     "from outbox.maintenance_status m where m.held_back_by like '%subscription ' || s.name || "
     "' %')), 0), s.name as subscription from outbox.subscription_status s"},
    {"outbox_subscription_detached",
     "select (detached_at is not null)::int, name as subscription from outbox.subscription_status"},
    {"outbox_subscription_let_go",
     "select (detached_at is not null and detached_by is null)::int, name as subscription from "
     "outbox.subscription_status"},
    {"outbox_subscription_missed_events",
     "select missed_events, name as subscription from outbox.subscription_status"},
    {"outbox_maintenance_done_total",
     "select done_total, task, table_name from outbox.maintenance_status"},
    {"outbox_maintenance_held_back_seconds", "select coalesce(extract(epoch from clock_timestamp() "
                                             "- held_back_since), 0), task, table_name "
                                             "from outbox.maintenance_status"},
    {"outbox_table_size_bytes",
     "select sum(pg_total_relation_size(relid)), 'events' as table_name "
     "from pg_partition_tree('outbox.events') where isleaf "
     "union all select pg_total_relation_size('outbox.deliveries'), 'deliveries'"},
};

bool
is_age(const std::string &metric)
{
    return metric.substr(metric.rfind('_')) == "_seconds";
}

// The selector of one row's series: its columns after the first are labels.
std::string
selector(const std::string &metric, const std::string &job, const Json &row)
{
    std::string labels = "job=\"" + job + "\"";
    for (const auto &[name, value] : row.items())
        if (name != "value")
            labels += ", " + name + "=\"" + value.get<std::string>() + "\"";
    return metric + "{" + labels + "}";
}

class Metrics : public testing::TestWithParam<std::string>
{
};

TEST_P(Metrics, EachOneArrivesWithTheValueOfTheViews)
{
    Scene &scene = Scene::shared();
    const std::string &job = GetParam();
    // Published, processed, refused, waiting and paused, so that hardly a value is 0.
    ASSERT_NO_FATAL_FAILURE(scene.reach_mixed_state());
    for (const std::string &metric : promised_metrics())
    {
        ASSERT_TRUE(kTruth.count(metric) == 1) << "nothing to compare " << metric << " with";
        const Result rows =
            scene.db().exec("select coalesce(value, 0), (to_jsonb(t) - 'value')::text "
                            "from (select * from (" +
                            kTruth.at(metric) + ") v) t (value)");
        ASSERT_GT(rows.rows(), 0) << metric;
        for (int row = 0; row < rows.rows(); row++)
        {
            const std::string series = selector(metric, job, Json::parse(rows.text(row, 1)));
            const double expected = std::stod(rows.text(row, 0));
            if (!is_age(metric))
                EXPECT_TRUE(scene.prometheus().becomes(series, expected))
                    << series << " is " << scene.prometheus().value(series).value_or(NAN)
                    << ", not " << expected;
            else
                // It grows while we compare.
                EXPECT_TRUE(scene.prometheus().becomes(
                    "abs(" + series + " - " + std::to_string(expected) + ") < bool 30", 1))
                    << series << " is " << scene.prometheus().value(series).value_or(NAN)
                    << ", not about " << expected;
        }
    }
}

TEST_P(Metrics, TheStatesAreThoseOfTheRunbookAndExactlyOneHolds)
{
    Scene &scene = Scene::shared();
    const std::string states =
        "outbox_relay_in_state{job=\"" + GetParam() + "\", subscription=\"default\"}";
    EXPECT_TRUE(scene.prometheus().becomes("sum(" + states + ")", 1));
    std::set<std::string> shown;
    for (const Series &series : scene.prometheus().query(states))
        shown.insert(series.labels.at("state"));
    EXPECT_EQ(shown, scene.states_of_the_runbook());
}

TEST_P(Metrics, BothExportersGiveTheSameNamesAndLabels)
{
    Scene &scene = Scene::shared();
    for (const std::string &metric : promised_metrics())
        for (const Series &series :
             scene.prometheus().query(metric + "{job=\"" + GetParam() + "\"}"))
        {
            Labels labels = series.labels;
            EXPECT_EQ(labels["datname"], scene.database().name()) << metric;
            EXPECT_EQ(labels["server"], "127.0.0.1:" + std::to_string(cluster().port())) << metric;
            for (const char *known : {"job", "instance", "server", "datname"})
                labels.erase(known);
            for (const auto &[name, value] : labels)
                EXPECT_EQ(std::set<std::string>(
                              {"state", "task", "table_name", "topic", "le", "subscription"})
                              .count(name),
                          1u)
                    << metric << " has the label " << name;
        }
}

INSTANTIATE_TEST_SUITE_P(, Metrics, testing::Values("outbox", "outbox-sql"),
                         [](const auto &job)
                         { return job.param == "outbox" ? "PostgresExporter" : "SqlExporter"; });

TEST(Dashboard, EveryExpressionHasAResult)
{
    Scene &scene = Scene::shared();
    ASSERT_NO_FATAL_FAILURE(scene.reach_mixed_state());
    const std::vector<Panel> panels = dashboard_panels(scene.database().name(), "10s");
    EXPECT_GE(panels.size(), 10u);
    for (const Panel &panel : panels)
        for (const Target &target : panel.targets)
        {
            EXPECT_TRUE(
                wait_until(std::chrono::seconds(20),
                           [&] { return !scene.prometheus().query(target.expression).empty(); }))
                << panel.title << ": " << target.expression;
            for (const Series &series : scene.prometheus().query(target.expression))
                EXPECT_EQ(legend_of(target, series).find("{{"), std::string::npos)
                    << panel.title << " names a label that is not there: " << target.legend;
        }
}

// A lock on the events must not blind those who look for the reason.
TEST(Locks, ALockedTableHidesItsSizeAndNothingOfTheRelay)
{
    Scene &scene = Scene::shared();
    ASSERT_NO_FATAL_FAILURE(scene.reach_quiet_state());
    Db other = scene.database().connect();
    other.exec("begin");
    other.exec("lock table outbox.events, outbox.deliveries, outbox.relay_position in access "
               "exclusive mode");
    const Prometheus &prometheus = scene.prometheus();
    EXPECT_TRUE(prometheus.vanishes("outbox_table_size_bytes{job=\"outbox\"}"));
    EXPECT_TRUE(prometheus.becomes("pg_exporter_last_scrape_error", 1));
    EXPECT_TRUE(
        prometheus.becomes("sql_exporter_last_scrape_failed{query=\"outbox_deliveries\"}", 1));
    for (const char *job : {"outbox", "outbox-sql"})
        EXPECT_TRUE(prometheus.value("time() - timestamp(outbox_backlog_events{job=\"" +
                                     std::string(job) + "\"}) < 5"))
            << job;
    other.exec("rollback");
    EXPECT_TRUE(prometheus.becomes("pg_exporter_last_scrape_error", 0));
    EXPECT_TRUE(prometheus.becomes("count(outbox_table_size_bytes{table_name=\"events\"})", 2));
}

} // namespace
