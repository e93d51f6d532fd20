// How the relay takes up its settings, at its start and after SIGHUP.

#include "relay.h"

#include "guard.h"
#include "short_transaction.h"

#include "../extension/settings.h"

extern "C"
{
#include "catalog/pg_db_role_setting.h"
}

namespace outbox
{

namespace
{

void
apply_database_settings()
{
    Relation relation = table_open(DbRoleSettingRelationId, AccessShareLock);
    ApplySetting(GetActiveSnapshot(), MyDatabaseId, InvalidOid, relation, PGC_S_DATABASE);
    table_close(relation, AccessShareLock);
}

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

// A failed attempt is logged once and stays in relay_status until a configuration is good.
void
note_config_error(const kafka::Failure &why)
{
    snprintf(relay.config_error, sizeof(relay.config_error), "%s%s%s", why.text,
             why.hint[0] != '\0' ? "; " : "", why.hint);
    ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                      errmsg("outbox relay: the Kafka configuration is not usable: %s", why.text),
                      why.hint[0] != '\0' ? errhint("%s", why.hint) : 0));
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
    if (producer == nullptr)
        note_config_error(why);
}

} // namespace

char *
read_database_settings()
{
    char *text = nullptr;
    if (SPI_connect() != SPI_OK_CONNECT ||
        SPI_execute("select s.setconfig::text from pg_catalog.pg_db_role_setting s "
                    "join pg_catalog.pg_database d on d.oid operator(pg_catalog.=) s.setdatabase "
                    "where d.datname operator(pg_catalog.=) pg_catalog.current_database() "
                    "and s.setrole operator(pg_catalog.=) 0",
                    true, 1) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("outbox relay: could not read the settings of the database")));
    if (SPI_processed == 1)
        text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
    text = MemoryContextStrdup(TopMemoryContext, text != nullptr ? text : "");
    SPI_finish();
    return text;
}

void
connect_kafka()
{
    configure_publisher();
    StartTransactionCommand();
    kafka::Failure why;
    const bool usable = read_setup(relay.setup, &why);
    CommitTransactionCommand();
    if (settings.bootstrap_servers[0] == '\0')
        relay.state = RelayState::not_configured;
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
    char *database_settings = read_database_settings();
    const bool changed_there = strcmp(database_settings, relay.database_settings) != 0;
    static KafkaSetup setup;
    kafka::Failure why;
    const bool usable = read_setup(&setup, &why);
    end_transaction();

    configure_publisher();
    relay.publisher->reload_routes();
    const bool same = usable && setup == *relay.setup;
    if (same && !changed_there && relay.config_error[0] == '\0')
    {
        pfree(database_settings);
        return;
    }
    bool good = usable;
    if (usable && settings.bootstrap_servers[0] != '\0')
    {
        kafka::Producer *trial = try_create_producer(&setup, &why);
        good = trial != nullptr;
        delete trial;
    }
    pfree(database_settings);
    if (good)
        relay.restart = true;
    else
        note_config_error(why);
}

} // namespace outbox
