// Commands for databases and extensions.
#include "hostile_statements.h"

namespace outbox::test
{

namespace
{

using Strings = std::vector<std::string>;

const Strings kOptions = {"template",          "tablespace",       "owner",
                          "encoding",          "strategy",         "locale",
                          "lc_collate",        "lc_ctype",         "icu_locale",
                          "locale_provider",   "is_template",      "allow_connections",
                          "connection limit",  "connection_limit", "oid",
                          "collation_version", "unknown",          "\"Template\""};

} // namespace

std::string
HostileStatements::database_name()
{
    const Strings names = {victim_,    victim_,
                           victim_,    "template1",
                           "postgres", "outbox_hostile_none",
                           "\"1\"",    std::string(200, 'n'),
                           "\"%s%n\""};
    return any_of(names);
}

std::string
HostileStatements::option_value()
{
    const Strings values = {"1",
                            "-1",
                            "0",
                            "2147483648",
                            "-1.5",
                            "1e400",
                            "true",
                            "false",
                            "on",
                            "off",
                            "default",
                            "''",
                            "'1'",
                            "'" + victim_ + "'",
                            victim_,
                            "\"" + victim_ + "\"",
                            "'" + std::string(10000, 'v') + "'",
                            std::string(100, 'v'),
                            "pg_default",
                            "U&'\\263A'",
                            "(1, 2)",
                            "array[1]",
                            "null"};
    return any_of(values);
}

std::string
HostileStatements::options()
{
    std::string text = below(2) == 0 ? " with" : "";
    for (size_t i = below(4) + 1; i > 0; --i)
        text += " " + any_of(kOptions) + (below(2) == 0 ? " = " : " ") + option_value();
    return text;
}

std::string
HostileStatements::database_command()
{
    const std::string name = database_name();
    switch (below(10))
    {
    case 0:
    case 1:
    case 2:
        return "create database " + name + options();
    case 3:
        return "drop database " + std::string(below(2) == 0 ? "if exists " : "") + name +
               (below(2) == 0   ? " with (force)"
                : below(3) == 0 ? " with (force, force)"
                                : "");
    case 4:
        return "alter database " + name + " rename to " + database_name();
    case 5:
    case 6:
        return "alter database " + name + options();
    case 7:
        return "alter database " + name + " set tablespace " + option_value();
    case 8:
        return "alter database " + name + " owner to " + option_value();
    default:
        return "alter database " + name + " set outbox.max_attempts to " + option_value();
    }
}

std::string
HostileStatements::extension_command()
{
    const Strings extensions = {"outbox", "outbox", "\"Outbox\"", "none", "plpgsql, outbox"};
    const Strings parts = {" schema " + option_value(), " version " + option_value(), " cascade",
                           " from " + option_value()};
    const Strings objects = {"table outbox.events",
                             "function outbox.drain(interval)",
                             "schema outbox",
                             "sequence outbox.events_seq",
                             "type outbox.deliveries",
                             "database " + victim_,
                             "table none"};
    std::string text;
    switch (below(5))
    {
    case 0:
        text = "create extension " + std::string(below(2) == 0 ? "if not exists " : "") +
               any_of(extensions) + (below(2) == 0 ? " with" : "");
        for (size_t i = below(4); i > 0; --i)
            text += any_of(parts);
        return text;
    case 1:
        return "alter extension " + any_of(extensions) + " update" +
               (below(2) == 0 ? " to " + option_value() : "");
    case 2:
        return "alter extension " + any_of(extensions) + " set schema " + option_value();
    case 3:
        return "alter extension " + any_of(extensions) + (below(2) == 0 ? " add " : " drop ") +
               any_of(objects);
    default:
        return "drop extension " + std::string(below(2) == 0 ? "if exists " : "") +
               any_of(extensions) + (below(2) == 0 ? " cascade" : "");
    }
}

std::string
HostileStatements::bare_command()
{
    return below(3) == 0 ? extension_command() : database_command();
}

Steps
HostileStatements::command(bool in_transaction)
{
    const std::string statement = bare_command();
    if (!in_transaction)
        return below(3) == 0 ? wrapped(statement, false) : Steps{statement};
    switch (below(3))
    {
    case 0:
        return {"begin", "savepoint a", statement, "rollback to a", "rollback"};
    case 1:
        return {"begin", statement, "prepare transaction 'outbox_hostile'",
                "rollback prepared 'outbox_hostile'"};
    default:
        return {"begin",
                "do $d$ begin execute $q$" + statement +
                    "$q$; exception when others then "
                    "if sqlstate = 'XX000' then raise; end if; end $d$",
                "rollback"};
    }
}

} // namespace outbox::test
