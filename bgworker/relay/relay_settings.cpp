// How the relay reads its settings: at its start, after SIGHUP, and after a failure.

#include <algorithm>

#include "bgworker/engine/common/backoff.h"

#include "sink_library.h"

#include "held_default.h"
#include "relay.h"

#include "activity.h"
#include "session.h"

#include "bgworker/guard.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/core/steady.h"
#include "extension/shared/settings.h"
#include "extension/shared/sink_libraries.h"

namespace outbox
{

namespace
{

constexpr std::int64_t kFirstRetryMs = 1000;
constexpr std::int64_t kLongestRetryMs = 60 * 1000;
constexpr int kLeastInFlight = 100;
constexpr int kLeastInFlightKb = 4096;

// The reason may pass without a reload: a file that is being replaced, no thread or descriptor
// left.
Backoff retries;
std::int64_t retry_at = 0; // by the steady clock; 0: nothing is to be tried again

// What a setup says at the start, in fixed room: it is logged when no object of C++ is alive.
struct Warning
{
    char message[512];
    char detail[512];
    char hint[512];
};
constexpr int kMostWarnings = 8;
Warning warnings[kMostWarnings];
int warning_count = 0;

void
keep_warnings(const std::vector<OptionFault> &found) noexcept
{
    warning_count = 0;
    for (const OptionFault &fault : found)
    {
        if (warning_count == kMostWarnings)
            return;
        Warning &warning = warnings[warning_count++];
        strlcpy(warning.message, fault.message.c_str(), sizeof(warning.message));
        strlcpy(warning.detail, fault.detail.c_str(), sizeof(warning.detail));
        strlcpy(warning.hint, fault.hint.c_str(), sizeof(warning.hint));
    }
}

void
log_warnings()
{
    for (int i = 0; i < warning_count; i++)
        ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                          errmsg("%s: %s", relay_title(), warnings[i].message),
                          warnings[i].detail[0] != '\0' ? errdetail("%s", warnings[i].detail) : 0,
                          warnings[i].hint[0] != '\0' ? errhint("%s", warnings[i].hint) : 0));
}

// False while `default` has no destination.
bool
is_configured()
{
    if (relay.options != nullptr || relay.kind->needed_setting == nullptr)
        return true;
    char name[NAMEDATALEN * 2];
    snprintf(name, sizeof(name), "outbox.%s", relay.kind->needed_setting);
    return GetConfigOption(name, false, false)[0] != '\0';
}

// Reads the settings into `setup`. On failure, null, and `why` says what is wrong with them. In a
// transaction.
void
read_setup(std::unique_ptr<SinkSetup> *setup, Failure *why)
{
    relay.holds_default = holds_default(why);
    if (relay.holds_default)
        return call_cpp([&] { setup->reset(); });
    const char *database = get_database_name(MyDatabaseId);
    const char *path = sink_library_path(*relay.kind);
    const char *package = sink_package(*relay.kind);
    const PlainOption *options = sink_options(*relay.kind, relay.options, true);
    call_cpp(
        [&]
        {
            setup->reset();
            warning_count = 0;
            const SinkModule *module = load_sink_library(*relay.kind, path, package, *why);
            if (module == nullptr)
                return;
            SinkSettings from;
            fill_options(options, from.options);
            from.client_id = std::string("outbox-") + (database != nullptr ? database : "");
            from.subscription = subscription_name();
            from.directory = DataDir;
            from.backoff_initial_ms = settings.backoff_initial_ms;
            from.backoff_max_ms = settings.backoff_max_ms;
            from.max_records = max_events_in_flight();
            from.max_bytes = static_cast<std::size_t>(settings.max_in_flight_kb) * 1024;
            from.max_event_bytes = static_cast<std::size_t>(settings.max_event_bytes);
            std::vector<OptionFault> found;
            *setup = module->read(from, found, *why);
            keep_warnings(found);
        });
}

// "the Kafka configuration", "the webhook configuration"
const char *
configuration_of_sink()
{
    static char text[64];
    const char *title = relay.kind->title;
    const bool has_article = strncmp(title, "the ", 4) == 0;
    snprintf(text, sizeof(text), "%s%s configuration", has_article ? "" : "the ", title);
    return text;
}

// Stays in relay_status until a configuration is good; logged once.
void
report_config_error(const Failure &why)
{
    char problem[sizeof(relay.config_error)];
    snprintf(problem, sizeof(problem), "%s%s%s", why.text, why.hint[0] != '\0' ? "; " : "",
             why.hint);
    const bool known = strcmp(problem, relay.config_error) == 0;
    strlcpy(relay.config_error, problem, sizeof(relay.config_error));
    if (!known)
        ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                          errmsg("%s: %s is not usable: %s", relay_title(), configuration_of_sink(),
                                 why.text),
                          why.hint[0] != '\0' ? errhint("%s", why.hint) : 0));
    char text[sizeof(problem) + 64];
    snprintf(text, sizeof(text), "%s is not usable: %s", configuration_of_sink(), problem);
    set_last_error(text);
}

void
retry_later()
{
    retries.configure(kFirstRetryMs * 2, kLongestRetryMs); // a wait is half of it at least
    retry_at = steady_now() + retries.fail(random_bits()) * 1000;
}

// Up to 0.2 they were so few. Each partition of a broker that hangs keeps what it has for a moment,
// one after the other if there is room for one.
void
warn_of_few_events()
{
    if (settings.max_in_flight < kLeastInFlight)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIG_FILE_ERROR),
                 errmsg("%s: outbox.max_in_flight counts as %d, not %d", relay_title(),
                        kLeastInFlight, settings.max_in_flight),
                 errdetail("With fewer events in flight, those for a broker that does not answer "
                           "hold up all others."),
                 errhint("Raise it, or remove it.")));
    if (settings.max_in_flight_kb < kLeastInFlightKb)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIG_FILE_ERROR),
                 errmsg("%s: outbox.max_in_flight_size is %d kB, less than %d kB", relay_title(),
                        settings.max_in_flight_kb, kLeastInFlightKb),
                 errdetail("With room for a few events only, those for a broker that does not "
                           "answer hold up all others."),
                 errhint("Raise it, unless events are small.")));
}

void
configure_engine()
{
    relay.parts->engine.configure({settings.max_attempts, settings.on_failure == kBlock,
                                   settings.backoff_initial_ms, settings.backoff_max_ms});
}

// Whether the settings that routes fall back to are other ones than at the last call. What is in
// flight need not come home for a reload of others.
bool
have_route_settings_changed()
{
    static char *known = nullptr;
    const MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
    char *now = psprintf("%d %s %s", settings.headers_format, settings.topic_template,
                         settings.cloudevents_source);
    (void) MemoryContextSwitchTo(before);
    const bool changed = known == nullptr || strcmp(known, now) != 0;
    if (known != nullptr)
        pfree(known);
    known = now;
    return changed;
}

// Whether a sink can be made from `setup`; or that there is to be none.
bool
is_good(const SinkSetup *setup, Failure *why)
{
    if (setup == nullptr)
        return false;
    if (!is_configured())
        return true;
    bool good = false;
    call_cpp(
        [&]
        {
            const int oversized = relay.parts->engine.publisher().oversized_batches();
            const std::unique_ptr<Destination> destination = setup->make(*why);
            good = destination != nullptr &&
                   destination->open(Destination::Use::stream, oversized, *why) != nullptr;
        });
    return good;
}

} // namespace

std::size_t
max_events_in_flight()
{
    return static_cast<std::size_t>(std::max(settings.max_in_flight, kLeastInFlight));
}

char *
read_database_settings(const char *before, bool *undone)
{
    constexpr const char *kSelect =
        "with s as (select coalesce((select s.setconfig from pg_db_role_setting s "
        "  join pg_database d on d.oid = s.setdatabase "
        "  where d.datname = current_database() and s.setrole = 0), '{}') as now) "
        "select s.now::text, exists (select from unnest($1::text[]) b "
        "  where not exists (select from unnest(s.now) n "
        "    where split_part(n, '=', 1) = split_part(b, '=', 1))) "
        "from s";
    spi_connect();
    Oid types[] = {TEXTOID};
    Datum values[] = {CStringGetTextDatum(before != nullptr ? before : "{}")};
    spi_execute(kSelect, 1, types, values, SPI_OK_SELECT);
    if (undone != nullptr)
        *undone = DatumGetBool(spi_first(2));
    char *text = MemoryContextStrdup(TopMemoryContext, spi_first_text(1));
    SPI_finish();
    return text;
}

void
connect_sink()
{
    configure_engine();
    (void) have_route_settings_changed(); // the engine reads all at first
    Parts &parts = *relay.parts;
    parts.destination.set_title(relay.kind->title);
    set_activity_destination(relay.kind->title);
    Failure why;
    StartTransactionCommand();
    if (takes_nothing())
    {
        relay.holds_default = holds_default(&why);
        CommitTransactionCommand();
        relay.state = RelayState::detached;
        if (relay.holds_default)
            report_config_error(why); // and removes nothing
        return;
    }
    read_setup(&parts.setup, &why);
    const bool configured = is_configured();
    CommitTransactionCommand();
    log_warnings();
    warn_of_few_events();
    bool usable = parts.setup != nullptr;
    if (usable)
    {
        limit_records(parts.setup->max_record_bytes());
        if (configured)
            call_cpp([&] { parts.destination.use(parts.setup->make(why)); });
        usable = !configured || parts.destination.is_there();
    }
    relay.state = relay.holds_default ? RelayState::config_error
                  : !configured       ? RelayState::not_configured
                  : usable            ? RelayState::running
                                      : RelayState::config_error;
    if (usable)
        return;
    report_config_error(why);
    retry_later();
}

void
check_connection()
{
    Failure why;
    if (!relay.parts->destination.take_stream_failure(why))
        return;
    relay.state = RelayState::config_error;
    report_config_error(why);
    retry_later();
}

void
reload_settings()
{
    ProcessConfigFile(PGC_SIGHUP);
    const bool held = relay.holds_default;
    // It does not hear whether what was refused is corrected.
    if (held && has_dropped_own_settings())
    {
        relay.restart = true;
        return;
    }
    begin_transaction();
    apply_database_settings();
    if (relay.options != nullptr)
        apply_subscription_options(*relay.kind,
                                   relay.options); // the database's may have come over them
    bool undone = false;
    char *database_settings = read_database_settings(relay.applied_settings, &undone);
    const bool changed_there =
        strcmp(database_settings, relay.database_settings) != 0 || has_dropped_own_settings();
    if (relay.applied_settings != relay.database_settings)
        pfree(relay.applied_settings);
    relay.applied_settings = database_settings;
    static std::unique_ptr<SinkSetup> setup;
    Failure why;
    const bool needs_none = takes_nothing();
    if (needs_none)
        relay.holds_default = holds_default(&why);
    else
        read_setup(&setup, &why);
    const bool usable = setup != nullptr;
    end_transaction();

    // What the database has refused leaves what it had before; what else is refused, the default.
    if (relay.holds_default && !held && refused_of_database() != nullptr)
        relay.holds_default = false;
    else if (relay.holds_default && !held)
    {
        relay.restart = true;
        return;
    }
    configure_engine();
    if (have_route_settings_changed())
        relay.parts->engine.routes_changed();
    const bool same = needs_none || (usable && relay.parts->setup != nullptr &&
                                     setup->equals(*relay.parts->setup));
    if (same && !changed_there && relay.config_error[0] == '\0')
        return;
    // What holds instead of a setting that was reset, only a new process finds out.
    if (needs_none || is_good(setup.get(), &why) || undone)
    {
        relay.restart = true;
        return;
    }
    retries.succeed();
    relay.config_error[0] = '\0'; // so that it is logged in any case
    report_config_error(why);
    retry_later();
}

long
retry_settings()
{
    if (retry_at == 0)
        return -1;
    const std::int64_t left_us = retry_at - steady_now();
    if (left_us > 0)
        return static_cast<long>(left_us / 1000) + 1;
    static std::unique_ptr<SinkSetup> setup;
    Failure why;
    StartTransactionCommand();
    read_setup(&setup, &why);
    CommitTransactionCommand();
    if (is_good(setup.get(), &why))
    {
        ereport(LOG, (errmsg("%s: %s is usable now", relay_title(), configuration_of_sink())));
        relay.restart = true;
        return 0;
    }
    report_config_error(why);
    retry_later();
    return static_cast<long>((retry_at - steady_now()) / 1000) + 1;
}

} // namespace outbox
