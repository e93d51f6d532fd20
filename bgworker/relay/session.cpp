#include "session.h"

#include "bgworker/source/spi_call.h"

#include "extension/server/pg_settings.h"

extern "C"
{
#include "catalog/pg_authid.h"
#include "utils/timeout.h"
}

namespace outbox
{

namespace
{

// Of all settings, in the order of all_settings(); not those that have none.
struct ServerSetting
{
    const char *name;
    char *value;
};

ServerSetting *server_settings;
int setting_count;
bool dropped_own;

// The settings of outbox that the database has, as they were applied last.
struct DatabaseSetting
{
    char name[NAMEDATALEN];
    bool refused;
};

constexpr int kMostOfDatabase = 64; // more than there are settings of outbox
DatabaseSetting of_database[kMostOfDatabase];
int of_database_count;

bool
is_of_outbox(const char *name)
{
    return strncmp(name, "outbox.", 7) == 0;
}

bool
is_of_role_or_database(const config_generic *setting)
{
    return setting->source == PGC_S_GLOBAL || setting->source == PGC_S_DATABASE ||
           setting->source == PGC_S_USER || setting->source == PGC_S_DATABASE_USER;
}

void
override_setting(const char *name, const char *value)
{
    SetConfigOption(name, value, PGC_SU_BACKEND, PGC_S_OVERRIDE);
}

// What the server's configuration says; null when it says nothing.
const char *
server_value(const char *name)
{
    if (strcmp(name, "session_authorization") == 0)
        return GetUserNameFromId(BOOTSTRAP_SUPERUSERID, false);
    if (strcmp(name, "client_encoding") == 0)
        return GetDatabaseEncodingName();
    for (int i = 0; i < setting_count; i++)
        if (strcmp(server_settings[i].name, name) == 0)
            return server_settings[i].value;
    return nullptr;
}

// The names of those that the database does not set for itself; there are few.
List *
find_others()
{
    List *names = NIL;
    int count;
    config_generic **settings = all_settings(&count);
    for (int i = 0; i < count; i++)
        if (is_of_role_or_database(settings[i]) &&
            !(is_of_outbox(settings[i]->name) && settings[i]->source == PGC_S_DATABASE))
            names = lappend(names, pstrdup(settings[i]->name));
    return names;
}

// The user first: the rest is for a superuser to do.
void
drop_other_settings()
{
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    override_setting("session_authorization", server_value("session_authorization"));
    override_setting("role", "none");
    ListCell *cell;
    foreach (cell, find_others())
    {
        const char *name = static_cast<const char *>(lfirst(cell));
        const char *value = server_value(name);
        dropped_own = dropped_own || is_of_outbox(name);
        if (value != nullptr)
            override_setting(name, value);
    }
    apply_database_settings();
    PopActiveSnapshot();
    CommitTransactionCommand();
}

// A setting of kB that is no less than this and no less than the server's.
void
pin_at_least(const char *name, int least)
{
    char value[16];
    snprintf(value, sizeof(value), "%d", Max(atoi(GetConfigOption(name, false, false)), least));
    SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

// The bounds that statements and their work may run into, which would end the relay, or refuse an
// event that its session could emit.
void
pin_bounds()
{
    constexpr int kLeastWorkMem = 4096;    // the server's default
    constexpr int kUsualStackDepth = 2048; // that of a session with the default limit of the kernel
    SetConfigOption("temp_file_limit", "-1", PGC_SUSET, PGC_S_OVERRIDE);
    pin_at_least("work_mem", kLeastWorkMem);
    pin_at_least("max_stack_depth", Min(kUsualStackDepth, highest_stack_depth()));
    // No statement of the relay is worth a compilation.
    SetConfigOption("jit", "off", PGC_SUSET, PGC_S_OVERRIDE);
}

// The relay's statements find their rows by index, however many there are.
void
pin_plans()
{
    constexpr struct
    {
        const char *name;
        const char *value;
    } kPlans[] = {{"enable_indexscan", "on"},
                  {"enable_indexonlyscan", "on"},
                  {"enable_bitmapscan", "on"},
                  {"enable_tidscan", "on"},
                  {"enable_nestloop", "on"},
                  {"enable_sort", "off"}, // an index has the order, wherever one is asked for
                  {"seq_page_cost", "1"},
                  {"random_page_cost", "4"},
                  {"cpu_tuple_cost", "0.01"},
                  {"cpu_index_tuple_cost", "0.005"},
                  {"cpu_operator_cost", "0.0025"},
                  {"plan_cache_mode", "auto"},
                  {"max_parallel_workers_per_gather", "0"}};
    for (const auto &pinned : kPlans)
        SetConfigOption(pinned.name, pinned.value, PGC_SUSET, PGC_S_OVERRIDE);
}

// lock_timeout comes as this signal, too.
void
cancel_only_for_timeout(SIGNAL_ARGS)
{
    if (get_timeout_indicator(LOCK_TIMEOUT, false))
        StatementCancelHandler(postgres_signal_arg);
}

} // namespace

void
outlive_cancellation()
{
    pqsignal(SIGINT, cancel_only_for_timeout);
}

void
keep_server_settings()
{
    int count;
    config_generic **settings = all_settings(&count);
    MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
    server_settings =
        static_cast<ServerSetting *>(palloc0(static_cast<Size>(count) * sizeof(ServerSetting)));
    setting_count = count;
    for (int i = 0; i < count; i++)
    {
        const char *value = GetConfigOption(settings[i]->name, true, false);
        server_settings[i] = {settings[i]->name, value != nullptr ? pstrdup(value) : nullptr};
    }
    MemoryContextSwitchTo(before);
}

void
prepare_session()
{
    // Before the first statement: the relay's are in plain SQL, such as `=` for pg_catalog's.
    SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_SUSET, PGC_S_OVERRIDE);
    // Before the first transaction: one that is serializable, read-only and deferrable waits for
    // all that write, as long as these are open, and for prepared ones.
    SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("default_transaction_deferrable", "off", PGC_SUSET, PGC_S_OVERRIDE);
    drop_other_settings();
    // A trigger on our tables would run with the relay's rights, and a role that may create one
    // need not be an owner. With this, only those fire that an owner has marked for it, see
    // trust.h.
    SetConfigOption("session_replication_role", "replica", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("row_security", "off", PGC_SUSET, PGC_S_OVERRIDE);
    // A position that is lost in a crash only means that events are published again.
    SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("lock_timeout", "1s", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("statement_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
    switch_off_transaction_timeout();
    pin_bounds();
    pin_plans();
    pgstat_report_appname("outbox relay");
}

void
apply_database_settings()
{
    constexpr const char *kSelect =
        "select split_part(c, '=', 1), substr(c, strpos(c, '=') + 1) "
        "from pg_db_role_setting s "
        "join pg_database d on d.oid = s.setdatabase, unnest(s.setconfig) c "
        "where d.datname = current_database() and s.setrole = 0 and c ^@ 'outbox.'";
    spi_connect();
    spi_execute(kSelect, 0, nullptr, nullptr, SPI_OK_SELECT);
    of_database_count = 0;
    for (uint64 i = 0; i < SPI_processed; i++)
    {
        const char *name = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
        const char *value = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2);
        const bool known = GetConfigOption(name, true, false) != nullptr;
        const bool usable =
            apply_stored_setting(name, value, dropped_own ? PGC_S_OVERRIDE : PGC_S_DATABASE);
        if (!known || of_database_count == kMostOfDatabase)
            continue;
        strlcpy(of_database[of_database_count].name, name, NAMEDATALEN);
        of_database[of_database_count++].refused = !usable;
    }
    SPI_finish();
}

const char *
refused_of_database()
{
    for (int i = 0; i < of_database_count; i++)
        if (of_database[i].refused)
            return of_database[i].name;
    return nullptr;
}

bool
is_of_database(const char *name)
{
    for (int i = 0; i < of_database_count; i++)
        if (pg_strcasecmp(of_database[i].name, name) == 0)
            return true;
    return false;
}

bool
has_dropped_own_settings()
{
    return dropped_own;
}

} // namespace outbox
