#include "bgworker/source/spi_call.h"

#include "extension/shared/refused_settings.h"

#include "held_default.h"
#include "session.h"

namespace outbox
{

namespace
{

// Whether the value that the configuration files have for the setting is refused, or they cannot be
// read. In a transaction.
bool
is_refused_in_file(const char *name)
{
    constexpr const char *kSelect =
        "select exists (select from pg_file_settings f where f.error is not null "
        "and (lower(f.name) = lower($1) or f.name is null))";
    PushActiveSnapshot(GetTransactionSnapshot());
    spi_connect();
    Oid types[] = {TEXTOID};
    Datum values[] = {CStringGetTextDatum(name)};
    spi_execute(kSelect, 1, types, values, SPI_OK_SELECT);
    const bool found = DatumGetBool(spi_first(1));
    SPI_finish();
    PopActiveSnapshot();
    return found;
}

} // namespace

bool
holds_default(Failure *why)
{
    if (const char *name = refused_of_database())
    {
        set_failure(*why, FailureClass::config, "",
                    "the value of %s that is stored for the database is refused", name);
        set_hint(*why, "correct it with ALTER DATABASE ... SET, or take it out with ALTER DATABASE "
                       "... RESET, and reload; the server's log says what is wrong with it");
        return true;
    }
    int number = 0;
    for (RefusedSetting refused = next_refused_setting(&number); refused.name != nullptr;
         refused = next_refused_setting(&number))
    {
        if (is_of_database(refused.name))
            continue;
        if (refused.in_file && !is_refused_in_file(refused.name) && settle_refused_setting(number))
            continue;
        note_refused_setting();
        set_failure(*why, FailureClass::config, "",
                    "the value of %s was refused when the server started", refused.name);
        set_hint(*why,
                 !refused.in_file
                     ? "correct it in the command line of the server; the server's log says what "
                       "is wrong with it"
                 : refused.needs_restart
                     ? "correct it in the configuration file and restart the server, or take it "
                       "out and reload; the server's log says what is wrong with it"
                     : "correct it in the configuration file and reload; the server's log, and "
                       "pg_file_settings, say what is wrong with it");
        return true;
    }
    return false;
}

} // namespace outbox
