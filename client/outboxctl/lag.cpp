// outboxctl lag
#include "commands.h"

#include "errors.h"
#include "relay_view.h"
#include "units.h"

#include <algorithm>

namespace outbox::ctl
{

namespace
{

constexpr double kLongestSample = 3600;

struct Rates
{
    double published = 0; // events a second
    double emitted = 0;
};

// Looks a second time, after the sample, and leaves the newer view in `view`. Nothing when the
// backlog is not known.
std::optional<Rates>
measure(Database &database, double sample, RelayView &view)
{
    if (sample <= 0)
        return std::nullopt;
    const auto begin = Clock::now();
    const RelayView before = std::move(view);
    const auto deadline =
        begin + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(std::min(sample, kLongestSample)));
    while (wait_for(-1, 0, deadline) != Woken::kTimeout)
        continue;
    view = look_at_relay(database);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const auto published = static_cast<double>(view.published_total - before.published_total);
    if (!view.backlog || !before.backlog)
        return std::nullopt;
    const auto grown = static_cast<double>(*view.backlog - *before.backlog);
    return Rates{std::max(0.0, published / seconds), std::max(0.0, (published + grown) / seconds)};
}

// At these rates; nothing when the backlog does not shrink.
std::optional<double>
seconds_to_catch_up(const RelayView &view, const std::optional<Rates> &rates)
{
    if (view.backlog == 0)
        return 0.0;
    if (!view.backlog || !rates || rates->published <= rates->emitted)
        return std::nullopt;
    return static_cast<double>(*view.backlog) / (rates->published - rates->emitted);
}

// Before 0.3 outbox.deliveries has no column `subscription`: the name is that of only_one then.
std::optional<Rows>
look_at_lines(Database &database)
{
    if (!may_select(database, "outbox.deliveries", {"topic", "state"}))
        return std::nullopt;
    return database.query("select topic, count(*) filter (where state = 'RETRYING') as retrying, "
                          "count(*) filter (where state = 'WAITING') as waiting, "
                          "count(*) filter (where state = 'FAILED') as failed "
                          "from (select 'default'::text as subscription) only_one "
                          "cross join lateral (select t.topic, t.state from outbox.deliveries t "
                          "where subscription = 'default') d where state <> 'DISCARDED' "
                          "group by topic order by topic");
}

Json
to_json(const RelayView &view, const std::optional<Rates> &rates, const std::optional<Rows> &lines)
{
    Json json = Json::object();
    for (const char *name : {"time", "database", "state", "backlog_events", "oldest_event_at",
                             "backlog_age_seconds", "in_flight_events", "in_flight_bytes"})
        json[name] = view.json[name];
    json["published_per_second"] = rates ? Json(rates->published) : Json(nullptr);
    json["emitted_per_second"] = rates ? Json(rates->emitted) : Json(nullptr);
    json["seconds_to_catch_up"] = or_null(seconds_to_catch_up(view, rates));
    json["topics"] = lines ? Json::array() : Json(nullptr);
    for (int row = 0; lines && row < lines->count(); row++)
        json["topics"].push_back(lines->object(row));
    return json;
}

Cell
catching_up(const RelayView &view, const std::optional<Rates> &rates)
{
    if (!view.backlog)
        return {"not known", Style::kWarning};
    if (view.backlog == 0)
        return {"yes", Style::kGood};
    if (const std::optional<double> seconds = seconds_to_catch_up(view, rates))
        return "in about " + human_duration(*seconds) + " at these rates";
    return rates ? Cell("the backlog does not shrink", Style::kWarning) : Cell("not measured");
}

void
print(const Output &output, const RelayView &view, const std::optional<Rates> &rates,
      const std::optional<Rows> &lines)
{
    List list;
    list.add("Relay", {printable(view.state), text_of_state(view.state).style});
    list.add("Backlog", view.backlog ? Cell(counted(*view.backlog, "event"), Style::kBold)
                                     : Cell("not known", Style::kWarning));
    if (view.backlog_age)
        list.add("Oldest", human_duration(*view.backlog_age));
    list.add("In flight",
             counted(view.in_flight_events, "event") + ", " + human_bytes(view.in_flight_bytes));
    if (rates)
    {
        list.add("Emitted", human_rate(rates->emitted));
        list.add("Published", human_rate(rates->published));
    }
    list.add("Caught up", catching_up(view, rates));
    list.print(output);
    if (!lines)
        output.line("\nThis role may not read outbox.deliveries, so held up events are not shown.");
    if (!lines || lines->empty())
        return;
    output.line("\nHeld up because Kafka refused an event:\n");
    Table table({{"RETRYING", Table::Align::kRight},
                 {"FAILED", Table::Align::kRight},
                 {"WAITING BEHIND", Table::Align::kRight},
                 {"TOPIC"}});
    for (int row = 0; row < lines->count(); row++)
        table.add({with_commas(*lines->number(row, "retrying")),
                   with_commas(*lines->number(row, "failed")),
                   with_commas(*lines->number(row, "waiting")),
                   printable(lines->value(row, "topic"))});
    table.print(output);
}

} // namespace

int
run_lag(const Context &context, const LagOptions &options)
{
    Database database = open_outbox(context);
    RelayView view = look_at_relay(database);
    const std::optional<Rates> rates = measure(database, options.sample, view);
    const std::optional<Rows> lines = look_at_lines(database);
    if (context.output.json())
        context.output.document(to_json(view, rates, lines));
    else
        print(context.output, view, rates, lines);
    return kOk;
}

} // namespace outbox::ctl
