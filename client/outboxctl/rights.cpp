#include "rights.h"

#include "errors.h"

#include <fmt/format.h>

#include <stdexcept>

namespace outbox::ctl
{

namespace
{

struct Group
{
    const char *name;
    const char *lets;
    const char *kind;  // of outbox.rights_of(); empty: `granted` has them
    const char *grant; // a call of the extension's, or a statement; {role}, {literal} name it
    std::vector<std::string> granted = {};
};

const std::vector<Group> kGroups = {
    {"emit", "outbox.emit(), insert into outbox.events, outbox.wait_published()", "emitter",
     "select outbox.grant_emitter({literal});"},
    {"consume", "outbox.mark_processed(), stored offsets, idempotency keys", "consumer",
     "select outbox.grant_consumer({literal});"},
    {"watch", "status, lag, failed list, replays list", "monitor",
     "select outbox.grant_monitor({literal});"},
    {"operate", "failed retry, failed discard, replay, replays list, replays cancel, pause, resume",
     "operator", "select outbox.grant_operator({literal});"},
    {"read payloads",
     "failed show, besides the rights to watch",
     "",
     "grant select on outbox.event_status, outbox.dead_letters to {role};",
     {"select on table outbox.event_status", "select on table outbox.dead_letters"}},
};

// Who may not call the function may still read it, as everybody may read the catalogue.
constexpr const char *kFromItsBody =
    "select m[2] as granted from pg_proc p join pg_namespace n on n.oid = p.pronamespace, "
    "regexp_matches(p.prosrc, $re$\\('(\\w+)', '([^']+)'\\)$re$, 'g') with ordinality f (m, place) "
    "where n.nspname = 'outbox' and p.proname = 'rights_of' and m[1] = $1 order by place";

// As they stand after "grant", in the words of the version that the database has.
std::vector<std::string>
rights_of(Database &database, const std::string &kind)
{
    const bool callable =
        database.query("select has_function_privilege('outbox.rights_of(text)', 'execute') as ok")
            .flag(0, "ok");
    const Rows rows = database.query(
        callable ? "select granted from outbox.rights_of($1) granted" : kFromItsBody, {kind});
    std::vector<std::string> granted;
    for (int row = 0; row < rows.count(); row++)
        granted.push_back(rows.raw(row, "granted").value_or(""));
    if (granted.empty())
        throw Error(kFailed, "outbox.rights_of() does not say what " + kind + "s may do",
                    "Check the rights as a superuser, with --role.");
    return granted;
}

// Whether a role has what stands after "grant": "execute on function f(…)", "select, insert on
// table t", "select (a, b) on table v".
bool
has(Database &database, const std::string &role, const std::string &granted)
{
    constexpr std::string_view kFunction = "execute on function ";
    constexpr std::string_view kTable = " on table ";
    if (granted.rfind(kFunction, 0) == 0)
        return database
            .query("select has_function_privilege($1::oid, $2, 'execute') as ok",
                   {role, granted.substr(kFunction.size())})
            .flag(0, "ok");
    const std::size_t place = granted.find(kTable);
    if (place == std::string::npos)
        throw Error(kFailed,
                    "outbox.rights_of() says what this outboxctl does not know: " + granted,
                    "Use the outboxctl of the server's version.");
    std::string privileges = granted.substr(0, place);
    const std::string table = granted.substr(place + kTable.size());
    Text columns;
    if (const std::size_t open = privileges.find(" ("); open != std::string::npos)
    {
        columns = privileges.substr(open + 2, privileges.rfind(')') - open - 2);
        privileges.resize(open);
    }
    return database
        .query(
            "select bool_and(case when $4::text is null then has_table_privilege($1::oid, $2, p) "
            "else (select bool_and(has_column_privilege($1::oid, $2, btrim(c), p)) "
            "from unnest(string_to_array($4, ',')) c) end) as ok "
            "from unnest(string_to_array($3, ', ')) p",
            {role, table, privileges, columns})
        .flag(0, "ok");
}

} // namespace

std::vector<RightsReport>
look_at_rights(Database &database, const std::string &role)
{
    const bool schema =
        database.query("select has_schema_privilege($1::oid, 'outbox', 'usage') as ok", {role})
            .flag(0, "ok");
    const bool own_schema =
        database.query("select has_schema_privilege('outbox', 'usage') as ok").flag(0, "ok");
    if (schema && !own_schema)
        throw Error(kNotReady, "\"" + database.user() + "\" may not use the schema outbox",
                    "Check other roles as one that may, a superuser for example.", "", "42501");
    std::vector<RightsReport> reports;
    for (const Group &group : kGroups)
    {
        RightsReport report{group.name, group.lets, false, false, {}};
        if (!schema)
            report.missing.emplace_back("usage on schema outbox");
        else
        {
            const std::vector<std::string> all =
                *group.kind == '\0' ? group.granted : rights_of(database, group.kind);
            for (const std::string &granted : all)
                if (!has(database, role, granted))
                    report.missing.push_back(granted);
                else if (&granted == &all.front())
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
    for (const Group &known : kGroups)
        if (right == known.name)
            return fmt::format(fmt::runtime(known.grant), fmt::arg("role", role),
                               fmt::arg("literal", literal));
    throw std::logic_error("a right that is not known");
}

} // namespace outbox::ctl
