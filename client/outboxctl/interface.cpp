#include "interface.h"

#include "conninfo.h"
#include "documents.h"
#include "errors.h"
#include "option_kinds.h"
#include "texts.h"

#include <utility>

namespace outbox::ctl
{

namespace
{

constexpr const char *kSetAsideBy =
    "What this subscription has set aside, instead of the default one.";
constexpr const char *kInsteadOfDefault = "Of this subscription, instead of the default one.";

void
add_kafka_options(CLI::App *app, KafkaOptions &options)
{
    text(app, "--bootstrap", options.bootstrap,
         "Kafka brokers, host:port[,host:port...], instead of those of outbox.bootstrap_servers.",
         "LIST");
    text(app, "--kafka-config", options.config_file,
         "File with librdkafka properties, one name=value per line, instead of "
         "outbox.kafka_config_file, which is on the server and may not be readable from here.",
         "FILE");
    repeated(
        app, "-X,--property", options.properties,
        "A librdkafka property, for example security.protocol=SSL; wins over all others. May be "
        "repeated.",
        "NAME=VALUE");
}

void
add_watching(Interface &interface, CLI::App *root)
{
    Options &options = interface.options;
    CLI::App *status = command(
        interface, root, "status", "What the relay does, how far it is behind, what failed.",
        [&](const Context &context) { return run_status(context, options.status); });
    CLI::Option *watch =
        status->add_flag("-w,--watch", options.status.watch,
                         "Show it again and again until Ctrl-C or q. With --json, and when the "
                         "output is no terminal: one line each time.");
    duration(status, "-i,--interval", options.status.interval,
             "Time between two updates with --watch, 1 s unless given.")
        ->needs(watch);
    CLI::Option *one = add_subscription_option(status, options.status.subscription,
                                               "Only this subscription, and more of it.");
    watch->excludes(one);

    CLI::App *lag = command(interface, root, "lag",
                            "How much is not yet published, how fast it goes, and what waits.",
                            [&](const Context &context) { return run_lag(context, options.lag); });
    duration(lag, "--sample", options.lag.sample,
             "How long to measure the rates, 1 s unless given; 0 leaves them out.");
}

void
add_emit(Interface &interface, CLI::App *root)
{
    EmitOptions &options = interface.options.emit;
    CLI::App *emit = command(interface, root, "emit",
                             "Emit an event in a transaction of its own, and print its id.",
                             [&](const Context &context) { return run_emit(context, options); });
    text(emit, "AGGREGATE_TYPE", options.aggregate_type,
         "Type of what the event is about; it names the topic.", "TEXT")
        ->required();
    text(emit, "AGGREGATE_ID", options.aggregate_id, "Which one of it; the Kafka key.", "TEXT")
        ->required();
    text(emit, "EVENT_TYPE", options.event_type, "What happened.", "TEXT")->required();
    CLI::Option *payload =
        text(emit, "PAYLOAD", options.payload, "JSON; - reads it from standard input.", "TEXT");
    CLI::Option *file = text(emit, "-f,--file", options.file,
                             "Read the payload from this file; - is standard input.", "FILE")
                            ->excludes(payload);
    CLI::Option *tombstone =
        emit->add_flag("--tombstone", options.tombstone, "Emit an event without a payload.")
            ->excludes(payload)
            ->excludes(file);
    emit->add_flag("--bytes", options.bytes,
                   "The payload is not JSON, and sent byte by byte as it is.")
        ->excludes(tombstone);
    repeated(emit, "-H,--header", options.headers, "A header of the record. May be repeated.",
             "NAME=VALUE");
    text(emit, "-k,--key", options.key, "Kafka key instead of AGGREGATE_ID.", "TEXT");
    text(emit, "--id", options.id, "The event's id; a new UUIDv7 unless given.", "UUID");
    number(emit, "--schema-version", options.schema_version, 2147483647,
           "Version of the payload's schema.");
    duration(emit, "--wait", options.wait,
             "Wait until the event is published, at most this long; the exit code is 4 when it "
             "was not.");
}

void
add_tail(Interface &interface, CLI::App *root)
{
    TailOptions &options = interface.options.tail;
    CLI::App *tail =
        command(interface, root, "tail", "Follow events as they are published, from Kafka.",
                [&](const Context &context) { return run_tail(context, options); });
    repeated(tail, "-t,--topic", options.topics,
             "Follow this topic; may be repeated. Otherwise every topic that outbox.topic_template "
             "can name, also those that come into being later.",
             "TOPIC");
    tail->add_flag("-b,--from-beginning", options.from_beginning,
                   "Show what the topics hold already, and then follow.");
    number(tail, "-n,--count", options.count, 2147483647, "End after so many events.");
    add_subscription_option(tail, options.kafka.subscription,
                            "What this subscription sends, in the Kafka that it sends to. For "
                            "superusers: its options say where that is.");
    add_kafka_options(tail, options.kafka);
}

void
add_selection(CLI::App *app, FailedOptions &options)
{
    text(app, "--type", options.aggregate_type, "Only of this aggregate type.", "TEXT");
    text(app, "--event-type", options.event_type, "Only of this event type.", "TEXT");
    duration(app, "--since", options.since, "Only those first refused within this time, say 2h.");
}

void
add_failed(Interface &interface, CLI::App *root)
{
    FailedOptions &options = interface.options.failed;
    CLI::App *failed =
        command(interface, root, "failed",
                "Events that Kafka refused: list, show, retry or discard them.", nullptr);
    failed->require_subcommand(1);

    CLI::App *list =
        command(interface, failed, "list", "List events that Kafka refused, oldest first.",
                [&](const Context &context) { return run_failed_list(context, options); });
    choice(interface, list, "--state", options.state,
           {"failed", "retrying", "waiting", "discarded", "all"},
           "failed (the default): given up; retrying: refused and tried again; waiting: behind "
           "one of these; discarded; all. Others than failed need the right to read "
           "outbox.deliveries.",
           "STATE");
    add_selection(list, options);
    add_subscription_option(list, options.subscription,
                            "Only what this subscription has set aside; that of all unless given.");
    number(list, "--limit", options.limit, 100000, "Show at most so many, 50 unless given.");

    CLI::App *show =
        command(interface, failed, "show", "Show everything about events.",
                [&](const Context &context) { return run_failed_show(context, options); });
    texts(show, "ID", options.ids, "Ids of events.", "UUID")->required();
    add_subscription_option(show, options.subscription,
                            "What became of them in this subscription.");

    CLI::App *retry = command(
        interface, failed, "retry",
        "Try failed events again at once. Those that are chosen by type or age are counted first, "
        "and you are asked.",
        [&](const Context &context) { return run_failed_retry(context, options); });
    texts(retry, "ID", options.ids, "Ids of events.", "UUID");
    retry->add_flag("--all", options.all, "All that have failed.");
    add_selection(retry, options);
    add_subscription_option(retry, options.subscription, kSetAsideBy);
    retry->add_flag("-y,--yes", options.yes, "Do not ask.");

    CLI::App *discard = command(
        interface, failed, "discard", "Give events up for good; what waits behind them flows.",
        [&](const Context &context) { return run_failed_discard(context, options); });
    texts(discard, "ID", options.ids, "Ids of events.", "UUID")->required();
    add_subscription_option(discard, options.subscription, kSetAsideBy);
    text(discard, "-r,--reason", options.reason, "Why; it is kept with the event.", "TEXT")
        ->required();
}

void
add_replay(Interface &interface, CLI::App *root)
{
    ReplayOptions &options = interface.options.replay;
    CLI::App *replay =
        command(interface, root, "replay",
                "Publish events again that were published and are still kept. They are counted "
                "first, and you are asked; then it shows how far it is.",
                [&](const Context &context) { return run_replay(context, options); });
    text(replay, "--type", options.aggregate_type, "Only of this aggregate type.", "TEXT");
    text(replay, "--event-type", options.event_type, "Only of this event type.", "TEXT");
    text(replay, "--id", options.aggregate_id, "Only of this aggregate.", "TEXT");
    text(replay, "--since", options.since,
         "Only those created since then: an age, say 2h, or a time as PostgreSQL reads it, UTC.",
         "TIME");
    text(replay, "--until", options.until, "Only those created before then.", "TIME");
    number(replay, "--max", options.max_count, 1000000,
           "At most so many, the oldest; 1000 unless given.");
    number(replay, "--rate", options.rate, 10000, "So many a second; 100 unless given.");
    text(replay, "--topic", options.topic, "To this topic, instead of the one each belongs to.",
         "TOPIC");
    add_subscription_option(replay, options.subscription,
                            "By the relay of this subscription, to its Kafka: what it has passed "
                            "and takes.");
    CLI::Option *dry_run = replay->add_flag("--dry-run", options.dry_run, "Only count them.");
    replay->add_flag("-y,--yes", options.yes, "Do not ask.")->excludes(dry_run);
    replay
        ->add_flag("--detach", options.detach, "Print its id and end; the relay does it meanwhile.")
        ->excludes(dry_run);

    CLI::App *replays = command(interface, root, "replays", "List replays, cancel one.", nullptr);
    replays->require_subcommand(1);
    CLI::App *list =
        command(interface, replays, "list", "List replays and dry runs, the latest first.",
                [&](const Context &context) { return run_replays_list(context, options); });
    number(list, "--limit", options.limit, 1000, "Show at most so many, 20 unless given.");
    add_subscription_option(list, options.subscription, "Only those of this subscription.");
    CLI::App *cancel = command(
        interface, replays, "cancel", "End a replay; what it has published stays published.",
        [&](const Context &context) { return run_replays_cancel(context, options); });
    text(cancel, "ID", options.id, "Its id.", "UUID")->required();
}

void
add_operating(Interface &interface, CLI::App *root)
{
    Options &options = interface.options;
    CLI::App *pause =
        command(interface, root, "pause", "Stop publishing until resume; events are kept.",
                [&](const Context &context) { return run_pause(context, options.pause); });
    text(pause, "-r,--reason", options.pause.reason, "Why; kept with the pause.", "TEXT");
    add_subscription_option(pause, options.pause.subscription, kInsteadOfDefault);
    CLI::App *resume =
        command(interface, root, "resume", "Publish again.",
                [&](const Context &context) { return run_resume(context, options.pause); });
    add_subscription_option(resume, options.pause.subscription, kInsteadOfDefault);
    add_subscriptions(interface, root);

    CLI::App *doctor = command(
        interface, root, "doctor",
        "Check what is wrong with server, extension, rights, settings and Kafka, and say how "
        "to fix it.",
        [&](const Context &context) { return run_doctor(context, options.doctor); });
    text(doctor, "--role", options.doctor.role,
         "Check the rights of this role, instead of those of the one that connects.", "ROLE");
    add_kafka_options(doctor, options.doctor.kafka);
}

void
add_contracts(Interface &interface, CLI::App *root)
{
    ContractsOptions &options = interface.options.contracts;
    CLI::App *contracts =
        command(interface, root, "contracts",
                "Event contracts: what events mean, and the schemas of their payloads.", nullptr);
    contracts->require_subcommand(1);
    CLI::App *lint = command(
        interface, contracts, "lint",
        "Check a folder of event contracts: their form, their JSON Schemas, and that the examples "
        "conform to them. Needs no database.",
        [&](const Context &context) { return run_contracts_lint(context, options); });
    text(lint, "DIR", options.directory, "The folder, docs/events unless given.", "DIR");
}

// The man page is for the Makefile alone.
void
add_documents(Interface &interface, CLI::App *root)
{
    CLI::App *completion = command(interface, root, "completion",
                                   "Print a script that completes commands and options in bash.",
                                   [&](const Context &context)
                                   {
                                       context.output.line(bash_completion(interface));
                                       return kOk;
                                   });
    choice(interface, completion, "SHELL", interface.options.shell, {"bash"}, "bash.", "SHELL")
        ->required();
    command(interface, root, "man-page", "Print the man page.",
            [&](const Context &context)
            {
                context.output.line(man_page(interface));
                return kOk;
            })
        ->group("");
}

void
add_global_options(Interface &interface, CLI::App *root)
{
    Options &options = interface.options;
    text(root, "-d,--dbname", options.conninfo,
         "The database: a name, a connection string or a URI, as for psql. What it leaves out "
         "comes from PGHOST, PGPORT, PGUSER and so on.",
         "CONNINFO");
    root->add_flag("--json", options.json, "Print JSON, errors included (those on stderr).");
    choice(interface, root, "--color", options.colour, {"auto", "always", "never"},
           "Colours: auto (the default: on a terminal, unless NO_COLOR is set), always or never.",
           "WHEN");
    root->set_version_flag("--version", std::string("outboxctl ") + kVersion,
                           "Print the version and end.");
    root->set_help_flag("-h,--help", "Print this help and end.");
}

bool
visible(const CLI::Option *option)
{
    return !option->get_group().empty();
}

} // namespace

std::unique_ptr<Interface>
make_interface()
{
    auto interface = std::make_unique<Interface>();
    interface->app = std::make_unique<CLI::App>(kDescription, "outboxctl");
    CLI::App *root = interface->app.get();
    root->fallthrough(); // subcommands inherit it: options of all commands may come after them
    root->require_subcommand(1);
    root->formatter(std::make_shared<HelpFormatter>());
    add_global_options(*interface, root);
    add_watching(*interface, root);
    add_emit(*interface, root);
    add_tail(*interface, root);
    add_failed(*interface, root);
    add_replay(*interface, root);
    add_operating(*interface, root);
    add_contracts(*interface, root);
    add_documents(*interface, root);
    return interface;
}

std::string
full_name(const CLI::App *app)
{
    const CLI::App *parent = app->get_parent();
    return parent == nullptr ? app->get_name() : full_name(parent) + " " + app->get_name();
}

std::vector<const CLI::App *>
commands_of(const CLI::App *app)
{
    return app->get_subcommands([](const CLI::App *found) { return !found->get_group().empty(); });
}

std::vector<const CLI::Option *>
flags_of(const CLI::App *app)
{
    return app->get_options([](const CLI::Option *option)
                            { return visible(option) && !option->get_positional(); });
}

std::vector<const CLI::Option *>
arguments_of(const CLI::App *app)
{
    return app->get_options([](const CLI::Option *option)
                            { return visible(option) && option->get_positional(); });
}

std::string
value_name(const CLI::Option *option)
{
    return option->get_items_expected_max() == 0 ? "" : option->get_type_name();
}

} // namespace outbox::ctl
