// The command line's tree: subscriptions.
#include "option_kinds.h"

namespace outbox::ctl
{

namespace
{

void
add_name(CLI::App *app, SubscriptionsOptions &options)
{
    text(app, "NAME", options.name, "Its name.", "NAME")->required();
}

void
add_values(CLI::App *app, SubscriptionsOptions &options)
{
    repeated(app, "-o,--option", options.settings,
             "An option: a setting of outbox by its name without the prefix, for example "
             "bootstrap_servers=host:9092. May be repeated. Passwords belong into the file of "
             "kafka_config_file.",
             "NAME=VALUE");
    text(app, "--options", options.options, "Options as a JSON object; --option wins.", "JSON");
}

} // namespace

CLI::Option *
add_subscription_option(CLI::App *app, std::optional<std::string> &target,
                        const std::string &description)
{
    return text(app, "--subscription", target, description, "NAME");
}

void
add_subscriptions(Interface &interface, CLI::App *root)
{
    SubscriptionsOptions &options = interface.options.subscriptions;
    CLI::App *subscriptions = command(interface, root, "subscriptions",
                                      "Readers of the events besides the default one: list, "
                                      "create, alter, attach, detach or drop them.",
                                      nullptr);
    subscriptions->require_subcommand(1);
    command(interface, subscriptions, "list", "List subscriptions, their state and what is wrong.",
            [](const Context &context) { return run_subscriptions_list(context); });

    CLI::App *create = command(
        interface, subscriptions, "create", "Send events to one more place. Superusers only.",
        [&](const Context &context) { return run_subscriptions_create(context, options); });
    add_name(create, options);
    add_values(create, options);
    text(create, "--sink", options.sink,
         "Where to: kafka, the default, or another one of outbox.sinks().", "SINK");
    repeated(create, "--type", options.aggregate_types,
             "Only events of this aggregate type; an end of * stands for whatever follows. May be "
             "repeated.",
             "TEXT");
    repeated(create, "--event-type", options.event_types, "The same for the type of the event.",
             "TEXT");
    choice(interface, create, "--start", options.start, {"now", "retained"},
           "now (the default): what commits from then on; retained: all that is still kept.",
           "WHEN");

    CLI::App *alter =
        command(interface, subscriptions, "alter",
                "Give it other options, all of them; it continues where it is. Superusers only.",
                [&](const Context &context) { return run_subscriptions_alter(context, options); });
    add_name(alter, options);
    add_values(alter, options);

    CLI::App *attach = command(
        interface, subscriptions, "attach", "Let one continue that was detached. Superusers only.",
        [&](const Context &context) { return run_subscriptions_attach(context, options); });
    add_name(attach, options);
    choice(interface, attach, "--start", options.start, {"now", "retained"},
           "retained: where it stopped, with what is still kept; now: with what commits from now "
           "on.",
           "WHEN")
        ->required();

    CLI::App *detach = command(
        interface, subscriptions, "detach",
        "Let one send nothing and hold nothing back, until it is attached; default too, where "
        "there is no Kafka. You are asked. Superusers only.",
        [&](const Context &context) { return run_subscriptions_detach(context, options); });
    add_name(detach, options);
    detach->add_flag("-y,--yes", options.yes, "Do not ask.");

    CLI::App *drop =
        command(interface, subscriptions, "drop",
                "End it, with its position, its replays and what it has set aside. You are asked. "
                "Superusers only.",
                [&](const Context &context) { return run_subscriptions_drop(context, options); });
    add_name(drop, options);
    drop->add_flag("-y,--yes", options.yes, "Do not ask.");
}

} // namespace outbox::ctl
