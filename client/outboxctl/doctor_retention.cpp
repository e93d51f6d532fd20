// What doctor has to say about how long things are kept, and what keeps them longer.
#include "doctor.h"

#include "units.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

constexpr double kHeldTooLong = 24 * 60 * 60; // seconds

// A setting in its unit, which is seconds or milliseconds.
double
number_of_setting(Database &database, const std::string &name)
{
    const Rows rows =
        database.query("select setting::float8 as value from pg_settings where name = $1", {name});
    return rows.empty() ? 0 : rows.real(0, "value").value_or(0);
}

// What to do about a reason of outbox.maintenance_status.
std::string
remedy_of(const std::string &reason)
{
    const auto holds = [&](const char *text) { return reason.find(text) != std::string::npos; };
    if (holds("subscription "))
        return "See what keeps that subscription from sending: outboxctl subscriptions list.";
    if (holds("not published"))
        return "See to Kafka and to the relay: outboxctl status.";
    if (holds("refused or waiting"))
        return "outboxctl failed list; then retry or discard what blocks.";
    if (holds("a lock of process"))
        return "select * from pg_stat_activity where pid = that process; end its transaction if it "
               "should not last.";
    if (holds("prepared transaction"))
        return "select * from pg_prepared_xacts; commit it or roll it back.";
    if (holds("a lock on another table"))
        return "See in pg_locks who has locked a partition of outbox.events.";
    if (holds("no partition is empty"))
        return "See what holds back the truncation of the other partitions.";
    return "";
}

} // namespace

void
examine_retention(Database &database, Findings &findings)
{
    if (database.query("select from pg_settings where name = 'outbox.retention'").empty())
    {
        findings.add(
            "settings", Level::kUnknown,
            "the library is not loaded in this session, so outbox's settings are not seen");
        return;
    }
    const double retention = number_of_setting(database, "outbox.retention");
    const double processed = number_of_setting(database, "outbox.processed_retention");
    if (retention == 0)
        findings.add(
            "settings", Level::kNote,
            "outbox.retention is 0: events are kept for ever, and take more and more disk");
    if (processed == 0)
        findings.add("settings", Level::kNote,
                     "outbox.processed_retention is 0: outbox.processed_events grows for ever");
    else if (retention == 0 || processed < retention)
        findings.add(
            "settings", Level::kWarning,
            "outbox.processed_retention is " + human_duration(processed) + ", outbox.retention " +
                (retention == 0 ? "for ever" : human_duration(retention)) +
                ": an event that is delivered again after consumers here have forgotten it acts "
                "again",
            retention == 0
                ? "Set outbox.processed_retention to the longest time after which an event may be "
                  "delivered again; the topics' retention counts too."
                : fmt::format("alter system set outbox.processed_retention = '{:.0f}s'; select "
                              "pg_reload_conf(); longer still if Kafka keeps the topics longer.",
                              retention));
    else
        findings.add("settings", Level::kOk,
                     "processed events are remembered for " + human_duration(processed) +
                         ", events kept for " + human_duration(retention));
    if (number_of_setting(database, "outbox.backoff_max") <
        number_of_setting(database, "outbox.backoff_initial"))
        findings.add("settings", Level::kNote,
                     "outbox.backoff_max is below outbox.backoff_initial, and taken as equal to it",
                     "alter system reset outbox.backoff_max; or lower outbox.backoff_initial.");
}

void
examine_maintenance(Database &database, Findings &findings)
{
    const Rows rows = database.query(
        "select task, table_name, held_back_by, "
        "extract(epoch from clock_timestamp() - held_back_since)::float8 as seconds "
        "from outbox.maintenance_status where held_back_by is not null order by task, table_name");
    for (int row = 0; row < rows.count(); row++)
    {
        const std::string reason = rows.value(row, "held_back_by");
        const double seconds = rows.real(row, "seconds").value_or(0);
        const bool rotation = rows.value(row, "task") == "rotation";
        findings.add("relay", rotation || seconds > kHeldTooLong ? Level::kWarning : Level::kNote,
                     fmt::format("the {} of {} is held back by {}, for {}", rows.value(row, "task"),
                                 rows.value(row, "table_name"), reason, human_duration(seconds)),
                     remedy_of(reason));
    }
}

} // namespace outbox::ctl
