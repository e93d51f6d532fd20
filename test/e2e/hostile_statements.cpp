#include "hostile_statements.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

namespace outbox::test
{

namespace
{

using Strings = std::vector<std::string>;

// By type; every one of them also gets a null.
const std::map<std::string, Strings> kValues = {
    {"text",
     {"''",
      "' '",
      "'x'",
      "'order'",
      "'*'",
      "'%s%n%d'",
      "'..'",
      "'../x'",
      "repeat('x', 249)",
      "repeat('x', 256)",
      "repeat('x', 1000000)",
      "repeat(U&'\\+01F600', 300)",
      "E'\\x01\\n\\t'",
      "'single_tx'",
      "'two_phase'",
      "'emitter'",
      "'-1'",
      "'FAILED'",
      "'{}'",
      "''''",
      "'\"'",
      "'debezium'",
      "U&'\\FEFF\\202E'"}},
    {"uuid",
     {"'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
      "gen_random_uuid()", "(select id from outbox.event_status limit 1)"}},
    {"jsonb",
     {"'{}'", "'[]'", "'null'", "'1e131071'", "'-0.0'", "to_jsonb(repeat('x', 1000000))",
      "(repeat('[', 3000) || repeat(']', 3000))::jsonb",
      "(repeat('{\"a\":', 1999) || '1' || repeat('}', 1999))::jsonb",
      "('[' || repeat('1e131071,', 9000) || '1]')::jsonb",
      "(select jsonb_object_agg('h' || i, i) from generate_series(1, 10001) i)",
      "'{\"h\": 1e131071}'", "'{\"\": 1}'", "'{\"id\": 1}'", "'{\"h\": {}}'", "'{\"h\": null}'",
      "jsonb_build_object(repeat('k', 100000), repeat(chr(1), 100000))", "'{\"replay_id\": \"x\"}'",
      "'{\"content-type\": \"x\"}'", "to_jsonb('NaN'::numeric)"}},
    {"bytea", {"''", "'\\x00'", "repeat('x', 1000001)::bytea", "sha256('x')", "sha256('')"}},
    {"integer", {"0", "1", "-1", "7", "100", "599", "1000", "2147483647", "-2147483648"}},
    {"smallint", {"0", "7", "8", "-1", "32767", "-32768"}},
    {"bigint", {"0", "1", "-1", "9223372036854775807", "'-9223372036854775808'", "4294967296"}},
    {"boolean", {"true", "false"}},
    {"interval",
     {"'0'", "'1 ms'", "'-1 s'", "'1 h'", "'1 day'", "'25 h'", "'100 years'", "'178000000 years'",
      "'-178000000 years'", "'2147483647 months'", "'-2147483648 days'", "'9223372036854775807 us'",
      "'-9223372036854775807 us'", "'1 month -30 days'"}},
    {"timestamp with time zone",
     {"now()", "'infinity'", "'-infinity'", "'4713-01-01 00:00:00+00 BC'",
      "'294276-12-31 23:59:59+00'", "'epoch'", "'0001-01-01 00:00:00+00'", "'9999-12-31'"}},
    {"pg_snapshot",
     {"'1:1:'", "'10:20:10,14,15'", "'1:9223372036854775807:'",
      "'9223372036854775807:9223372036854775807:'", "pg_current_snapshot()"}},
    {"regrole", {"0", "4294967295", "10", "current_user::regrole", "'pg_monitor'"}},
};

const Strings kInfiniteIntervals = {"'infinity'", "'-infinity'"};

} // namespace

HostileStatements::HostileStatements(unsigned seed, Db &db, std::string victim)
    : random_(seed), victim_(std::move(victim))
{
    const Result rows =
        db.exec("select p.oid::regproc, "
                "array_to_string(array(select format_type(t, null) from unnest(p.proargtypes) with "
                "ordinality a (t, n) order by n), '|'), p.prorettype::regtype::text = 'record' or "
                "p.proretset from pg_proc p where p.pronamespace = 'outbox'::regnamespace order by "
                "p.oid::regprocedure::text");
    for (int row = 0; row < rows.rows(); ++row)
    {
        Function function = {rows.text(row, 0), {}, rows.text(row, 2) == "t"};
        std::istringstream types(rows.text(row, 1));
        for (std::string type; std::getline(types, type, '|');)
            function.types.push_back(type);
        functions_.push_back(function);
    }
    const Result triggers = db.exec(
        "select distinct t.tgfoid::regproc::text, c.relname from pg_trigger t join pg_class c on "
        "c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid where p.pronamespace = "
        "'outbox'::regnamespace order by 1, 2");
    for (int row = 0; row < triggers.rows(); ++row)
        triggers_.emplace_back(triggers.text(row, 0), triggers.text(row, 1));
    has_infinite_intervals_ = std::stoi(db.value("show server_version_num")) >= 170000;
}

std::string
HostileStatements::prologue()
{
    return "create function pg_temp.run(statement text) returns text language plpgsql as $f$ "
           "begin execute statement; return null; end $f$; "
           "create function pg_temp.try(statement text) returns text language plpgsql as $f$ "
           "begin execute statement; return null; exception when others then "
           "if sqlstate = 'XX000' then raise; end if; return sqlstate; end $f$; "
           "create procedure pg_temp.proceed(statement text) language plpgsql as $f$ "
           "begin execute statement; commit; execute statement; end $f$; ";
}

std::string
HostileStatements::array_of(const std::string &element)
{
    const std::string type = "::" + element + "[]";
    switch (below(7))
    {
    case 0:
        return "'{}'" + type;
    case 1:
        return "'{null}'" + type;
    case 2:
        return "array[" + argument(element) + ", null, " + argument(element) + "]" + type;
    case 3:
        return "array[array[" + argument(element) + "], array[" + argument(element) + "]]" + type;
    case 4:
        return "array_fill(" + argument(element) + ", array[3], array[-2147483648])" + type;
    case 5:
        return "array(select " + argument(element) + " from generate_series(1, 3000))" + type;
    default:
        return "array_fill(" + argument(element) + ", array[2, 2], array[5, -7])" + type;
    }
}

std::string
HostileStatements::argument(const std::string &type)
{
    if (below(6) == 0)
        return "null::" + type;
    if (type.size() > 2 && type.substr(type.size() - 2) == "[]")
        return array_of(type.substr(0, type.size() - 2));
    if (type == "interval" && has_infinite_intervals_ && below(5) == 0)
        return any_of(kInfiniteIntervals) + "::interval";
    const auto values = kValues.find(type);
    if (values == kValues.end())
        return "null::" + type; // a new type wants a place above
    return "(" + any_of(values->second) + ")::" + type;
}

std::string
HostileStatements::plain_call()
{
    const Function &function = functions_[below(functions_.size())];
    std::string text = function.name + "(";
    for (size_t i = 0; i < function.types.size(); ++i)
        text += (i > 0 ? ", " : "") + argument(function.types[i]);
    text += ")";
    switch (below(function.returns_set_or_row ? 4 : 3))
    {
    case 0:
        return "select " + text + " from generate_series(1, 2)";
    case 1:
        return "select (select count(*) from (select " + text + ") s), 1";
    case 2:
        return "select " + text;
    default:
        return "select * from " + text;
    }
}

// In quotes that nothing here contains.
Steps
HostileStatements::wrapped(const std::string &statement, bool is_query)
{
    const std::string quoted = "$q$" + statement + "$q$";
    const std::string name = "outbox_hostile_" + std::to_string(++prepared_);
    switch (below(is_query ? 13 : 8))
    {
    case 0:
        return {"begin", "savepoint a", statement, "rollback to a", "commit"};
    case 1:
        return {"begin",     "savepoint a",   "savepoint b", statement,
                "release b", "rollback to a", statement,     "rollback"};
    case 2:
        return {"begin", statement, "prepare transaction '" + name + "'",
                "rollback prepared '" + name + "'"};
    case 3:
        return {"select pg_temp.run(" + quoted + ")"};
    case 4:
        return {"select pg_temp.try(" + quoted + "), pg_temp.try(" + quoted + ")"};
    case 5:
        return {"call pg_temp.proceed(" + quoted + ")"};
    case 6:
        return {"do $d$ begin begin execute " + quoted +
                "; exception when division_by_zero then null; end; rollback; end $d$"};
    case 7:
        return {"begin isolation level serializable read only", statement, "commit"};
    case 8:
        return {"begin", "declare c no scroll cursor with hold for " + statement, "fetch 1 from c",
                "commit", "close all"};
    case 9:
        return {"explain analyze " + statement};
    case 10:
        return {"prepare " + name + " as " + statement, "execute " + name, "execute " + name,
                "deallocate all"};
    case 11:
        return {"create temp table " + name + " as " + statement};
    default:
        // In one message: an implicit transaction block.
        return {"select 1; " + statement + "; " + statement};
    }
}

Steps
HostileStatements::call()
{
    const std::string statement = plain_call();
    return below(3) == 0 ? wrapped(statement, true) : Steps{statement};
}

Steps
HostileStatements::insert()
{
    static const std::vector<std::pair<std::string, std::string>> kColumns = {
        {"created_at", "timestamp with time zone"},
        {"id", "uuid"},
        {"schema_version", "integer"},
        {"slot", "smallint"},
        {"aggregate_type", "text"},
        {"aggregate_id", "text"},
        {"event_type", "text"},
        {"partition_key", "text"},
        {"payload", "jsonb"},
        {"payload_bytes", "bytea"},
        {"headers", "jsonb"}};
    std::string columns;
    std::string values;
    for (const auto &[column, type] : kColumns)
    {
        const bool required =
            column == "aggregate_type" || column == "aggregate_id" || column == "event_type";
        if (!required && below(3) != 0)
            continue;
        columns += (columns.empty() ? "" : ", ") + column;
        values += (values.empty() ? "" : ", ") +
                  (required && below(4) != 0 ? std::string("'order'") : argument(type));
    }
    const std::string statement = "insert into outbox.events" +
                                  (below(8) == 0 ? "_" + std::to_string(below(8)) : "") + " (" +
                                  columns + ") values (" + values + ")";
    return below(4) == 0 ? wrapped(statement, false) : Steps{statement};
}

Steps
HostileStatements::trigger()
{
    static const Strings kTimes = {"before", "before", "after"};
    static const Strings kEvents = {"insert",  "insert", "insert or update",
                                    "update",  "delete", "insert or update or delete",
                                    "truncate"};
    std::set<std::string> names;
    for (const auto &attached : triggers_)
        names.insert(attached.first);
    const std::string function = any_of(Strings(names.begin(), names.end()));
    std::string name;
    do
        name = triggers_[below(triggers_.size())].second;
    while (below(4) != 0 &&
           std::count(triggers_.begin(), triggers_.end(), std::make_pair(function, name)) == 0);
    const std::string table = "hostile." + name;
    std::string columns;
    std::string values;
    std::string first;
    const bool alike = below(4) == 0;
    for (size_t i = below(17); i > 0 && !alike; --i)
    {
        auto type = kValues.begin();
        std::advance(type, below(kValues.size()));
        const std::string column = "c" + std::to_string(i);
        first = column;
        columns += (columns.empty() ? "" : ", ") + column + " " + type->first;
        values += (values.empty() ? "" : ", ") + argument(type->first);
    }
    if (alike)
        columns = "like outbox." + name + " including defaults";
    const std::string event = any_of(kEvents);
    const bool rows = event != "truncate" && below(3) != 0;
    Steps steps = {"begin", "create schema hostile",
                   "create table " + table + " (" + columns + ")"};
    if (below(3) == 0)
        steps.push_back("alter table " + table + " add column d text, drop column d");
    steps.push_back("create trigger t " + any_of(kTimes) + " " + event + " on " + table +
                    " for each " + (rows ? "row" : "statement") + " execute function " + function +
                    "()");
    for (const std::string &statement :
         {"insert into " + table +
              (values.empty() ? " default values" : " values (" + values + ")"),
          first.empty() ? "select" : "update " + table + " set " + first + " = null",
          "delete from " + table, "truncate " + table})
        for (const std::string &step : {std::string("savepoint a"), statement})
            steps.push_back(step);
    // An error ends only what it is about.
    for (size_t i = steps.size(); i-- > 0;)
        if (i > 4 && steps[i] == "savepoint a")
            steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(i), "rollback to a");
    steps.push_back("rollback");
    return steps;
}

} // namespace outbox::test
