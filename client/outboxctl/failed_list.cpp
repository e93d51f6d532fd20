// outboxctl failed list, outboxctl failed show
#include "commands.h"

#include "errors.h"
#include "subscription_view.h"
#include "units.h"

#include <fmt/format.h>

#include <algorithm>

namespace outbox::ctl
{

namespace
{

// An extension that is still to be updated to 0.3 has no column `subscription`: the name is that of
// only_one then. Everybody who may watch reads the view; the other states are in the table alone.
constexpr const char *kOnlyFailed = R"(
select f.* from (select 'default'::text as subscription) only_one cross join lateral (
select d.event_id::text as id, 'FAILED'::text as state, d.topic, d.partition_key as key,
  d.aggregate_type, d.aggregate_id, d.event_type, d.attempts, d.failed_at,
  null::timestamptz as next_attempt_at, d.waiting_behind, d.last_error, subscription,
  extract(epoch from clock_timestamp() - d.failed_at)::float8 as age, d.seq
from outbox.dead_letters d) f)";

constexpr const char *kAnyState = R"(
select d.event_id::text as id, d.state, d.topic, d.partition_key as key,
  e.aggregate_type, e.aggregate_id, e.event_type, d.attempts, d.failed_at,
  d.next_attempt_at,
  case when d.blocking then
    (select count(*) from outbox.deliveries w where subscription = d.of and w.lane = d.lane and w.state = 'WAITING'
      and d.state <> 'WAITING')
  else 0 end as waiting_behind, d.last_error, d.of as subscription,
  extract(epoch from clock_timestamp() - d.failed_at)::float8 as age, d.seq
from (select 'default'::text as subscription) only_one
cross join lateral (
  select t.event_id, t.state, t.topic, t.partition_key, t.attempts, t.failed_at, t.next_attempt_at,
    t.blocking, t.last_error, t.lane, t.xid, t.seq, t.slot, subscription as of
  from outbox.deliveries t) d
left join outbox.events e on e.xid = d.xid and e.seq = d.seq and e.slot = d.slot)";

// The status is that of `default`; what another subscription has given up is FAILED there.
constexpr const char *kShow = R"(
select s.id::text,
  case when $2 = 'default' then s.status when d.topic is not null then 'FAILED' end as status,
  s.aggregate_type, s.aggregate_id, s.event_type, s.partition_key,
  s.schema_version, s.created_at,
  case when $2 = 'default' then s.published_at end as published_at,
  case when $2 = 'default' then s.attempts else d.attempts end as attempts,
  case when $2 = 'default' then s.next_attempt_at end as next_attempt_at,
  case when $2 = 'default' then s.last_error else d.last_error end as last_error,
  d.topic, d.failed_at, d.waiting_behind, s.headers, s.payload,
  translate(encode(s.payload_bytes, 'base64'), E'\n', '') as payload_base64,
  s.payload is null and s.payload_bytes is null as tombstone, s.payload_bytes, s.seq
from (select 'default'::text as subscription) only_one
cross join lateral (select * from outbox.event_status t where t.id = $1::uuid) s
left join lateral (
  select t.topic, t.failed_at, t.waiting_behind, t.attempts, t.last_error from outbox.dead_letters t
  where t.event_id = $1::uuid and t.seq = s.seq and subscription = $2) d on true
order by s.seq)";

Rows
find_failed(Database &database, const FailedOptions &options)
{
    const bool only_failed = options.state == "failed";
    if (!only_failed &&
        !(may_select(database, "outbox.deliveries",
                     {"xid", "slot", "lane", "state", "last_error"}) &&
          may_select(database, "outbox.events", {"xid", "seq", "slot", "aggregate_id"})))
        throw Error(
            kNotReady,
            "this role may not read all states; events that have failed it may list without "
            "--state",
            "grant select on outbox.deliveries to " + database.quoted_user() +
                "; grant select (xid, seq, slot, aggregate_type, aggregate_id, event_type) "
                "on outbox.events to " +
                database.quoted_user() + ";");
    const Text state =
        only_failed || options.state == "all" ? std::nullopt : Text(upper(options.state));
    const Text since = options.since ? Text(std::to_string(*options.since)) : std::nullopt;
    return database.query(
        std::string("select * from (") + (only_failed ? kOnlyFailed : kAnyState) +
            ") f where ($1::text is null or f.state = $1) "
            "and ($2::text is null or f.aggregate_type = $2) "
            "and ($3::text is null or f.event_type = $3) "
            "and ($4::float8 is null or f.failed_at >= now() - make_interval(secs => $4)) "
            "and ($6::text is null or f.subscription = $6) "
            "order by f.seq, f.subscription limit $5::int + 1",
        {state, options.aggregate_type, options.event_type, since, std::to_string(options.limit),
         options.subscription});
}

std::string
age_of(const Rows &rows, int row)
{
    const std::optional<double> age = rows.real(row, "age");
    return age ? human_duration(*age) + " ago" : "";
}

// Two lines for each event, so that neither its key nor its error is cut on an ordinary terminal.
void
print_list(const Output &output, const Rows &rows, int count, const FailedOptions &options)
{
    const bool several_states = options.state == "all";
    std::vector<Table::Column> columns = {
        {"ID"}, {"TRIES", Table::Align::kRight}, {"REFUSED"}, {"BEHIND IT", Table::Align::kRight}};
    if (several_states)
        columns.push_back({"STATE"});
    columns.push_back({"KEY"});
    Table table(columns);
    for (int row = 0; row < count; row++)
    {
        std::vector<Cell> cells = {{rows.value(row, "id"), Style::kBold},
                                   with_commas(rows.number(row, "attempts").value_or(0)),
                                   age_of(rows, row),
                                   with_commas(rows.number(row, "waiting_behind").value_or(0))};
        if (several_states)
            cells.emplace_back(lower(rows.value(row, "state")));
        cells.emplace_back(printable(rows.value(row, "key")));
        table.add(std::move(cells));
    }
    const std::vector<std::string> lines = table.lines(output);
    output.line(lines[0]);
    for (int row = 0; row < count; row++)
    {
        output.line(lines[static_cast<std::size_t>(row) + 1]);
        const Text error = rows.text(row, "last_error");
        const std::string subscription = rows.value(row, "subscription");
        const std::string below =
            (subscription == "default" ? "" : "subscription " + subscription + ", ") +
            rows.value(row, "topic") + (error ? ": " + *error : "");
        output.line("  " + output.styled(printable(below), Style::kFaint));
    }
    if (rows.count() > count)
        output.line(fmt::format("\nThere are more; --limit shows more than {}.", options.limit));
}

Text
payload_text(const Rows &rows, int row)
{
    if (const Text payload = rows.json(row, "payload"))
        return indented(*payload);
    if (const Text bytes = rows.raw(row, "payload_bytes"))
        return printable(from_hex(*bytes));
    return std::nullopt;
}

// Names and values as the relay sends them: strings as they are, the rest as JSON.
std::vector<std::pair<std::string, std::string>>
headers_of(Database &database, const Rows &rows, int row)
{
    std::vector<std::pair<std::string, std::string>> headers;
    const Text json = rows.raw(row, "headers");
    if (!json)
        return headers;
    const Rows found =
        database.query("select key, coalesce(value #>> '{}', 'NULL') as value "
                       "from jsonb_each($1::jsonb) with ordinality order by ordinality",
                       {json});
    for (int i = 0; i < found.count(); i++)
        headers.emplace_back(found.value(i, "key"), found.value(i, "value"));
    return headers;
}

void
print_event(const Output &output, Database &database, const Rows &rows, int row)
{
    List list;
    const auto add = [&](const char *name, const char *column)
    {
        if (const Text found = rows.text(row, column))
            list.add(name, printable(*found));
    };
    const std::string status = rows.value(row, "status");
    list.add("Id", {rows.value(row, "id"), Style::kBold});
    if (!status.empty())
        list.add("Status", {lower(status), status == "FAILED" ? Style::kBad : Style::kPlain});
    add("Last error", "last_error");
    add("Attempts", "attempts");
    add("Refused first", "failed_at");
    add("Next attempt", "next_attempt_at");
    add("Waiting for it", "waiting_behind");
    add("Published", "published_at");
    add("Topic", "topic");
    list.add("Key",
             printable(rows.text(row, "partition_key").value_or(rows.value(row, "aggregate_id"))));
    list.add("Aggregate",
             printable(rows.value(row, "aggregate_type") + " " + rows.value(row, "aggregate_id")));
    add("Type", "event_type");
    add("Schema version", "schema_version");
    add("Created", "created_at");
    for (const auto &[name, value] : headers_of(database, rows, row))
        list.add("Header", printable(name + " = " + value));
    const Text payload = payload_text(rows, row);
    if (!payload)
        list.add("Payload", "none (a tombstone)");
    list.print(output);
    if (payload)
        output.line(output.styled("Payload", Style::kFaint) + "\n" + *payload);
}

} // namespace

int
run_failed_list(const Context &context, const FailedOptions &options)
{
    Database database = open_outbox(context);
    require_subscription(database, options.subscription);
    const Rows rows = find_failed(database, options);
    const int count = std::min(rows.count(), options.limit);
    if (context.output.json())
    {
        Json json = {{"events", Json::array()}, {"more", rows.count() > count}};
        for (int row = 0; row < count; row++)
        {
            Json event = rows.object(row);
            event.erase("age");
            event.erase("seq");
            json["events"].push_back(std::move(event));
        }
        context.output.document(json);
    }
    else if (count == 0)
        context.output.line("There are no such events.");
    else
        print_list(context.output, rows, count, options);
    return kOk;
}

int
run_failed_show(const Context &context, const FailedOptions &options)
{
    Database database = open_outbox(context);
    require_subscription(database, options.subscription);
    Json json = {{"events", Json::array()}};
    bool first = true;
    for (const std::string &id : options.ids)
    {
        const Rows rows =
            database.query(kShow, {id, subscription_or_default(options.subscription)});
        if (rows.empty())
            throw Error(kFailed, "there is no event with id " + id,
                        "\"outboxctl failed list\" shows the ids of failed events.", "", "42704");
        for (int row = 0; row < rows.count(); row++)
        {
            Json event = rows.object(row);
            event.erase("payload_bytes");
            event.erase("seq");
            json["events"].push_back(std::move(event));
            if (context.output.json())
                continue;
            if (!first)
                context.output.line();
            first = false;
            print_event(context.output, database, rows, row);
        }
    }
    if (context.output.json())
        context.output.document(json);
    return kOk;
}

} // namespace outbox::ctl
