// How the relay reads its settings: at its start, after SIGHUP, and after a failure.

#include <algorithm>

#include "bgworker/engine/common/backoff.h"

#include "relay.h"

#include "session.h"

#include "bgworker/guard.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/core/kafka_config.h"
#include "extension/core/steady.h"
#include "extension/shared/settings.h"

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

// Reads the settings into `setup`. On failure `why` says what is wrong with them.
bool
read_setup(KafkaSetup *setup, Failure *why)
{
    bool usable = false;
    const char *database = get_database_name(MyDatabaseId);
    call_cpp(
        [&]
        {
            setup->bootstrap_servers = settings.bootstrap_servers;
            setup->client_id = std::string("outbox-") + (database != nullptr ? database : "");
            setup->backoff_initial_ms = settings.backoff_initial_ms;
            setup->backoff_max_ms = settings.backoff_max_ms;
            setup->max_messages = max_events_in_flight();
            setup->max_bytes = static_cast<std::size_t>(settings.max_in_flight_kb) * 1024;
            setup->max_event_bytes = static_cast<std::size_t>(settings.max_event_bytes);
            usable = read_properties(DataDir, settings.kafka_config_file, settings.kafka_config,
                                     *setup, *why);
        });
    return usable;
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
        ereport(WARNING,
                (errcode(ERRCODE_CONFIG_FILE_ERROR),
                 errmsg("%s: the Kafka configuration is not usable: %s", relay_title(), why.text),
                 why.hint[0] != '\0' ? errhint("%s", why.hint) : 0));
    char text[sizeof(problem) + 64];
    snprintf(text, sizeof(text), "the Kafka configuration is not usable: %s", problem);
    set_last_error(text);
}

void
retry_later()
{
    retries.configure(kFirstRetryMs * 2, kLongestRetryMs); // a wait is half of it at least
    retry_at = steady_now() + retries.fail(random_bits()) * 1000;
}

// Version 0.2 took them there.
void
warn_of_secrets()
{
    Verdict verdict;
    call_cpp([&]
             { verdict = check_no_secrets(parse_config_pairs(settings.kafka_config).properties); });
    if (!verdict.ok)
        ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                          errmsg("%s: outbox.kafka_config: %s", relay_title(), verdict.reason),
                          errhint("%s", verdict.hint)));
}

// Up to 0.2 they counted.
void
warn_of_many_requests(const KafkaSetup &setup)
{
    bool wanted = false;
    call_cpp([&] { wanted = wants_many_requests(setup); });
    if (wanted)
        ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                          errmsg("%s: max.in.flight counts as 1", relay_title()),
                          errdetail("With more, events could overtake a batch that Kafka refuses, "
                                    "and be lost."),
                          errhint("Remove it from outbox.kafka_config and "
                                  "outbox.kafka_config_file.")));
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

// Whether a producer can be made from `setup`; or that there is to be none.
bool
is_good(const KafkaSetup &setup, Failure *why)
{
    if (settings.bootstrap_servers[0] == '\0')
        return true;
    bool good = false;
    call_cpp(
        [&]
        {
            const int oversized = relay.parts->engine.publisher().oversized_batches();
            const int fd = relay.parts->destination.wake_fd(Destination::Use::stream);
            good = std::unique_ptr<Sink>(create_producer(setup, oversized, fd, *why)) != nullptr;
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
connect_kafka()
{
    configure_engine();
    (void) have_route_settings_changed(); // the engine reads all at first
    warn_of_secrets();
    StartTransactionCommand();
    KafkaSetup &setup = relay.parts->setup;
    Failure why;
    const bool usable = read_setup(&setup, &why);
    CommitTransactionCommand();
    warn_of_many_requests(setup);
    warn_of_few_events();
    limit_records(max_message_bytes(setup));
    const bool configured = settings.bootstrap_servers[0] != '\0';
    relay.state = !configured ? RelayState::not_configured
                  : usable    ? RelayState::running
                              : RelayState::config_error;
    relay.parts->destination.enable(configured && usable);
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
    begin_transaction();
    apply_database_settings();
    if (relay.options != nullptr)
        apply_subscription_options(relay.options); // the database's may have come over them
    bool undone = false;
    char *database_settings = read_database_settings(relay.applied_settings, &undone);
    const bool changed_there =
        strcmp(database_settings, relay.database_settings) != 0 || has_dropped_own_settings();
    if (relay.applied_settings != relay.database_settings)
        pfree(relay.applied_settings);
    relay.applied_settings = database_settings;
    static KafkaSetup setup;
    Failure why;
    const bool usable = read_setup(&setup, &why);
    end_transaction();

    configure_engine();
    if (have_route_settings_changed())
        relay.parts->engine.routes_changed();
    const bool same = usable && setup == relay.parts->setup;
    if (same && !changed_there && relay.config_error[0] == '\0')
        return;
    // What holds instead of a setting that was reset, only a new process finds out.
    if ((usable && is_good(setup, &why)) || undone)
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
    static KafkaSetup setup;
    Failure why;
    StartTransactionCommand();
    const bool usable = read_setup(&setup, &why);
    CommitTransactionCommand();
    if (usable && is_good(setup, &why))
    {
        ereport(LOG, (errmsg("%s: the Kafka configuration is usable now", relay_title())));
        relay.restart = true;
        return 0;
    }
    report_config_error(why);
    retry_later();
    return static_cast<long>((retry_at - steady_now()) / 1000) + 1;
}

} // namespace outbox
