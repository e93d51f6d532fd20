#include "relay_view.h"

#include "commands.h"
#include "units.h"

#include <map>

namespace outbox::ctl
{

namespace
{

// One statement, so that all of it is of one moment. Ages are the server's: its clock may not be
// ours. An extension that is still to be updated to 0.2.1 does not have what is asked for by name.
constexpr const char *kQuery = R"(
select clock_timestamp() as time, current_database()::text as database, r.state, r.pid,
  r.backlog_events, r.oldest_event_at,
  extract(epoch from r.backlog_age)::numeric as backlog_age_seconds,
  r.in_flight_events, r.in_flight_bytes, r.published_total, r.last_published_at, r.failed_events,
  (r.more ->> 'retrying_events')::bigint as retrying_events,
  (r.more ->> 'waiting_events')::bigint as waiting_events,
  (r.more ->> 'oldest_waiting_at')::timestamptz as oldest_waiting_at,
  extract(epoch from clock_timestamp() - (r.more ->> 'oldest_waiting_at')::timestamptz)::numeric
    as waiting_age_seconds,
  r.consecutive_failures, r.next_attempt_at, r.last_error, r.last_error_at, r.config_error,
  nullif(current_setting('outbox.bootstrap_servers', true), '') as bootstrap_servers,
  extract(epoch from clock_timestamp() - r.last_published_at)::float8 as published_ago,
  extract(epoch from r.next_attempt_at - clock_timestamp())::float8 as next_attempt_in,
  extract(epoch from clock_timestamp() - r.last_error_at)::float8 as last_error_ago,
  has_table_privilege('outbox.pauses', 'select') as may_see_pause
from (select s.*, to_jsonb(s) as more from outbox.relay_status s offset 0) r)";

// Members of the answer that are no part of the documented shape.
constexpr const char *kInternal[] = {"published_ago", "next_attempt_in", "last_error_ago",
                                     "may_see_pause"};

// Before 0.3 outbox.pauses has no column `subscription`: the name is that of `o` then.
std::optional<Pause>
look_at_pause(Database &database)
{
    const Rows rows = database.query(
        "select paused_at, extract(epoch from clock_timestamp() - paused_at)::float8 as seconds, "
        "paused_by::text as by, left(reason, 1000) as reason "
        "from (select 'default'::text as subscription) o, "
        "lateral (select * from outbox.pauses where subscription = 'default' limit 1) p");
    if (rows.empty())
        return std::nullopt;
    return Pause{rows.raw(0, "paused_at").value_or(""), rows.real(0, "seconds").value_or(0),
                 rows.raw(0, "by").value_or(""), rows.raw(0, "reason")};
}

Json
to_json(const Pause &pause)
{
    return {{"since", pause.since}, {"by", pause.by}, {"reason", or_null(pause.reason)}};
}

} // namespace

RelayView
look_at_relay(Database &database)
{
    const Rows rows = database.query(kQuery);
    RelayView view;
    view.json = rows.object(0);
    for (const char *name : kInternal)
        view.json.erase(name);
    view.state = rows.value(0, "state");
    view.pid = rows.text(0, "pid");
    view.backlog = rows.number(0, "backlog_events");
    view.backlog_age = rows.real(0, "backlog_age_seconds");
    view.in_flight_events = rows.number(0, "in_flight_events").value_or(0);
    view.in_flight_bytes = rows.number(0, "in_flight_bytes").value_or(0);
    view.published_total = rows.number(0, "published_total").value_or(0);
    view.published_ago = rows.real(0, "published_ago");
    view.failed = rows.number(0, "failed_events").value_or(0);
    view.retrying = rows.number(0, "retrying_events").value_or(0);
    view.waiting = rows.number(0, "waiting_events").value_or(0);
    view.waiting_age = rows.real(0, "waiting_age_seconds");
    view.failures = rows.number(0, "consecutive_failures").value_or(0);
    view.next_attempt_in = rows.real(0, "next_attempt_in");
    view.last_error = rows.raw(0, "last_error");
    view.last_error_ago = rows.real(0, "last_error_ago");
    view.config_error = rows.raw(0, "config_error");
    view.bootstrap = rows.raw(0, "bootstrap_servers");
    if (rows.flag(0, "may_see_pause"))
        view.pause = look_at_pause(database);
    view.json["pause"] = view.pause ? to_json(*view.pause) : Json(nullptr);
    return view;
}

std::string
text_of_set_aside(const RelayView &view)
{
    constexpr long long kMostCounted = 100000; // by the view
    const auto count = [](long long events)
    { return counted(events, "event") + (events >= kMostCounted ? " or more" : ""); };
    std::string text;
    if (view.retrying > 0)
        text = count(view.retrying) + (view.retrying == 1 ? " is" : " are") + " tried again";
    if (view.waiting > 0)
        text += (text.empty() ? "" : ", ") + count(view.waiting) + " behind others";
    if (view.waiting > 0 && view.waiting_age)
        text += ", the first " + human_duration(*view.waiting_age) + " old";
    return text;
}

std::string
text_of_pause(const Pause &pause)
{
    return " by " + pause.by + ", " + human_duration(pause.seconds) + " ago" +
           (pause.reason ? ": " + *pause.reason : "");
}

StateText
text_of_state(const std::string &state)
{
    static const std::map<std::string, StateText> texts = {
        {"running", {Style::kGood, "", ""}},
        {"starting", {Style::kWarning, "the relay's process is being started", ""}},
        {"backing_off",
         {Style::kBad, "Kafka does not accept events; the relay tries again by itself",
          "Check Kafka and the network; the last error says what is wrong."}},
        {"paused", {Style::kWarning, "paused by an operator", "outboxctl resume"}},
        {"waiting_standby",
         {Style::kWarning, "what is next is not yet on the synchronous standbys",
          "Check the standbys, or remove those that are gone for good from "
          "synchronous_standby_names."}},
        {"waiting_lock",
         {Style::kWarning,
          "another session holds an exclusive lock on one of the extension's tables",
          "End that transaction; pg_locks shows it."}},
        {"not_configured",
         {Style::kBad,
          "outbox.bootstrap_servers is empty, so nothing goes to Kafka, and no event is removed",
          "alter system set outbox.bootstrap_servers = 'host:9092'; select pg_reload_conf(); or "
          "without a Kafka: outboxctl subscriptions detach default"}},
        {"config_error",
         {Style::kBad, "there is no usable configuration",
          "Correct what the error names, then select pg_reload_conf();"}},
        {"stopped",
         {Style::kBad, "the relay stopped and needs an operator",
          "The last error says why and what to do; see \"States of the relay\" in "
          "docs/operations.md."}},
        {"update_required",
         {Style::kBad, "the extension in this database is of another version than the library",
          "What the last error says: alter extension outbox update, or a newer package."}},
        {"gone",
         {Style::kBad, "the destination asked never to be called again",
          "Agree with it, then outboxctl resume --subscription NAME."}},
        {"detached",
         {Style::kGood, "the database does without Kafka; subscriptions send, default does not",
          ""}},
        {"absent",
         {Style::kBad, "there is no relay; one is started within a minute",
          "Look for an error in the server's log, and whether max_worker_processes is used up."}},
        {"not_preloaded",
         {Style::kBad, "the server was started without the library, so nothing is published",
          "Add outbox to shared_preload_libraries, and restart the server."}},
    };
    const auto found = texts.find(state);
    return found == texts.end() ? StateText{Style::kWarning, "", ""} : found->second;
}

} // namespace outbox::ctl
