// What doctor has to say about subscriptions.
#include "doctor.h"

#include "subscription_view.h"
#include "units.h"

#include <algorithm>

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

constexpr double kRecent = 3600; // seconds

std::string
remedy_of(const SubscriptionView &view, const StateText &text)
{
    if (view.state == "paused")
        return "outboxctl resume --subscription " + view.name;
    if (view.state == "gone")
        return "Agree with the destination, then outboxctl resume --subscription " + view.name;
    if (view.state == "config_error" || view.state == "not_configured")
        return "Correct its options: outboxctl subscriptions alter " + view.name;
    return text.remedy;
}

void
examine_state(const SubscriptionView &view, const std::string &which, Findings &findings)
{
    if (view.detached_at)
    {
        // Who detached it has meant it.
        const std::string who = view.detached_by
                                    ? " by " + *view.detached_by
                                    : ", as it held events back for longer than max_lag";
        findings.add("subscriptions", view.detached_by ? Level::kNote : Level::kProblem,
                     which + " is detached since " + *view.detached_at + who +
                         ": it sends nothing, and misses events",
                     "outboxctl subscriptions attach " + view.name +
                         " --start retained; see \"When one is detached\" in "
                         "docs/subscriptions.md.");
        return;
    }
    const StateText text = text_of_state(view);
    const Level level = text.style == Style::kGood      ? Level::kOk
                        : text.style == Style::kWarning ? Level::kWarning
                                                        : Level::kProblem;
    std::string words = which + " is " + view.state;
    if (*text.meaning != '\0')
        words += fmt::format(": {}", text.meaning);
    if (level == Level::kProblem && view.last_error)
        words += "; " + *view.last_error;
    findings.add("subscriptions", level, words, remedy_of(view, text));
    if (level != Level::kProblem && view.last_error)
        findings.add(
            "subscriptions",
            view.last_error_ago && *view.last_error_ago < kRecent ? Level::kWarning : Level::kNote,
            "the last error of " + which +
                (view.last_error_ago ? ", " + human_duration(*view.last_error_ago) + " ago" : "") +
                ": " + *view.last_error);
}

void
examine_one(const SubscriptionView &view, Findings &findings)
{
    const std::string which = "subscription " + view.name;
    examine_state(view, which, findings);
    if (view.config_error)
        findings.add("subscriptions", Level::kProblem,
                     "the options of " + which + " are not usable: " + *view.config_error,
                     "Correct them: outboxctl subscriptions alter " + view.name);
    if (view.failed > 0)
        findings.add(
            "subscriptions", Level::kWarning,
            counted(view.failed, "event") + " of " + which + " failed, and others may wait behind",
            "outboxctl failed list --subscription " + view.name + "; then retry or discard them.");
    if (view.retrying + view.waiting > 0)
        findings.add("subscriptions", Level::kWarning,
                     which + " has set aside " + counted(view.retrying + view.waiting, "event"),
                     "outboxctl failed list --state retrying --subscription " + view.name +
                         " says what is refused and why.");
    if (view.state == "running" && view.is_old())
        findings.add("subscriptions", Level::kWarning,
                     which + " lags: its oldest event waits for " +
                         human_duration(*view.backlog_age),
                     "See to where it sends.");
    if (view.holds_ring)
        findings.add(
            "subscriptions", Level::kWarning,
            "events are kept for " + which + " alone, for " + human_duration(*view.holds_ring),
            "See to what keeps it from sending, or drop it: outboxctl subscriptions drop " +
                view.name);
}

// Nobody may have meant all of them.
void
examine_whether_any_sends(Database &database, const std::vector<SubscriptionView> &found,
                          Findings &findings)
{
    const bool all_are_detached =
        std::all_of(found.begin(), found.end(),
                    [](const SubscriptionView &view) { return view.detached_at.has_value(); });
    if (all_are_detached && look_at_relay(database).state == "detached")
        findings.add("subscriptions", Level::kWarning,
                     "default is detached, and no other subscription is attached: nobody gets the "
                     "events, and they are removed after outbox.retention",
                     "outboxctl subscriptions create, or attach.");
}

// Monitors of an update from before 0.3 may not ask.
void
examine_libraries(Database &database, Findings &findings)
{
    if (!database
             .query("select coalesce(has_function_privilege(to_regprocedure('outbox.sinks()'), "
                    "'execute'), false) as ok")
             .flag(0, "ok"))
        return;
    const Rows rows = database.query(
        "select s.name, s.sink, k.package, k.installed from outbox.subscription_status s "
        "left join outbox.sinks() k on k.name = s.sink where not coalesce(k.installed, false) "
        "order by s.name");
    for (int row = 0; row < rows.count(); row++)
    {
        const std::string whose = fmt::format("subscription \"{}\"", rows.value(row, "name"));
        const std::string sink = rows.value(row, "sink");
        if (rows.raw(row, "installed"))
            findings.add(
                "subscriptions", Level::kProblem,
                fmt::format("{}: the library of sink \"{}\" is not installed on the server", whose,
                            sink),
                "Install the package " + rows.value(row, "package") + " there.");
        else
            findings.add("subscriptions", Level::kProblem,
                         fmt::format("{}: this server knows no sink \"{}\"", whose, sink),
                         "Install the package of the version that created it.");
    }
}

} // namespace

void
examine_subscriptions(Database &database, Findings &findings)
{
    const std::optional<std::vector<SubscriptionView>> found = look_at_subscriptions(database);
    if (!found)
        findings.add("subscriptions", Level::kUnknown,
                     "this role may not see outbox.subscription_status",
                     "select outbox.grant_monitor(" + database.quoted_user() + "::regrole);");
    for (const SubscriptionView &view : found.value_or(std::vector<SubscriptionView>()))
        examine_one(view, findings);
    if (found)
        examine_whether_any_sends(database, *found, findings);
    if (found && !found->empty())
        examine_libraries(database, findings);
}

} // namespace outbox::ctl
