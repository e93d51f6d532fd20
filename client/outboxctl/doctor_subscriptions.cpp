// What doctor has to say about subscriptions besides the one that every database has.
#include "doctor.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

// Before 0.3 there are no subscriptions.
bool
may_look(Database &database)
{
    return database
        .query("select coalesce(has_schema_privilege('outbox', 'usage') "
               "and has_function_privilege(to_regprocedure('outbox.sinks()'), 'execute') "
               "and has_table_privilege(to_regclass('outbox.subscription_status'), 'select'), "
               "false) as ok")
        .flag(0, "ok");
}

std::string
remedy_of_state(const std::string &state, const std::string &name)
{
    if (state == "gone")
        return "Agree with the destination, then select outbox.resume('" + name +
               "'); or change its options with outbox.alter_subscription().";
    return "Correct its options with outbox.alter_subscription(), or what they name.";
}

} // namespace

void
examine_subscriptions(Database &database, Findings &findings)
{
    if (!may_look(database))
        return;
    const Rows rows = database.query(
        "select s.name, s.sink, s.state, s.last_error, k.package, k.installed "
        "from outbox.subscription_status s left join outbox.sinks() k on k.name = s.sink "
        "where not coalesce(k.installed, false) or s.state in ('gone', 'config_error') "
        "order by s.name");
    for (int row = 0; row < rows.count(); row++)
    {
        const std::string name = rows.value(row, "name");
        const std::string sink = rows.value(row, "sink");
        const std::string whose = fmt::format("subscription \"{}\"", name);
        if (!rows.raw(row, "installed"))
            findings.add("extension", Level::kProblem,
                         fmt::format("{}: this server knows no sink \"{}\"", whose, sink),
                         "Install the package of the version that created it.");
        else if (!rows.flag(row, "installed"))
            findings.add("extension", Level::kProblem,
                         fmt::format("{}: the library of sink \"{}\" is not installed on the "
                                     "server",
                                     whose, sink),
                         "Install the package " + rows.value(row, "package") + " there.");
        else
        {
            const std::string state = rows.value(row, "state");
            const auto error = rows.text(row, "last_error");
            findings.add(
                "relay", Level::kProblem,
                fmt::format("{}: its relay is {}{}", whose, state, error ? "; " + *error : ""),
                remedy_of_state(state, name));
        }
    }
}

} // namespace outbox::ctl
