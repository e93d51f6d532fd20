// The extension's settings (pg_settings: outbox.*).
#pragma once

#include "for_relay.h"

namespace outbox
{

enum OnFailure : int
{
    kBlock, // later events of the same topic and key wait
    kSkip   // they flow
};

// Plain variables that PostgreSQL's GUC machinery writes; strings are never null after
// define_settings().
struct Settings
{
    char *bootstrap_servers;
    char *kafka_config;
    char *kafka_config_file;
    char *topic_template;
    char *cloudevents_source; // empty: from the database's name
    char *webhook_deny_networks;
    int headers_format; // HeadersFormat of extension/core/cloudevents.h
    int backoff_initial_ms;
    int backoff_max_ms;
    int max_in_flight;
    int max_in_flight_kb;
    int max_attempts;
    int on_failure; // OnFailure
    int max_event_bytes;
    int max_backlog_events; // 0: no limit
    int lag_warning_s;      // 0: never
    int max_response_bytes;
    int processed_retention_s; // 0: for ever
    int retention_s;           // of published events; 0: for ever
    bool serialize_keys;
    bool guard_durability;
    int max_databases; // at most kMaxDatabases
};

OUTBOX_FOR_RELAY extern Settings settings;

// Registers every setting; called once from _PG_init.
void define_settings();

class TopicTemplate;

// The compiled form of outbox.topic_template.
OUTBOX_FOR_RELAY const TopicTemplate &topic_template();

} // namespace outbox
