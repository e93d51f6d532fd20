// How the relay takes up its settings, at its start, after SIGHUP, and after a failure by itself.

#include "bgworker/core/backoff.h"

#include "relay.h"

#include "session.h"

#include "bgworker/guard.h"
#include "bgworker/short_transaction.h"
#include "bgworker/spi_call.h"

#include "extension/core/kafka_config.h"
#include "extension/core/steady.h"
#include "extension/settings.h"

namespace outbox
{

namespace
{

constexpr std::int64_t kFirstRetryMs = 1000;
constexpr std::int64_t kLongestRetryMs = 60 * 1000;

// What is in the way may go without a reload: a file that is being replaced, no thread or
// descriptor left.
Backoff retries;
std::int64_t retry_at = 0; // by the steady clock; 0: nothing is to be tried again

// Reads the settings into `setup`. On failure `why` says what is wrong with them.
bool
read_setup(KafkaSetup *setup, kafka::Failure *why)
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
            setup->max_messages = static_cast<std::size_t>(settings.max_in_flight);
            setup->max_bytes = static_cast<std::size_t>(settings.max_in_flight_kb) * 1024;
            setup->max_event_bytes = static_cast<std::size_t>(settings.max_event_bytes);
            usable = read_properties(DataDir, settings.kafka_config_file, settings.kafka_config,
                                     *setup, *why);
        });
    return usable;
}

// Stays in relay_status until a configuration is good; logged once.
void
note_config_error(const kafka::Failure &why)
{
    char problem[sizeof(relay.config_error)];
    snprintf(problem, sizeof(problem), "%s%s%s", why.text, why.hint[0] != '\0' ? "; " : "",
             why.hint);
    const bool known = strcmp(problem, relay.config_error) == 0;
    strlcpy(relay.config_error, problem, sizeof(relay.config_error));
    if (!known)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIG_FILE_ERROR),
                 errmsg("outbox relay: the Kafka configuration is not usable: %s", why.text),
                 why.hint[0] != '\0' ? errhint("%s", why.hint) : 0));
    char text[sizeof(problem) + 64];
    snprintf(text, sizeof(text), "the Kafka configuration is not usable: %s", problem);
    show_as_last_error(text);
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
                          errmsg("outbox relay: outbox.kafka_config: %s", verdict.reason),
                          errhint("%s", verdict.hint)));
}

// Up to 0.2 they counted.
void
warn_of_many_requests()
{
    bool wanted = false;
    call_cpp([&] { wanted = wants_many_requests(*relay.setup); });
    if (wanted)
        ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                          errmsg("outbox relay: max.in.flight counts as 1"),
                          errdetail("With more, events could overtake a batch that Kafka refuses, "
                                    "and be lost."),
                          errhint("Remove it from outbox.kafka_config and "
                                  "outbox.kafka_config_file.")));
}

kafka::Producer *
try_create_producer(const KafkaSetup *setup, kafka::Failure *why)
{
    kafka::Producer *producer = nullptr;
    const int oversized = relay.publisher->oversized_batches();
    call_cpp([&] { producer = create_producer(*setup, oversized, relay.wake_fd, *why); });
    return producer;
}

void
configure_publisher()
{
    relay.publisher->configure({settings.max_attempts, settings.on_failure == kBlock,
                                settings.backoff_initial_ms, settings.backoff_max_ms});
}

void
use_producer(kafka::Producer *producer, const kafka::Failure &why)
{
    relay.publisher->set_producer(producer);
    relay.state = producer != nullptr ? RelayState::running : RelayState::config_error;
    if (producer != nullptr)
        return;
    note_config_error(why);
    retry_later();
}

// Whether a producer can be made from `setup`; or that there is to be none.
bool
is_good(const KafkaSetup &setup, kafka::Failure *why)
{
    if (settings.bootstrap_servers[0] == '\0')
        return true;
    kafka::Producer *trial = try_create_producer(&setup, why);
    const bool good = trial != nullptr;
    delete trial;
    return good;
}

} // namespace

char *
read_database_settings(const char *before, bool *undone)
{
    constexpr const char *kSelect =
        "with s as (select coalesce((select s.setconfig from pg_catalog.pg_db_role_setting s "
        "  join pg_catalog.pg_database d on d.oid operator(pg_catalog.=) s.setdatabase "
        "  where d.datname operator(pg_catalog.=) pg_catalog.current_database() "
        "  and s.setrole operator(pg_catalog.=) 0), '{}') as now) "
        "select s.now::text, exists (select from pg_catalog.unnest($1::text[]) b "
        "  where not exists (select from pg_catalog.unnest(s.now) n "
        "    where pg_catalog.split_part(n, '=', 1) operator(pg_catalog.=) "
        "pg_catalog.split_part(b, '=', 1))) "
        "from s";
    spi_connect();
    Oid types[] = {TEXTOID};
    Datum values[] = {CStringGetTextDatum(before != nullptr ? before : "{}")};
    spi_execute(kSelect, 1, types, values, SPI_OK_SELECT);
    HeapTuple row = SPI_tuptable->vals[0];
    bool is_null;
    if (undone != nullptr)
        *undone = DatumGetBool(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &is_null));
    char *text = MemoryContextStrdup(TopMemoryContext, SPI_getvalue(row, SPI_tuptable->tupdesc, 1));
    SPI_finish();
    return text;
}

void
connect_kafka()
{
    configure_publisher();
    warn_of_secrets();
    StartTransactionCommand();
    kafka::Failure why;
    const bool usable = read_setup(relay.setup, &why);
    CommitTransactionCommand();
    warn_of_many_requests();
    limit_records(max_message_bytes(*relay.setup));
    if (settings.bootstrap_servers[0] == '\0')
    {
        relay.state = RelayState::not_configured;
        if (usable)
            return;
        note_config_error(why);
        retry_later();
    }
    else
        use_producer(usable ? try_create_producer(relay.setup, &why) : nullptr, why);
}

void
reconnect_kafka()
{
    kafka::Failure why;
    use_producer(try_create_producer(relay.setup, &why), why);
}

void
reload_settings()
{
    ProcessConfigFile(PGC_SIGHUP);
    begin_transaction();
    apply_database_settings();
    bool undone = false;
    char *database_settings = read_database_settings(relay.applied_settings, &undone);
    const bool changed_there =
        strcmp(database_settings, relay.database_settings) != 0 || has_dropped_own_settings();
    if (relay.applied_settings != relay.database_settings)
        pfree(relay.applied_settings);
    relay.applied_settings = database_settings;
    static KafkaSetup setup;
    kafka::Failure why;
    const bool usable = read_setup(&setup, &why);
    end_transaction();

    configure_publisher();
    relay.publisher->reload_routes();
    const bool same = usable && setup == *relay.setup;
    if (same && !changed_there && relay.config_error[0] == '\0')
        return;
    // What holds instead of a setting that was reset, only a new process finds out.
    if ((usable && is_good(setup, &why)) || undone)
    {
        relay.restart = true;
        return;
    }
    retries.succeed();
    relay.config_error[0] = '\0'; // told in any case
    note_config_error(why);
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
    kafka::Failure why;
    StartTransactionCommand();
    const bool usable = read_setup(&setup, &why);
    CommitTransactionCommand();
    if (usable && is_good(setup, &why))
    {
        ereport(LOG, (errmsg("outbox relay: the Kafka configuration is usable now")));
        relay.restart = true;
        return 0;
    }
    note_config_error(why);
    retry_later();
    return static_cast<long>((retry_at - steady_now()) / 1000) + 1;
}

} // namespace outbox
