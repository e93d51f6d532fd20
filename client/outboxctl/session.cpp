// Connecting to a database that has the extension.
#include "commands.h"

#include "errors.h"

#include <fmt/format.h>

namespace outbox::ctl
{

Database
open_outbox(const Context &context)
{
    Database database(context.conninfo);
    const Rows rows = database.query(
        "select has_schema_privilege(e.extnamespace, 'usage') as open "
        "from pg_extension x join pg_namespace n on n.nspname = 'outbox' "
        "cross join lateral (select n.oid as extnamespace) e where x.extname = 'outbox'");
    if (rows.empty())
        throw Error(kNotReady,
                    fmt::format("the extension outbox is not installed in the database \"{}\"",
                                database.name()),
                    "Name another database with -d, or run \"create extension outbox\" in this one "
                    "as a superuser.");
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
