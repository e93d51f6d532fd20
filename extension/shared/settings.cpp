#include "settings.h"

#include "extension/core/bootstrap_servers.h"
#include "extension/core/cloudevents.h"
#include "extension/core/kafka_config.h"
#include "extension/core/kafka_properties.h"
#include "extension/core/networks.h"
#include "extension/core/topic_template.h"

#include "refused_settings.h"
#include "shared_state.h"

#include "extension/server/hidden_statements.h"
#include "extension/server/pg_settings.h"

extern "C"
{
#include "access/parallel.h"
}

namespace outbox
{

Settings settings;

namespace
{

TopicTemplate compiled_template;
bool being_defined; // what the configuration file or the like says is taken in

// Reports a refused value through the GUC machinery. The message replaces PostgreSQL's own, which
// would print the whole value, passwords included. `subject` begins the sentence that the verdict
// ends.
bool
refuse_value(const char *name, const char *subject, const Verdict &verdict)
{
    GUC_check_errcode(ERRCODE_INVALID_PARAMETER_VALUE);
    GUC_check_errmsg("invalid value for parameter \"%s\"", name);
    GUC_check_errdetail("%s %s.", subject, verdict.reason);
    if (verdict.hint[0] != '\0')
        GUC_check_errhint("%s", verdict.hint);
    return false;
}

bool
check_bootstrap(char **value, void **, GucSource)
{
    const Verdict verdict = check_bootstrap_servers(*value);
    return verdict.ok || refuse_value("outbox.bootstrap_servers", "The list", verdict);
}

bool
check_topic_template(char **value, void **, GucSource)
{
    const Verdict verdict = check_template(*value);
    return verdict.ok || refuse_value("outbox.topic_template", "The template", verdict);
}

bool
check_cloudevents_source(char **value, void **, GucSource)
{
    const Verdict verdict = check_source(*value);
    return verdict.ok || refuse_value("outbox.cloudevents_source", "The source", verdict);
}

void
assign_topic_template(const char *value, void *)
{
    // The check hook has accepted this very text.
    (void) compiled_template.compile(value);
}

Verdict
verdict_on_networks(const char *text)
{
    try
    {
        return Networks().parse(text);
    }
    catch (...)
    {
        return refuse("", "does not fit in memory");
    }
}

bool
check_deny_networks(char **value, void **, GucSource)
{
    const Verdict verdict = verdict_on_networks(*value);
    return verdict.ok || refuse_value("outbox.webhook_deny_networks", "In the list", verdict);
}

// Nothing here may raise a PostgreSQL error while the parsed list is alive; the verdict is plain.
Verdict
verdict_on_pairs(const char *text, const char **subject)
{
    try
    {
        const ParsedConfig parsed = parse_config_pairs(text);
        *subject = parsed.verdict.ok ? "The" : "The text";
        return parsed.verdict.ok ? check_properties(parsed.properties) : parsed.verdict;
    }
    catch (...)
    {
        *subject = "The text";
        return refuse("", "does not fit in memory");
    }
}

Verdict
verdict_on_secrets(const char *text)
{
    try
    {
        return check_no_secrets(parse_config_pairs(text).properties);
    }
    catch (...)
    {
        return refuse("", "does not fit in memory");
    }
}

// PostgreSQL writes a setting that changes into its log, and what ALTER DATABASE sets where
// everybody reads it. So nobody gives a secret here any more. What was there before 0.2.1 stays in
// force, so that no update takes a relay's password away; the relay warns of it.
bool
may_hold_secret(const char *value, GucSource source)
{
    switch (source)
    {
    case PGC_S_GLOBAL: // a session begins, or the relay's
    case PGC_S_DATABASE:
    case PGC_S_USER:
    case PGC_S_DATABASE_USER:
    case PGC_S_OVERRIDE:
        return true;
    default:
        return being_defined || IsBinaryUpgrade || InitializingParallelWorker ||
               (settings.kafka_config != nullptr && strcmp(settings.kafka_config, value) == 0);
    }
}

bool
check_kafka_config(char **value, void **, GucSource source)
{
    const char *subject = "";
    Verdict verdict = verdict_on_pairs(*value, &subject);
    if (verdict.ok && !may_hold_secret(*value, source))
        verdict = verdict_on_secrets(*value);
    if (verdict.ok)
        return true;
    // It may be a secret all the same when it could not be read, or was refused for something else.
    hide_statement_about("outbox.kafka_config");
    return refuse_value("outbox.kafka_config", subject, verdict);
}

// A longest backoff below the shortest is taken as equal to it where it is used: the two settings
// may be changed in any order.
void
define_kafka_settings()
{
    DefineCustomStringVariable(
        "outbox.bootstrap_servers", "Kafka brokers to publish to, as host:port[,host:port...].",
        "While it is empty the relay is idle and events wait.", &settings.bootstrap_servers, "",
        PGC_SUSET, 0, check_bootstrap, nullptr, nullptr);
    DefineCustomStringVariable(
        "outbox.kafka_config", "librdkafka properties, as name=value name2='another value'.",
        "Passwords and other secrets are refused here; they belong in the file of "
        "outbox.kafka_config_file.",
        &settings.kafka_config, "", PGC_SUSET, GUC_SUPERUSER_ONLY, check_kafka_config, nullptr,
        nullptr);
    DefineCustomStringVariable(
        "outbox.kafka_config_file",
        "File with librdkafka properties, one name=value per line; a relative path starts at the "
        "data directory.",
        "outbox.kafka_config overrides it.", &settings.kafka_config_file, "", PGC_SUSET,
        GUC_SUPERUSER_ONLY, nullptr, nullptr, nullptr);
    DefineCustomStringVariable("outbox.topic_template",
                               "Kafka topic of an event; {aggregate_type} and {event_type} are "
                               "replaced.",
                               nullptr, &settings.topic_template, "outbox.event.{aggregate_type}",
                               PGC_SUSET, 0, check_topic_template, assign_topic_template, nullptr);
}

void
define_webhook_settings()
{
    DefineCustomStringVariable(
        "outbox.webhook_deny_networks", "Networks that no webhook is sent to.",
        "Addresses and address/length, separated by commas; the address that is really connected "
        "to counts.",
        &settings.webhook_deny_networks, "169.254.0.0/16, fe80::/10, fd00:ec2::254", PGC_SUSET, 0,
        check_deny_networks, nullptr, nullptr);
}

const config_enum_entry kHeadersFormatNames[] = {{"debezium", kDebezium, false},
                                                 {"cloudevents", kCloudEvents, false},
                                                 {"both", kBothHeaders, false},
                                                 {nullptr, 0, false}};

void
define_headers_settings()
{
    DefineCustomEnumVariable(
        "outbox.headers_format", "Which Kafka headers events get besides their own.",
        "debezium: those of Debezium's outbox event router; cloudevents: CloudEvents 1.0, binary "
        "content mode; both.",
        &settings.headers_format, kDebezium, kHeadersFormatNames, PGC_SUSET, 0, nullptr, nullptr,
        nullptr);
    DefineCustomStringVariable(
        "outbox.cloudevents_source", "The CloudEvents attribute source (header ce_source).",
        "A URI-reference. Empty: / and the name of the database.", &settings.cloudevents_source, "",
        PGC_SUSET, 0, check_cloudevents_source, nullptr, nullptr);
}

const config_enum_entry kOnFailureNames[] = {
    {"block", kBlock, false}, {"skip", kSkip, false}, {nullptr, 0, false}};

void
define_relay_settings()
{
    DefineCustomIntVariable(
        "outbox.max_attempts",
        "Number of attempts after which an event that Kafka refuses has FAILED.",
        "Attempts that fail because Kafka cannot be reached, or accepts nothing for a whole topic, "
        "do not count.",
        &settings.max_attempts, 10, 1, 1000, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomEnumVariable(
        "outbox.on_failure", "What happens to later events of a key when Kafka refuses one.",
        "block: they wait, in order, until it is retried or discarded; skip: they are published.",
        &settings.on_failure, kBlock, kOnFailureNames, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("outbox.backoff_initial",
                            "Pause before the first retry when Kafka cannot be reached.",
                            "Doubles with each failure, with jitter, up to outbox.backoff_max.",
                            &settings.backoff_initial_ms, 500, 10, 60 * 60 * 1000, PGC_SUSET,
                            GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("outbox.backoff_max", "Longest pause between two retries.", nullptr,
                            &settings.backoff_max_ms, 60 * 1000, 10, 60 * 60 * 1000, PGC_SUSET,
                            GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "outbox.lag_warning", "Age of the oldest unpublished event at which a warning is logged.",
        "It is logged once, until the age falls below half of it. 0 disables it.",
        &settings.lag_warning_s, 300, 0, INT_MAX, PGC_SUSET, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("outbox.max_in_flight",
                            "Maximum number of events handed to Kafka and not yet acknowledged.",
                            "Less than 100 counts as 100.", &settings.max_in_flight, 20000, 1,
                            1000000, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("outbox.max_in_flight_size",
                            "Maximum size of what is handed to Kafka and not yet acknowledged; a "
                            "larger event goes alone.",
                            nullptr, &settings.max_in_flight_kb, 32 * 1024, 64, 4 * 1024 * 1024,
                            PGC_SUSET, GUC_UNIT_KB, nullptr, nullptr, nullptr);
}

void
define_retention_settings()
{
    DefineCustomIntVariable(
        "outbox.retention", "How long events are kept after they have been published, at least.",
        "They are removed one partition at a time, up to a sixth of it later. 0 keeps all forever.",
        &settings.retention_s, 7 * 24 * 60 * 60, 0, INT_MAX, PGC_SUSET, GUC_UNIT_S, nullptr,
        nullptr, nullptr);
}

// Only tests set these: to see that they notice, and to reach the limit.
void
define_developer_settings()
{
    DefineCustomBoolVariable("outbox.guard_durability",
                             "Holds events back until their commit is safe on disk and on the "
                             "synchronous standbys.",
                             nullptr, &settings.guard_durability, true, PGC_SUSET,
                             GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, nullptr, nullptr, nullptr);
    settings.max_databases = kMaxDatabases;
    if (process_shared_preload_libraries_in_progress)
        DefineCustomIntVariable(
            "outbox.max_databases", "How many databases of the server can have a relay.", nullptr,
            &settings.max_databases, kMaxDatabases, 1, kMaxDatabases, PGC_POSTMASTER,
            GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, nullptr, nullptr, nullptr);
}

void
define_emit_settings()
{
    DefineCustomIntVariable(
        "outbox.max_event_size", "Maximum size of an event (payload, key and headers).",
        "Topics must accept it: see max.message.bytes of the topic and message.max.bytes of the "
        "broker.",
        &settings.max_event_bytes, 1000000, 1024, 256 * 1024 * 1024, PGC_SUSET, GUC_UNIT_BYTE,
        nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "outbox.max_backlog_events",
        "Committed events that may wait to be published before further ones are refused.",
        "emit() warns from 80 % of it on. 0 disables the limit.", &settings.max_backlog_events, 0,
        0, INT_MAX, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable(
        "outbox.serialize_keys",
        "Makes transactions that emit for the same key wait for each other.",
        "Then events of a key are in commit order even when the application does not lock what it "
        "changes before it emits.",
        &settings.serialize_keys, false, PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

void
define_idempotency_settings()
{
    DefineCustomIntVariable("outbox.max_response_size",
                            "Maximum size of a response (body, content type and headers) "
                            "that outbox.idempotency_complete() stores.",
                            nullptr, &settings.max_response_bytes, 1024 * 1024, 1024,
                            256 * 1024 * 1024, PGC_SUSET, GUC_UNIT_BYTE, nullptr, nullptr, nullptr);
    DefineCustomIntVariable(
        "outbox.processed_retention", "How long outbox.processed_events keeps an event.",
        "An event that arrives again later takes effect again: keep it longer than Kafka keeps "
        "the topics. 0 keeps all forever.",
        &settings.processed_retention_s, 7 * 24 * 60 * 60, 0, INT_MAX, PGC_SUSET, GUC_UNIT_S,
        nullptr, nullptr, nullptr);
}

} // namespace

void
define_settings()
{
    if (process_shared_preload_libraries_in_progress)
        note_given_settings();
    being_defined = true;
    define_kafka_settings();
    being_defined = false;
    define_headers_settings();
    define_webhook_settings();
    define_relay_settings();
    define_emit_settings();
    define_idempotency_settings();
    define_retention_settings();
    define_developer_settings();
    keep_refused_settings();
    reserve_setting_names("outbox");
}

const TopicTemplate &
topic_template()
{
    return compiled_template;
}

} // namespace outbox
