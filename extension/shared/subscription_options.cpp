#include "subscription_options.h"

#include "extension/server/pg_settings.h"

extern "C"
{
#include "utils/builtins.h"
}

namespace outbox
{

namespace
{

constexpr struct
{
    const char *name;
    bool of_cluster; // without it there is none, whatever the setting says
} kOptions[] = {
    {"bootstrap_servers", true}, {"kafka_config", true},    {"kafka_config_file", true},
    {"topic_template", false},   {"headers_format", false}, {"cloudevents_source", false},
    {"max_attempts", false},     {"on_failure", false},     {"backoff_initial", false},
    {"backoff_max", false},      {"max_in_flight", false},  {"max_in_flight_size", false},
    {"lag_warning", false}};

// Those that are no settings.
constexpr const char *kMaxLag = "max_lag";
constexpr const char *kOnLag = "on_lag";
constexpr int kLongestLag = 10 * 365 * 24 * 60 * 60;

char *
setting_of(const char *option)
{
    return psprintf("outbox.%s", option);
}

bool
is_option(const char *name)
{
    for (const auto &option : kOptions)
        if (strcmp(option.name, name) == 0)
            return true;
    return false;
}

// A string or a number as text; null for anything else.
char *
text_of(const JsonbValue &value)
{
    if (value.type == jbvString)
        return pnstrdup(value.val.string.val, static_cast<Size>(value.val.string.len));
    if (value.type == jbvNumeric)
        return DatumGetCString(
            DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
    return nullptr;
}

// Calls f(name, text) for each member; the text is null when its value is no string or number.
template <typename F>
void
for_each_option(Jsonb *options, F f)
{
    JsonbIterator *iterator = JsonbIteratorInit(&options->root);
    JsonbValue value;
    char *name = nullptr;
    for (JsonbIteratorToken token = JsonbIteratorNext(&iterator, &value, true); token != WJB_DONE;
         token = JsonbIteratorNext(&iterator, &value, true))
    {
        if (token == WJB_KEY)
            name = pnstrdup(value.val.string.val, static_cast<Size>(value.val.string.len));
        else if (token == WJB_VALUE && name != nullptr)
            f(name, text_of(value));
    }
}

// False: no time, or none that can be meant.
bool
parse_lag(const char *text, int *seconds)
{
    return text != nullptr && parse_int(text, seconds, GUC_UNIT_S, nullptr) && *seconds >= 1 &&
           *seconds <= kLongestLag;
}

void
check_lag(const char *name, const char *text)
{
    int seconds;
    if (strcmp(name, kMaxLag) == 0 && !parse_lag(text, &seconds))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for option \"max_lag\""),
                        errdetail("It is a time from one second to ten years (3650d)."),
                        errhint("For example \"2d\". Without it a subscription holds events back "
                                "for as long as it needs.")));
    if (strcmp(name, kOnLag) == 0 &&
        (text == nullptr || (strcmp(text, "hold") != 0 && strcmp(text, "detach") != 0)))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("invalid value for option \"on_lag\""),
                        errhint("Available values: hold, detach.")));
}

void
check_option(const char *name, const char *text)
{
    if (strcmp(name, kMaxLag) == 0 || strcmp(name, kOnLag) == 0)
    {
        check_lag(name, text);
        return;
    }
    if (!is_option(name))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("a subscription to Kafka has no option \"%s\"", name),
                        errhint("Options are the settings of outbox for Kafka, by their names "
                                "without the prefix \"outbox.\".")));
    if (text == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("option \"%s\" must be a string or a number", name)));
    // It changes nothing.
    (void) set_config_option(setting_of(name), text, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SET,
                             false, ERROR, false);
}

} // namespace

void
check_subscription_options(Jsonb *options)
{
    if (!JB_ROOT_IS_OBJECT(options))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("options must be a JSON object")));
    bool has_servers = false;
    bool has_lag = false;
    bool detaches = false;
    for_each_option(options,
                    [&](const char *name, const char *text)
                    {
                        check_option(name, text);
                        has_servers = has_servers ||
                                      (strcmp(name, "bootstrap_servers") == 0 && text[0] != '\0');
                        has_lag = has_lag || strcmp(name, kMaxLag) == 0;
                        detaches =
                            detaches || (strcmp(name, kOnLag) == 0 && strcmp(text, "detach") == 0);
                    });
    if (!has_servers)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("options must have \"bootstrap_servers\""),
                        errhint("For example {\"bootstrap_servers\": \"kafka-b:9092\"}.")));
    if (detaches && !has_lag)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("option \"on_lag\" is detach, and there is no \"max_lag\""),
                        errhint("Say how long it may hold events back, for example "
                                "\"max_lag\": \"2d\".")));
}

MaxLag
max_lag_of(Jsonb *options)
{
    MaxLag lag = {};
    for_each_option(options,
                    [&](const char *name, const char *text)
                    {
                        if (strcmp(name, kMaxLag) == 0 && !parse_lag(text, &lag.seconds))
                            lag.seconds = 0;
                        if (strcmp(name, kOnLag) == 0 && text != nullptr)
                            lag.detaches = strcmp(text, "detach") == 0;
                    });
    return lag;
}

void
apply_subscription_options(Jsonb *options)
{
    for (const auto &option : kOptions)
        if (option.of_cluster)
            SetConfigOption(setting_of(option.name), "", PGC_SUSET, PGC_S_OVERRIDE);
    for_each_option(options,
                    [](const char *name, const char *text)
                    {
                        if (is_option(name) && text != nullptr)
                            apply_stored_setting(setting_of(name), text, PGC_S_OVERRIDE);
                    });
}

} // namespace outbox
