#include "texts.h"

namespace outbox::ctl
{

const char *const kVersion = OUTBOX_VERSION;
const char *const kManualDate = "2026-11-21";
const char *const kSummary = "look after the transactional outbox of a PostgreSQL database";
const char *const kDescription =
    "Shows what the relay of a database does, emits and follows events, settles events that Kafka "
    "refused, replays published ones, pauses and resumes publishing, and checks for what is wrong.";

const std::vector<Explained> kExitCodes = {
    {"0", "done; for status --watch and tail also when Ctrl-C ended them"},
    {"1", "the server, Kafka or a file refused something; the message says what"},
    {"2", "wrong usage"},
    {"3", "no connection to the database, or it was lost"},
    {"4", "doctor or contracts found a problem; emit --wait: not published in time; replay: not "
          "all was replayed"},
    {"5", "the extension is not in this database or too old, or the role lacks a right"},
    {"130", "ended by Ctrl-C, SIGTERM or SIGHUP before all was done"},
    {"141", "the reader of the output is gone"},
};

const std::vector<Explained> kEnvironment = {
    {"PGHOST, PGPORT, PGUSER, PGDATABASE, PGPASSWORD, PGSERVICE, ...",
     "where and how to connect, as for psql; ~/.pgpass and the service file work too"},
    {"NO_COLOR", "when set to anything, there are no colours unless --color=always is given"},
};

const std::vector<Explained> kExamples = {
    {"outboxctl -d shop status --watch", "what the relay does, once a second"},
    {"outboxctl emit order 42 order.paid '{\"amount\": 25}' --wait 5",
     "emits an event and waits until it is published"},
    {"outboxctl tail --topic outbox.event.order -n 10", "the next ten events of a topic"},
    {"outboxctl failed list", "events that Kafka refused, and why"},
    {"outboxctl failed retry --type order", "tries those of one type again"},
    {"outboxctl subscriptions list", "what else gets the events, besides outbox.bootstrap_servers"},
    {"outboxctl replay --type order --since 2h", "publishes those of two hours once more"},
    {"outboxctl doctor", "what is wrong, and how to fix it"},
    {"outboxctl contracts lint docs/events", "what is wrong with the event contracts there"},
    {"outboxctl --json status | jq .backlog_events", "for scripts"},
};

} // namespace outbox::ctl
