#include "subscription_view.h"

#include "errors.h"
#include "units.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

// Columns that a later version adds are asked for by name only through `more`. The ring waits for
// the one that the relay names in its reason.
constexpr const char *kQuery = R"(
select s.name, s.sink, to_jsonb(s.aggregate_types) as aggregate_types,
  to_jsonb(s.event_types) as event_types, s.state, s.pid, s.published_total,
  s.in_flight_events, s.in_flight_bytes, s.oldest_event_at,
  extract(epoch from clock_timestamp() - s.oldest_event_at)::numeric as backlog_age_seconds,
  s.last_published_at, s.failed_events, s.retrying_events, s.waiting_events,
  s.consecutive_failures, s.next_attempt_at, s.last_error, s.last_error_at, s.config_error,
  (s.more ->> 'detached_at')::timestamptz as detached_at, s.more ->> 'detached_by' as detached_by,
  extract(epoch from clock_timestamp() - h.since)::numeric as holds_ring_seconds,
  s.created_at, s.created_by::text,
  extract(epoch from clock_timestamp() - s.last_published_at)::float8 as published_ago,
  extract(epoch from s.next_attempt_at - clock_timestamp())::float8 as next_attempt_in,
  extract(epoch from clock_timestamp() - s.last_error_at)::float8 as last_error_ago,
  nullif(concat_ws('; ', 'aggregates ' || array_to_string(s.aggregate_types, ', '),
    'events ' || array_to_string(s.event_types, ', ')), '') as types
from (select v.*, to_jsonb(v) as more from outbox.subscription_status v offset 0) s
left join lateral (select min(m.held_back_since) as since from outbox.maintenance_status m
  where m.held_back_by ~ ('\msubscription ' || s.name || '\M')) h on true
where $1::text is null or s.name = $1 order by s.name)";

constexpr const char *kInternal[] = {"published_ago", "next_attempt_in", "last_error_ago", "types"};

SubscriptionView
view_of(const Rows &rows, int row)
{
    SubscriptionView view;
    view.json = rows.object(row);
    for (const char *name : kInternal)
        view.json.erase(name);
    view.name = rows.value(row, "name");
    view.state = rows.value(row, "state");
    view.pid = rows.text(row, "pid");
    view.backlog_age = rows.real(row, "backlog_age_seconds");
    view.in_flight_events = rows.number(row, "in_flight_events").value_or(0);
    view.in_flight_bytes = rows.number(row, "in_flight_bytes").value_or(0);
    view.published_total = rows.number(row, "published_total").value_or(0);
    view.published_ago = rows.real(row, "published_ago");
    view.failed = rows.number(row, "failed_events").value_or(0);
    view.retrying = rows.number(row, "retrying_events").value_or(0);
    view.waiting = rows.number(row, "waiting_events").value_or(0);
    view.failures = rows.number(row, "consecutive_failures").value_or(0);
    view.next_attempt_in = rows.real(row, "next_attempt_in");
    view.last_error = rows.raw(row, "last_error");
    view.last_error_ago = rows.real(row, "last_error_ago");
    view.config_error = rows.raw(row, "config_error");
    view.types = rows.raw(row, "types");
    view.detached_at = rows.text(row, "detached_at");
    view.detached_by = rows.text(row, "detached_by");
    view.holds_ring = rows.real(row, "holds_ring_seconds");
    return view;
}

std::string
age_text(const std::optional<double> &seconds)
{
    return seconds ? human_duration(*seconds) : "-";
}

// What is most in the way.
std::string
trouble_of(const SubscriptionView &view)
{
    if (view.config_error)
        return *view.config_error;
    if (view.last_error && view.state != "running")
        return *view.last_error;
    return view.holds_ring ? "events are kept for it" : "";
}

// Whether the extension knows subscriptions, and this role may see them.
struct Sight
{
    bool known;
    bool allowed;
};

Sight
sight_of(Database &database)
{
    const Rows rights =
        database.query("select to_regclass('outbox.subscription_status') is not null as known, "
                       "case when to_regclass('outbox.subscription_status') is not null then "
                       "has_table_privilege('outbox.subscription_status', 'select') and "
                       "has_function_privilege('outbox.subscription_states()', 'execute') and "
                       "has_table_privilege('outbox.maintenance_status', 'select') end as allowed");
    return {rights.flag(0, "known"), rights.flag(0, "allowed")};
}

} // namespace

void
require_subscription(Database &database, const std::optional<std::string> &name)
{
    if (!name || *name == "default")
        return;
    const Sight sight = sight_of(database);
    if (!sight.known || sight.allowed)
        (void) look_at_subscriptions(database, name);
}

std::optional<std::vector<SubscriptionView>>
look_at_subscriptions(Database &database, const std::optional<std::string> &name)
{
    const auto [known, allowed] = sight_of(database);
    if (known && !allowed && !name)
        return std::nullopt;
    std::vector<SubscriptionView> views;
    if (known)
    {
        const Rows rows = database.query(kQuery, {name});
        for (int row = 0; row < rows.count(); row++)
            views.push_back(view_of(rows, row));
    }
    if (name && views.empty())
        throw Error(kFailed, "there is no subscription \"" + *name + "\"",
                    "\"outboxctl subscriptions list\" shows which there are.", "", "42704");
    return views;
}

StateText
text_of_state(const SubscriptionView &view)
{
    if (view.state == "backing_off")
        return {Style::kBad, "its destination takes no events; the relay tries again by itself",
                "Check the destination and the network; the last error says what is wrong."};
    if (view.state == "detached")
        return {view.detached_by ? Style::kWarning : Style::kBad,
                "it sends nothing, and misses events",
                "See \"When one is detached\" in docs/subscriptions.md."};
    return text_of_state(view.state);
}

std::vector<std::string>
lines_of(const std::vector<SubscriptionView> &subscriptions, const Output &output)
{
    Table table({{"SUBSCRIPTION"},
                 {"STATE"},
                 {"PUBLISHED", Table::Align::kRight},
                 {"FAILED", Table::Align::kRight},
                 {"OLDEST", Table::Align::kRight},
                 {"TROUBLE"}});
    for (const SubscriptionView &view : subscriptions)
        table.add({{view.name, Style::kBold},
                   {printable(view.state), text_of_state(view).style},
                   with_commas(view.published_total),
                   {with_commas(view.failed), view.failed > 0 ? Style::kBad : Style::kPlain},
                   {age_text(view.backlog_age), view.is_old() ? Style::kWarning : Style::kPlain},
                   printable(trouble_of(view))});
    return table.lines(output);
}

List
describe(const SubscriptionView &view)
{
    List list;
    const StateText text = text_of_state(view);
    list.add("Name", {printable(view.name), Style::kBold});
    std::string words = view.state;
    if (view.pid)
        words += " (process " + *view.pid + ")";
    if (*text.meaning != '\0')
        words += fmt::format(": {}", text.meaning);
    list.add("Relay", {printable(words), text.style});
    if (view.detached_at)
        list.add("Detached", {printable(*view.detached_at), text.style});
    list.add("Takes", view.types ? Cell(printable(*view.types)) : Cell("all events"));
    list.add("Oldest", view.backlog_age
                           ? Cell(human_duration(*view.backlog_age) + " old", Style::kBold)
                           : Cell("nothing to publish"));
    if (view.in_flight_events > 0)
        list.add("In flight", counted(view.in_flight_events, "event") + ", " +
                                  human_bytes(view.in_flight_bytes));
    list.add("Published", counted(view.published_total, "event") +
                              (view.published_ago ? ", the last one " +
                                                        human_duration(*view.published_ago) + " ago"
                                                  : ""));
    if (view.retrying + view.waiting > 0)
        list.add("Set aside", {counted(view.retrying, "event") + " tried again, " +
                                   counted(view.waiting, "event") + " behind others",
                               Style::kWarning});
    list.add("Failed", view.failed == 0 ? Cell("none")
                                        : Cell(counted(view.failed, "event") +
                                                   "; see \"outboxctl failed list --subscription " +
                                                   view.name + "\"",
                                               Style::kBad));
    if (view.holds_ring)
        list.add("Ring", {"events are kept for it, for " + human_duration(*view.holds_ring),
                          Style::kWarning});
    if (view.failures > 0)
        list.add("Attempts", {counted(view.failures, "failure") + " in a row" +
                                  (view.next_attempt_in ? ", next attempt in " +
                                                              human_duration(*view.next_attempt_in)
                                                        : ""),
                              Style::kWarning});
    if (view.last_error)
        list.add(
            "Last error",
            {printable(*view.last_error) +
                 (view.last_error_ago ? " (" + human_duration(*view.last_error_ago) + " ago)" : ""),
             view.state == "running" || view.detached_by ? Style::kFaint : Style::kBad});
    if (view.config_error)
        list.add("Options", {printable(*view.config_error), Style::kBad});
    return list;
}

} // namespace outbox::ctl
