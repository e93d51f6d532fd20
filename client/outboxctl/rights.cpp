#include "rights.h"

#include <fmt/format.h>

#include <stdexcept>

namespace outbox::ctl
{

namespace
{

enum class Kind
{
    kFunction,
    kRelation, // select
    kInsert,   // into these columns of outbox.events
    kSelect,   // of these columns of a view
};

struct Object
{
    Kind kind;
    const char *name;
    const char *columns = "";
};

struct Right
{
    const char *name;
    const char *lets;
    const char *grant; // a call of the extension's, or a statement; {role}, {literal} name it
    std::vector<Object> objects;
};

// What sql/grants.sql gives each group, as far as a command or the client needs it.
const std::vector<Right> kRights = {
    {"emit",
     "outbox.emit(), insert into outbox.events, outbox.wait_published()",
     "select outbox.grant_emitter({literal});",
     {{Kind::kFunction, "outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int)"},
      {Kind::kFunction, "outbox.emit_bytes(text, text, text, bytea, jsonb, text, uuid, int)"},
      {Kind::kInsert, "outbox.events",
       "aggregate_type, aggregate_id, event_type, partition_key, payload, payload_bytes, headers, "
       "schema_version, id, created_at"},
      {Kind::kFunction, "outbox.uuid_v7()"},
      {Kind::kFunction, "outbox.current_slot()"},
      {Kind::kFunction, "outbox.wait_published(uuid, interval)"}}},
    {"consume",
     "outbox.mark_processed(), stored offsets, idempotency keys",
     "select outbox.grant_consumer({literal});",
     {{Kind::kFunction, "outbox.mark_processed(uuid, text)"},
      {Kind::kFunction, "outbox.mark_processed_many(uuid[], text)"},
      {Kind::kFunction, "outbox.is_processed(uuid, text)"},
      {Kind::kFunction, "outbox.record_offset(text, text, int, bigint)"},
      {Kind::kFunction, "outbox.stored_offsets(text)"},
      {Kind::kFunction, "outbox.idempotency_begin(text, text, bytea, interval, text, interval)"},
      {Kind::kFunction, "outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb)"},
      {Kind::kFunction, "outbox.idempotency_release(text, text, uuid)"},
      {Kind::kFunction, "outbox.request_hash(text, text, bytea)"}}},
    {"watch",
     "status, lag, failed list, replays list",
     "select outbox.grant_monitor({literal});",
     {{Kind::kRelation, "outbox.relay_status"},
      {Kind::kRelation, "outbox.maintenance_status"},
      {Kind::kSelect, "outbox.replays",
       "replay_id, state, total, published, refused, missing, percent, remaining, last_error, "
       "aggregate_type, event_type, aggregate_id, since, until, max_count, rate_per_second, topic, "
       "matching, requested_by, requested_at, started_at, ended_at, cancelled_by"},
      {Kind::kSelect, "outbox.event_status",
       "id, aggregate_type, aggregate_id, event_type, partition_key, schema_version, created_at, "
       "seq, status, attempts, next_attempt_at, published_at, last_error"},
      {Kind::kSelect, "outbox.dead_letters",
       "event_id, aggregate_type, aggregate_id, event_type, topic, partition_key, attempts, "
       "last_error, failed_at, waiting_behind, created_at, seq"},
      {Kind::kFunction, "outbox.relay_state()"},
      {Kind::kFunction, "outbox.system_identifier()"},
      {Kind::kFunction, "outbox.visible_in(bigint, pg_snapshot)"}}},
    {"operate",
     "failed retry, failed discard, replay, replays list, replays cancel, pause, resume",
     "select outbox.grant_operator({literal});",
     {{Kind::kFunction, "outbox.retry(uuid)"},
      {Kind::kFunction, "outbox.retry_failed(text, text, timestamptz, int)"},
      {Kind::kFunction, "outbox.discard(uuid, text)"},
      {Kind::kFunction, "outbox.replay(text, text, text, timestamptz, timestamptz, int, int, "
                        "boolean, text)"},
      {Kind::kFunction, "outbox.cancel_replay(uuid)"},
      {Kind::kFunction, "outbox.pause(text)"},
      {Kind::kFunction, "outbox.resume()"},
      {Kind::kFunction, "outbox.drain(interval)"},
      {Kind::kRelation, "outbox.dead_letters"},
      {Kind::kRelation, "outbox.replays"},
      {Kind::kRelation, "outbox.pauses"}}},
    {"read payloads",
     "failed show, beside the rights to watch",
     "grant select on outbox.event_status, outbox.dead_letters to {role};",
     {{Kind::kRelation, "outbox.event_status"}, {Kind::kRelation, "outbox.dead_letters"}}},
};

// As it stands after "grant".
std::string
privilege_on(const Object &object)
{
    const std::string name = object.name;
    switch (object.kind)
    {
    case Kind::kFunction:
        return "execute on function " + name;
    case Kind::kRelation:
        return "select on " + name;
    case Kind::kInsert:
        return std::string("insert (") + object.columns + ") on " + name;
    case Kind::kSelect:
        return std::string("select (") + object.columns + ") on " + name;
    }
    throw std::logic_error("a kind of object without a privilege");
}

// An expression that is true when the role $1 has the privilege.
std::string
check_of(const Object &object)
{
    const std::string name = std::string("'") + object.name + "'";
    switch (object.kind)
    {
    case Kind::kFunction:
        return "has_function_privilege($1, " + name + ", 'execute')";
    case Kind::kRelation:
        return "has_table_privilege($1, " + name + ", 'select')";
    case Kind::kInsert:
    case Kind::kSelect:
        return "(select bool_and(has_column_privilege($1, " + name + ", btrim(c), '" +
               (object.kind == Kind::kInsert ? "insert" : "select") +
               "')) from unnest(string_to_array('" + object.columns + "', ',')) c)";
    }
    throw std::logic_error("a kind of object without a check");
}

} // namespace

std::vector<RightsReport>
look_at_rights(Database &database, const std::string &role)
{
    const bool schema =
        database.query("select has_schema_privilege($1, 'outbox', 'usage') as ok", {role})
            .flag(0, "ok");
    std::vector<RightsReport> reports;
    for (const Right &right : kRights)
    {
        RightsReport report{right.name, right.lets, false, false, {}};
        if (!schema)
            report.missing.emplace_back("usage on schema outbox");
        for (const Object &object : right.objects)
        {
            const Rows rows = database.query("select " + check_of(object) + " as ok", {role});
            if (!rows.flag(0, "ok"))
                report.missing.push_back(privilege_on(object));
            else if (&object == &right.objects.front())
                report.any = true;
        }
        report.whole = report.missing.empty();
        reports.push_back(report);
    }
    return reports;
}

std::string
grant_statement(const std::string &right, const std::string &role)
{
    std::string literal = "'";
    for (const char c : role)
        literal += c == '\'' ? "''" : std::string(1, c);
    literal += "'";
    for (const Right &known : kRights)
        if (right == known.name)
            return fmt::format(fmt::runtime(known.grant), fmt::arg("role", role),
                               fmt::arg("literal", literal));
    throw std::logic_error("a right that is not known");
}

} // namespace outbox::ctl
