#include "rights.h"

#include <stdexcept>

namespace outbox::ctl
{

namespace
{

enum class Kind
{
    kFunction,
    kRelation, // select
    kColumns,  // insert into these of outbox.events
};

struct Object
{
    Kind kind;
    const char *name;
};

struct Right
{
    const char *name;
    const char *lets;
    std::vector<Object> objects;
};

const std::vector<Right> kRights = {
    {"emit",
     "outbox.emit(), outbox.emit_bytes()",
     {{Kind::kFunction, "outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int)"},
      {Kind::kFunction, "outbox.emit_bytes(text, text, text, bytea, jsonb, text, uuid, int)"}}},
    {"insert",
     "insert into outbox.events",
     {{Kind::kColumns, "aggregate_type, aggregate_id, event_type, payload"},
      {Kind::kFunction, "outbox.uuid_v7()"},
      {Kind::kFunction, "outbox.current_slot()"}}},
    {"consume",
     "outbox.mark_processed(), stored offsets",
     {{Kind::kFunction, "outbox.mark_processed(uuid, text)"},
      {Kind::kFunction, "outbox.mark_processed_many(uuid[], text)"},
      {Kind::kFunction, "outbox.is_processed(uuid, text)"},
      {Kind::kFunction, "outbox.record_offset(text, text, int, bigint)"},
      {Kind::kFunction, "outbox.stored_offsets(text)"}}},
    {"answer requests",
     "outbox.idempotency_begin()",
     {{Kind::kFunction, "outbox.idempotency_begin(text, text, bytea, interval, text, interval)"},
      {Kind::kFunction, "outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb)"},
      {Kind::kFunction, "outbox.idempotency_release(text, text, uuid)"},
      {Kind::kFunction, "outbox.request_hash(text, text, bytea)"}}},
    {"wait",
     "outbox.wait_published(), emit --wait",
     {{Kind::kFunction, "outbox.wait_published(uuid, interval)"}}},
    {"watch",
     "status, lag, failed list, failed show, replays list",
     {{Kind::kRelation, "outbox.relay_status"},
      {Kind::kRelation, "outbox.event_status"},
      {Kind::kRelation, "outbox.dead_letters"},
      {Kind::kRelation, "outbox.replays"},
      {Kind::kFunction, "outbox.relay_state()"},
      {Kind::kFunction, "outbox.system_identifier()"},
      {Kind::kFunction, "outbox.visible_in(bigint, pg_snapshot)"}}},
    {"operate",
     "failed retry, failed discard, replay, replays cancel, pause, resume",
     {{Kind::kFunction, "outbox.retry(uuid)"},
      {Kind::kFunction, "outbox.retry_failed(text, text, timestamptz, int)"},
      {Kind::kFunction, "outbox.discard(uuid, text)"},
      {Kind::kFunction, "outbox.replay(text, text, text, timestamptz, timestamptz, int, int, "
                        "boolean, text)"},
      {Kind::kFunction, "outbox.cancel_replay(uuid)"},
      {Kind::kFunction, "outbox.pause(text)"},
      {Kind::kFunction, "outbox.resume()"}}},
};

// As it stands after "grant", without the objects.
std::string
privilege_of(Kind kind)
{
    switch (kind)
    {
    case Kind::kFunction:
        return "execute on function ";
    case Kind::kRelation:
        return "select on ";
    case Kind::kColumns:
        return "insert ";
    }
    throw std::logic_error("a kind of object without a privilege");
}

std::string
name_of(const Object &object)
{
    return object.kind == Kind::kColumns ? std::string("(") + object.name + ") on outbox.events"
                                         : object.name;
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
    case Kind::kColumns:
        return "(select bool_and(has_column_privilege($1, 'outbox.events', btrim(c), 'insert')) "
               "from unnest(string_to_array(" +
               name + ", ',')) c)";
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
                report.missing.push_back(privilege_of(object.kind) + name_of(object));
            else if (&object == &right.objects.front())
                report.any = true;
        }
        report.whole = report.missing.empty();
        reports.push_back(report);
    }
    return reports;
}

std::string
grant_statements(const std::string &right, const std::string &role)
{
    std::string result = "grant usage on schema outbox to " + role + ";";
    for (const Right &known : kRights)
        for (const Kind kind : {Kind::kFunction, Kind::kRelation, Kind::kColumns})
        {
            std::string names;
            for (const Object &object : known.objects)
                if (right == known.name && object.kind == kind)
                    names += (names.empty() ? "" : ", ") + name_of(object);
            if (!names.empty())
                result += " grant " + privilege_of(kind) + names + " to " + role + ";";
        }
    return result;
}

} // namespace outbox::ctl
