// outboxctl subscriptions list, create, alter, attach, detach, drop
#include "commands.h"

#include "errors.h"
#include "standard_output.h"
#include "subscription_view.h"
#include "terminal.h"
#include "units.h"

#include "extension/core/secrets.h"
#include "extension/core/kafka_config.h"
#include "extension/core/kafka_properties.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

// Options for the server, and what of them must not be shown.
struct Given
{
    std::string json;
    Secrets secrets;

    std::string masked(const std::string &text) const
    {
        std::string copy = text + '\0';
        secrets.mask(copy.data());
        return copy.c_str(); // the text may have become shorter
    }
};

// The whole list too, as an error may quote it.
void
note_secrets(const std::string &kafka_config, Secrets &secrets)
{
    const ParsedConfig parsed = parse_config_pairs(kafka_config);
    bool any = !parsed.verdict.ok;
    for (const Property &property : parsed.properties)
        if (is_secret(property.name))
        {
            secrets.add(property.value);
            any = true;
        }
    if (any)
        secrets.add(kafka_config);
}

// Of --options and --option; the latter win. A text that is no JSON is not quoted.
Given
options_of(const SubscriptionsOptions &options)
{
    Json json = Json::object();
    if (options.options)
    {
        json = Json::parse(*options.options, nullptr, false);
        if (json.is_discarded() || !json.is_object())
            throw Error(kUsage, "--options is no JSON object",
                        "For example {\"bootstrap_servers\": \"kafka-b:9092\"}.");
    }
    for (const std::string &pair : options.settings)
    {
        const std::size_t equals = pair.find('=');
        if (equals == std::string::npos || equals == 0)
            throw Error(kUsage, "an option is NAME=VALUE");
        json[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
    if (json.empty())
        throw Error(kUsage, "there are no options",
                    "At least --option bootstrap_servers=host:9092, or --options with JSON.");
    Given given;
    given.json = json.dump();
    if (const auto found = json.find("kafka_config"); found != json.end() && found->is_string())
        note_secrets(found->get<std::string>(), given.secrets);
    return given;
}

// A list as PostgreSQL's array of texts; nothing for none.
Text
array_of(const std::vector<std::string> &types)
{
    return types.empty() ? Text() : Text(Json(types).dump());
}

template <class Change>
void
without_secrets(const Given &given, Change &&change)
{
    try
    {
        change();
    }
    catch (const ConnectionError &)
    {
        throw;
    }
    catch (const Error &error)
    {
        throw Error(error.exit_code(), given.masked(error.what()), given.masked(error.hint()),
                    given.masked(error.detail()), error.sqlstate());
    }
}

void
tell(const Context &context, const SubscriptionsOptions &options, const char *done)
{
    note_effect(fmt::format("Subscription {} is {}.", options.name, done));
    if (context.output.json())
        context.output.document({{"name", options.name}, {"changed", true}});
    else
        context.output.line(printable(options.name) + "  is " + done);
    flush_output(); // a signal that came ends us after it
}

// `what`: "the drop"
bool
agreed(const Context &context, const SubscriptionsOptions &options, const std::string &what,
       const std::string &question)
{
    if (options.yes)
        return true;
    if (!can_ask() || context.output.json())
        throw Error(kUsage, what + " has to be confirmed",
                    "Pass --yes when there is no terminal to confirm on.");
    return ask(question);
}

std::string
question_of_detaching(const std::string &name)
{
    return "Detach subscription " + printable(name) +
           (name == "default" ? ", which gives up what it has not sent to Kafka?"
                              : ", which sends nothing from then on and misses what is removed?");
}

} // namespace

int
run_subscriptions_list(const Context &context)
{
    Database database = open_outbox(context);
    const std::optional<std::vector<SubscriptionView>> found = look_at_subscriptions(database);
    if (!found)
        throw Error(kNotReady, "this role may not see outbox.subscription_status",
                    "select outbox.grant_monitor('" + database.user() + "');", "", "42501");
    if (context.output.json())
    {
        Json json = {{"subscriptions", Json::array()}};
        for (const SubscriptionView &view : *found)
            json["subscriptions"].push_back(view.json);
        context.output.document(json);
    }
    else if (found->empty())
        context.output.line("There are no subscriptions besides the default one.");
    else
        for (const std::string &line : lines_of(*found, context.output))
            context.output.line(line);
    return kOk;
}

int
run_subscriptions_create(const Context &context, const SubscriptionsOptions &options)
{
    const Given given = options_of(options);
    Database database = open_outbox(context);
    without_secrets(
        given,
        [&]
        {
            (void) database.change(
                "the subscription is created",
                "select outbox.create_subscription($1, $2, $3::jsonb, "
                "(select array_agg(t order by n) from jsonb_array_elements_text($4::jsonb) "
                "with ordinality a (t, n)), "
                "(select array_agg(t order by n) from jsonb_array_elements_text($5::jsonb) "
                "with ordinality a (t, n)), $6)",
                {options.name, options.sink, given.json, array_of(options.aggregate_types),
                 array_of(options.event_types), options.start});
        });
    tell(context, options, "created");
    return kOk;
}

int
run_subscriptions_alter(const Context &context, const SubscriptionsOptions &options)
{
    const Given given = options_of(options);
    Database database = open_outbox(context);
    without_secrets(given,
                    [&]
                    {
                        (void) database.change("the subscription is altered",
                                               "select outbox.alter_subscription($1, $2::jsonb)",
                                               {options.name, given.json});
                    });
    tell(context, options, "altered");
    return kOk;
}

int
run_subscriptions_attach(const Context &context, const SubscriptionsOptions &options)
{
    Database database = open_outbox(context);
    (void) database.change("the subscription is attached",
                           "select outbox.attach_subscription($1, $2)",
                           {options.name, options.start});
    tell(context, options, "attached");
    return kOk;
}

int
run_subscriptions_detach(const Context &context, const SubscriptionsOptions &options)
{
    Database database = open_outbox(context);
    if (!agreed(context, options, "to detach it", question_of_detaching(options.name)))
    {
        context.output.line("Nothing was done.");
        return kInterrupted;
    }
    const Rows rows =
        database.change("the subscription is detached",
                        "select outbox.detach_subscription($1) as unsent", {options.name});
    const long long unsent = rows.number(0, "unsent").value_or(0);
    note_effect(fmt::format("Subscription {} is detached.", options.name));
    if (context.output.json())
        context.output.document(
            {{"name", options.name}, {"changed", true}, {"unsent_events", unsent}});
    else
        context.output.line(printable(options.name) + "  is detached, with " +
                            counted(unsent, "event") + " that it had not sent");
    flush_output(); // as in tell()
    return kOk;
}

int
run_subscriptions_drop(const Context &context, const SubscriptionsOptions &options)
{
    Database database = open_outbox(context);
    if (!agreed(context, options, "the drop",
                "Drop subscription " + printable(options.name) +
                    ", with its position, its replays and what it has set aside?"))
    {
        context.output.line("Nothing was done.");
        return kInterrupted;
    }
    (void) database.change("the subscription is dropped", "select outbox.drop_subscription($1)",
                           {options.name});
    tell(context, options, "dropped");
    return kOk;
}

} // namespace outbox::ctl
