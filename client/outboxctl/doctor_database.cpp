// What doctor asks the database.
#include "doctor.h"

#include "errors.h"
#include "kafka_source.h"
#include "relay_view.h"
#include "rights.h"
#include "texts.h"
#include "units.h"

#include "extension/core/kafka_properties.h"
#include "extension/core/version.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

constexpr double kOldBacklog = 60; // seconds

void
examine_library(Database &database, const std::string &installed, const std::string &files,
                Findings &findings)
{
    const auto add = [&](Level level, const std::string &text, const std::string &remedy = "")
    { findings.add("extension", level, text, remedy); };
    const std::string update = "alter extension outbox update;";
    const std::string other_files = fmt::format(
        "the server has the files of version {}, this database has {}", files, installed);
    if (!database
             .query("select case when has_schema_privilege('outbox', 'usage') then "
                    "has_function_privilege('outbox.version()', 'execute') else false end as ok")
             .flag(0, "ok"))
    {
        const std::string role = database.quoted_user();
        add(Level::kUnknown, "this role may not ask for the version of the loaded library",
            "grant usage on schema outbox to " + role +
                "; grant execute on function outbox.version() to " + role + ";");
        if (files != installed)
            add(Level::kWarning, other_files,
                "Restart the server if that was not done since they are there, then " + update);
        return;
    }
    const std::string loaded =
        database.query("select outbox.version() as version").value(0, "version");
    // A server continues with the library that it was started with.
    const std::string restart = loaded == files ? "" : "Restart the server, then ";
    // There are no scripts that lead to an older version.
    const bool needs_newer = compare_versions(loaded, installed) < 0;
    const std::string remedy = files == installed ? "Restart the server."
                               : needs_newer      ? "Install the package of version " + installed +
                                                   " or a later one, then restart the server."
                                             : restart + update;
    if (loaded != installed)
        add(Level::kProblem,
            "the loaded library is version " + loaded + ", the extension in this database " +
                installed,
            remedy);
    else
    {
        add(Level::kOk, "extension and loaded library are version " + installed);
        if (files != installed)
            add(Level::kWarning, other_files, restart + update);
    }
    if (installed != kVersion)
        add(Level::kNote,
            fmt::format("outboxctl is version {}, the extension {}", kVersion, installed));
}

// Known before there is an extension that could say so; only some roles may see the setting.
void
examine_preload(Database &database, Findings &findings)
{
    const Rows rows = database.query(
        "select case when l = '' then 'outbox' else l || ', outbox' end as wanted "
        "from current_setting('shared_preload_libraries') l "
        "where pg_has_role('pg_read_all_settings', 'member') and not exists (select from "
        "unnest(string_to_array(l, ',')) one where btrim(one, ' \"') ~ '(^|/)outbox(\\.so)?$')");
    if (!rows.empty())
        findings.add("server", Level::kProblem,
                     "the server was started without the library, so nothing is published",
                     "alter system set shared_preload_libraries = " +
                         rows.raw(0, "wanted").value_or("") + "; and restart the server.");
}

// Whether the extension is in this database. What has to be done first is said first: a server that
// is to load a library which is not there does not start, and without the library an extension does
// nothing.
bool
examine_extension(Database &database, Findings &findings)
{
    const Rows rows = database.query(
        "select default_version, installed_version from pg_available_extensions where name = "
        "'outbox'");
    const auto add = [&](Level level, const std::string &text, const std::string &remedy = "")
    { findings.add("extension", level, text, remedy); };
    if (rows.empty())
        findings.add("server", Level::kProblem, "the extension's files are not on the server",
                     "Install the package postgresql-" +
                         std::to_string(database
                                            .query("select current_setting("
                                                   "'server_version_num')::int / 10000 as n")
                                            .number(0, "n")
                                            .value_or(0)) +
                         "-outbox there, or run make install with the PG_CONFIG of this server.");
    const Text installed = rows.empty() ? Text() : rows.text(0, "installed_version");
    if (!installed)
        examine_preload(database, findings); // otherwise the relay's state shows it
    if (rows.empty())
        return false;
    if (const std::optional<Absence> absence = absence_of_extension(database))
    {
        add(Level::kProblem, absence->text,
            absence->remedy.value_or("create extension outbox; as a superuser, or name another "
                                     "database with -d."));
        return false;
    }
    examine_library(database, *installed, rows.value(0, "default_version"), findings);
    return true;
}

void
examine_pause_and_errors(const RelayView &view, Findings &findings)
{
    if (view.config_error)
        findings.add("relay", Level::kProblem, "the settings are not usable: " + *view.config_error,
                     "Correct them, then select pg_reload_conf();");
    if (view.failed > 0)
        findings.add("relay", Level::kWarning,
                     counted(view.failed, "event") + " failed, and others may wait behind",
                     "outboxctl failed list; then retry or discard them.");
    if (const std::string aside = text_of_set_aside(view); !aside.empty())
        findings.add(
            "relay", Level::kWarning, "set aside: " + aside,
            "outboxctl failed list --state retrying says what is refused and why, outboxctl "
            "lag of which topics; see \"When Kafka does not take events\" in docs/operations.md.");
    if (view.state == "running" && view.backlog_age && *view.backlog_age > kOldBacklog)
        findings.add("relay", Level::kWarning,
                     counted(view.backlog.value_or(0), "event") + " wait, the oldest for " +
                         human_duration(*view.backlog_age),
                     "outboxctl lag shows whether it gets less.");
}

// A server's setting, and what a bad value of it means.
struct Durability
{
    const char *name;
    const char *bad;
    Level level;
    const char *meaning;
    const char *remedy;
};

constexpr Durability kDurability[] = {
    {"fsync", "off", Level::kProblem,
     "fsync is off: a crash of the machine may lose or damage events that were committed, also "
     "those already published",
     "alter system set fsync = on; select pg_reload_conf();"},
    {"full_page_writes", "off", Level::kProblem,
     "full_page_writes is off: a crash may leave torn pages, and events that cannot be read",
     "alter system set full_page_writes = on; select pg_reload_conf();"},
    {"synchronous_commit", "off", Level::kWarning,
     "synchronous_commit is off: the last transactions before a crash are lost with their events; "
     "nothing is published before it is on disk all the same",
     "alter system set synchronous_commit = on; select pg_reload_conf(); or set it for the "
     "transactions that count"},
    {"outbox.guard_durability", "off", Level::kProblem,
     "outbox.guard_durability is off: events are published that a crash may take back",
     "alter system reset outbox.guard_durability; select pg_reload_conf();"},
    {"wal_level", "minimal", Level::kNote,
     "wal_level is minimal: there can be no standby and no point-in-time recovery, so what is lost "
     "with the disk is lost",
     "alter system set wal_level = replica; and restart the server"},
    {"outbox.on_failure", "skip", Level::kNote,
     "outbox.on_failure is skip: an event that Kafka refuses loses its place among those of its "
     "key",
     ""},
};

void
examine_durability(Database &database, Findings &findings)
{
    bool fine = true;
    for (const Durability &item : kDurability)
        if (database.query("select current_setting($1, true) = $2 as bad", {item.name, item.bad})
                .flag(0, "bad"))
        {
            findings.add("settings", item.level, item.meaning, item.remedy);
            fine = fine && item.level == Level::kNote;
        }
    if (fine)
        findings.add("settings", Level::kOk, "what is committed survives a crash of the server");
    const Rows standbys = database.query("select count(*) as count from pg_stat_replication "
                                         "where current_setting('synchronous_standby_names') = ''");
    if (standbys.number(0, "count").value_or(0) > 0)
        findings.add("settings", Level::kNote,
                     "no standby is synchronous: one that is promoted may lack events that were "
                     "already published",
                     "synchronous_standby_names makes the relay wait for the standbys it names.");
}

// Passwords where they do not belong, and what gives up the order of a key.
void
examine_kafka_config(Database &database, Findings &findings)
{
    const std::map<std::string, std::string> settings = outbox_settings(database);
    const auto found = settings.find("outbox.kafka_config");
    if (found == settings.end())
        return;
    const ParsedConfig parsed = parse_config_pairs(found->second);
    for (const Property &property : parsed.properties)
    {
        if (is_secret(property.name))
            findings.add("settings", Level::kWarning,
                         "outbox.kafka_config holds the secret " + property.name +
                             "; who can read the configuration can read it",
                         "Move it to a file of mode 0600 and name that in "
                         "outbox.kafka_config_file.");
        const bool in_flight = property.name == "max.in.flight" ||
                               property.name == "max.in.flight.requests.per.connection";
        if (in_flight && property.value != "1")
            findings.add("settings", Level::kWarning,
                         property.name + " is " + property.value +
                             ": events may overtake one that Kafka refuses",
                         "Remove it from outbox.kafka_config; 1 is the default.");
    }
}

} // namespace

bool
examine_server(Database &database, Findings &findings)
{
    const Rows rows = database.query("select pg_is_in_recovery() as standby, "
                                     "current_setting('server_version_num')::int as number");
    const bool too_old = rows.number(0, "number").value_or(0) < 130000;
    findings.add("server", too_old ? Level::kProblem : Level::kOk,
                 fmt::format("PostgreSQL {}, database \"{}\" as \"{}\" on {}",
                             database.server_version(), database.name(), database.user(),
                             database.place()),
                 too_old ? "outbox needs PostgreSQL 13 or newer." : "");
    if (rows.flag(0, "standby"))
        findings.add(
            "server", Level::kNote,
            "this is a standby: nothing is emitted or published here until it is promoted");
    if (!is_utf8(database.user()))
        findings.add("server", Level::kNote,
                     "the name of this role is in another encoding than the database: statements "
                     "that name it have to be given where it was made");
    return examine_extension(database, findings);
}

void
examine_relay(Database &database, Findings &findings)
{
    const RelayView view = look_at_relay(database);
    const StateText text = text_of_state(view.state);
    const Level level = text.style == Style::kGood      ? Level::kOk
                        : text.style == Style::kWarning ? Level::kWarning
                                                        : Level::kProblem;
    std::string words = "the relay is " + view.state;
    if (*text.meaning != '\0')
        words += fmt::format(": {}", text.meaning);
    if (view.pause)
        words += fmt::format(" ({}, {} ago{})", view.pause->by, human_duration(view.pause->seconds),
                             view.pause->reason ? ": " + *view.pause->reason : "");
    if (level == Level::kProblem && view.last_error)
        words += "; " + *view.last_error;
    findings.add("relay", level, words, text.remedy);
    constexpr double kRecent = 3600; // seconds
    if (level != Level::kProblem && view.last_error)
        findings.add(
            "relay",
            view.last_error_ago && *view.last_error_ago < kRecent ? Level::kWarning : Level::kNote,
            "its last error" +
                (view.last_error_ago ? ", " + human_duration(*view.last_error_ago) + " ago" : "") +
                ": " + *view.last_error);
    examine_pause_and_errors(view, findings);
}

void
examine_rights(Database &database, const DoctorOptions &options, Findings &findings)
{
    const std::string role = options.role.empty() ? database.user() : options.role;
    const Rows known = database.query(
        "select oid, rolsuper as super, quote_ident(rolname) as quoted from pg_roles "
        "where rolname = coalesce($1::name, current_user)",
        {options.role.empty() ? Text() : role});
    if (known.empty())
        throw Error(kFailed, "there is no role \"" + role + "\"");
    if (database.query("select has_schema_privilege('public', 'outbox', 'usage') as ok")
            .flag(0, "ok"))
        findings.add("rights", Level::kWarning, "every role may use the schema outbox",
                     "revoke all on schema outbox from public;");
    if (known.flag(0, "super"))
    {
        findings.add("rights", Level::kOk,
                     "\"" + role +
                         "\" is a superuser and may do everything; --role looks at another");
        return;
    }
    for (const RightsReport &report : look_at_rights(database, known.value(0, "oid")))
    {
        const std::string lets = report.name + " (" + report.lets + ")";
        const std::string grants =
            grant_statement(report.name, known.raw(0, "quoted").value_or(""));
        if (report.whole)
            findings.add("rights", Level::kOk, "\"" + role + "\" may " + lets);
        else if (report.any)
        {
            std::string missing;
            for (const std::string &object : report.missing)
                missing += (missing.empty() ? "" : ", ") + object;
            findings.add("rights", Level::kWarning,
                         "\"" + role + "\" has only a part of " + lets + "; it lacks " + missing,
                         grants);
        }
        else
            findings.add("rights", Level::kNote, "\"" + role + "\" may not " + lets, grants);
    }
}

void
examine_settings(Database &database, Findings &findings)
{
    examine_durability(database, findings);
    examine_kafka_config(database, findings);
}

} // namespace outbox::ctl
