// outboxctl status
#include "commands.h"

#include "errors.h"
#include "relay_view.h"
#include "subscription_view.h"
#include "units.h"
#include "watch.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

std::string
ago(std::optional<double> seconds)
{
    return seconds ? human_duration(*seconds) + " ago" : "";
}

Cell
state_cell(const RelayView &view)
{
    const StateText text = text_of_state(view.state);
    std::string words = view.state;
    if (view.pid)
        words += " (process " + *view.pid + ")";
    if (*text.meaning != '\0' && !view.pause)
        words += fmt::format(": {}", text.meaning);
    if (view.pause)
        words += text_of_pause(*view.pause);
    return {printable(words), text.style};
}

Cell
backlog_cell(const RelayView &view)
{
    if (!view.backlog)
        return {"not known", Style::kWarning};
    if (view.backlog == 0)
        return "nothing to publish";
    std::string words = counted(*view.backlog, "event");
    if (view.backlog_age)
        words += ", the oldest " + human_duration(*view.backlog_age) + " old";
    return {words, Style::kBold};
}

void
add_errors(List &list, const RelayView &view)
{
    if (view.failures > 0)
    {
        const std::string next = view.next_attempt_in
                                     ? ", next attempt in " + human_duration(*view.next_attempt_in)
                                     : "";
        list.add("Attempts",
                 {counted(view.failures, "failure") + " in a row" + next, Style::kWarning});
    }
    if (view.last_error)
    {
        constexpr double kJustNow = 60; // seconds; what lasts is said again and again
        const bool now = view.failures > 0 || view.state == "stopped" ||
                         (view.last_error_ago && *view.last_error_ago < kJustNow);
        list.add("Last error",
                 {printable(*view.last_error) +
                      (view.last_error_ago ? " (" + ago(view.last_error_ago) + ")" : ""),
                  now ? Style::kBad : Style::kFaint});
    }
    if (view.config_error)
        list.add("Settings", {printable(*view.config_error), Style::kBad});
    const std::string remedy = text_of_state(view.state).remedy;
    if (!remedy.empty())
        list.add("To do", remedy);
}

int
show_one(const Context &context, Database &database, const std::string &name)
{
    const SubscriptionView view = look_at_subscriptions(database, name)->front();
    if (context.output.json())
        context.output.document(view.json);
    else
        describe(view).print(context.output);
    return kOk;
}

} // namespace

List
describe(const RelayView &view, std::optional<double> rate)
{
    List list;
    list.add("Relay", state_cell(view));
    list.add("Backlog", backlog_cell(view));
    if (view.in_flight_events > 0)
        list.add("In flight", counted(view.in_flight_events, "event") + ", " +
                                  human_bytes(view.in_flight_bytes));
    std::string published = counted(view.published_total, "event");
    if (view.published_ago)
        published += ", the last one " + ago(view.published_ago);
    if (rate)
        published += ", now " + human_rate(*rate);
    list.add("Published", published);
    if (const std::string aside = text_of_set_aside(view); !aside.empty())
        list.add("Set aside", {aside, Style::kWarning});
    list.add("Failed", view.failed == 0
                           ? Cell("none")
                           : Cell(counted(view.failed, "event") + "; see \"outboxctl failed list\"",
                                  Style::kBad));
    if (view.state == "detached")
        list.add("Kafka", "none is needed");
    else
        list.add("Kafka",
                 view.bootstrap ? Cell(printable(*view.bootstrap)) : Cell("not configured"));
    add_errors(list, view);
    return list;
}

int
run_status(const Context &context, const StatusOptions &options)
{
    Database database = open_outbox(context);
    if (options.watch)
        return watch_status(context, database, options.interval);
    if (options.subscription && *options.subscription != "default")
        return show_one(context, database, *options.subscription);
    RelayView view = look_at_relay(database);
    const std::optional<std::vector<SubscriptionView>> others = look_at_subscriptions(database);
    if (context.output.json())
    {
        view.json["subscriptions"] = others ? Json::array() : Json(nullptr);
        for (const SubscriptionView &other : others.value_or(std::vector<SubscriptionView>()))
            view.json["subscriptions"].push_back(other.json);
        context.output.document(view.json);
        return kOk;
    }
    describe(view, std::nullopt).print(context.output);
    if (!others || others->empty() || options.subscription)
        return kOk;
    context.output.line();
    for (const std::string &line : lines_of(*others, context.output))
        context.output.line(line);
    return kOk;
}

} // namespace outbox::ctl
