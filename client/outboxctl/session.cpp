// Connecting to a database that has the extension.
#include "commands.h"

#include "errors.h"

#include <fmt/format.h>

namespace outbox::ctl
{

std::optional<Absence>
absence_of_extension(Database &database)
{
    // The schema is a member of the extension.
    const Rows rows = database.query(
        "select quote_ident(own.nspname) as own, other.oid is not null as taken "
        "from (select) one left join pg_extension x on x.extname = 'outbox' "
        "left join pg_depend d on d.refclassid = 'pg_extension'::regclass and d.refobjid = x.oid "
        "and d.classid = 'pg_namespace'::regclass and d.deptype = 'e' "
        "left join pg_namespace own on own.oid = d.objid "
        "left join pg_namespace other on other.nspname = 'outbox' "
        "where case when x.oid is null or other.oid is null then true "
        "else own.nspname <> 'outbox' end");
    if (rows.empty())
        return std::nullopt;
    const std::string in = " in the database \"" + database.name() + "\"";
    const Text own = rows.raw(0, "own");
    const bool taken = rows.flag(0, "taken");
    const std::string rename = taken ? "alter schema outbox rename to other_outbox; " : "";
    if (own)
        return Absence{"the schema of the extension outbox is called " + *own + in,
                       rename + "alter schema " + *own + " rename to outbox;"};
    if (taken)
        return Absence{"the extension outbox is not installed" + in +
                           ", and another schema has its name",
                       rename + "create extension outbox;"};
    return Absence{"the extension outbox is not installed" + in, std::nullopt};
}

Database
open_outbox(const Context &context)
{
    Database database(context.conninfo);
    if (const std::optional<Absence> absence = absence_of_extension(database))
        throw Error(kNotReady, absence->text,
                    absence->remedy ? "As a superuser: " + *absence->remedy
                                    : "Name another database with -d, or run \"create extension "
                                      "outbox\" in this one as a superuser.");
    const Rows rows = database.query("select has_schema_privilege('outbox', 'usage') as open");
    if (!rows.flag(0, "open"))
        throw Error(kNotReady,
                    fmt::format("the role \"{}\" may not use the schema outbox", database.user()),
                    "\"outboxctl doctor\" shows the rights there are and the grants for them.");
    return database;
}

bool
may_select(Database &database, const std::string &relation,
           std::initializer_list<const char *> columns)
{
    for (const char *column : columns)
        if (!database
                 .query("select has_column_privilege($1, $2, 'select') as ok", {relation, column})
                 .flag(0, "ok"))
            return false;
    return true;
}

} // namespace outbox::ctl
