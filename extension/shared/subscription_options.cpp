#include "extension/core/verdict.h"

#include "subscription_options.h"

#include "extension/server/pg_settings.h"

extern "C"
{
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
}

namespace outbox
{

namespace
{

constexpr const char *kCommon[] = {"topic_template", "headers_format", "cloudevents_source",
                                   "max_attempts",   "on_failure",     "backoff_initial",
                                   "backoff_max",    "max_in_flight",  "max_in_flight_size",
                                   "lag_warning",    nullptr};

// Those that are no settings.
constexpr const char *kMaxLag = "max_lag";
constexpr const char *kOnLag = "on_lag";
constexpr int kLongestLag = 10 * 365 * 24 * 60 * 60;

char *
setting_of(const char *name)
{
    return psprintf("outbox.%s", name);
}

// The setting that an option stands for, without the prefix; null: it is the sink's own.
const char *
setting_behind(const SinkKind &kind, const char *name)
{
    if (is_among(kind.options, name) && !is_among(kind.settings, name))
        return nullptr;
    if (is_among(kCommon, name) || is_among(kind.settings, name))
        return name;
    return nullptr;
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

// The same, and a truth value.
char *
plain_text_of(const JsonbValue &value)
{
    return value.type == jbvBool ? pstrdup(value.val.boolean ? "true" : "false") : text_of(value);
}

// Calls f(name, value) for each member of an object.
template <typename F>
void
for_each_member(JsonbContainer *object, F f)
{
    JsonbIterator *iterator = JsonbIteratorInit(object);
    JsonbValue value;
    char *name = nullptr;
    for (JsonbIteratorToken token = JsonbIteratorNext(&iterator, &value, true); token != WJB_DONE;
         token = JsonbIteratorNext(&iterator, &value, true))
    {
        if (token == WJB_KEY)
            name = pnstrdup(value.val.string.val, static_cast<Size>(value.val.string.len));
        else if (token == WJB_VALUE && name != nullptr)
            f(name, value);
    }
}

// False: no time, or none that can be meant.
bool
parse_lag(const char *text, int *seconds)
{
    return text != nullptr && parse_int(text, seconds, GUC_UNIT_S, nullptr) && *seconds >= 1 &&
           *seconds <= kLongestLag;
}

bool
is_of_lag(const char *name)
{
    return strcmp(name, kMaxLag) == 0 || strcmp(name, kOnLag) == 0;
}

// Returns whether it says that one that lags is detached.
bool
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
    return strcmp(name, kOnLag) == 0 && strcmp(text, "detach") == 0;
}

void
refuse_shape(const char *name, const char *what)
{
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("option \"%s\" %s", name, what)));
}

char *
names_of(const char *const *names)
{
    StringInfoData list;
    initStringInfo(&list);
    for (; *names != nullptr; names++)
        appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", *names);
    return list.data;
}

void
refuse_unknown(const SinkKind &kind, const char *name)
{
    const bool all_settings = kind.options == kind.settings;
    const char *hint =
        all_settings
            ? psprintf("Options are the settings of outbox for %s, by their names without the "
                       "prefix \"outbox.\".",
                       kind.title)
            : psprintf("Its own options are %s; those of all subscriptions %s, max_lag, on_lag.",
                       names_of(kind.options), names_of(kCommon));
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("a subscription to %s has no option \"%s\"", kind.title, name),
                    errhint("%s", hint)));
}

void
check_setting(const SinkKind &kind, const char *name, const char *text)
{
    if (text == nullptr)
        refuse_shape(name, "must be a string or a number");
    // It changes nothing.
    (void) set_config_option(setting_of(setting_behind(kind, name)), text, PGC_SUSET, PGC_S_SESSION,
                             GUC_ACTION_SET, false, ERROR, false);
}

bool
is_ascii(const char *text)
{
    while (*text != '\0' && !IS_HIGHBIT_SET(*text))
        text++;
    return *text == '\0';
}

// Sinks take the encoding of what they send. ASCII is the same in all of them, also where
// PostgreSQL has no way to UTF-8, as from MULE_INTERNAL.
const char *
in_utf8(const char *text)
{
    if (is_ascii(text))
        return text;
    return pg_server_to_any(text, static_cast<int>(strlen(text)), PG_UTF8);
}

Size
count_of(const char *const *names)
{
    Size count = 0;
    while (names[count] != nullptr)
        count++;
    return count;
}

const char *const *
members_of(const char *name, const JsonbValue &object)
{
    List *list = NIL;
    for_each_member(object.val.binary.data,
                    [&](const char *member, const JsonbValue &value)
                    {
                        char *text = plain_text_of(value);
                        if (text == nullptr)
                            refuse_shape(name, "must be an object of strings");
                        list = lappend(lappend(list, const_cast<char *>(in_utf8(member))),
                                       const_cast<char *>(in_utf8(text)));
                    });
    auto **members = static_cast<const char **>(
        palloc0(sizeof(char *) * (static_cast<Size>(list_length(list)) + 1)));
    ListCell *cell;
    int count = 0;
    foreach (cell, list)
        members[count++] = static_cast<const char *>(lfirst(cell));
    return members;
}

PlainOption
plain_option(const char *name, const JsonbValue &value)
{
    using Kind = OptionValue::Kind;
    switch (value.type)
    {
    case jbvString:
        return {name, Kind::text, in_utf8(text_of(value)), nullptr};
    case jbvNumeric:
        return {name, Kind::number, text_of(value), nullptr};
    case jbvBool:
        return {name, Kind::boolean, plain_text_of(value), nullptr};
    case jbvBinary:
        if (JsonContainerIsObject(value.val.binary.data))
            return {name, Kind::object, nullptr, members_of(name, value)};
        break;
    default:
        break;
    }
    refuse_shape(name, "must be a string, a number, true or false, or an object of strings");
    return {};
}

// In fixed room, as errors are raised when no object of C++ is alive.
struct PlainFault
{
    bool any = false;
    char message[512];
    char detail[512];
    char hint[512];
};

template <std::size_t N>
void
copy_cut(char (&to)[N], const std::string &from) noexcept
{
    strlcpy(to, from.c_str(), N);
    drop_cut_character(to);
}

void
find_fault(const SinkKind &kind, const PlainOption *plain, PlainFault &found) noexcept
{
    try
    {
        SinkOptions options;
        OptionFault fault;
        fill_options(plain, options);
        found.any = !kind.check(options, fault);
        copy_cut(found.message, fault.message);
        copy_cut(found.detail, fault.detail);
        copy_cut(found.hint, fault.hint);
    }
    catch (...)
    {
        found = {true, "the options do not fit in memory", "", ""};
    }
}

void
check_with_sink(const SinkKind &kind, Jsonb *options)
{
    PlainFault fault;
    find_fault(kind, sink_options(kind, options, false), fault);
    if (fault.any)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s", fault.message),
                        fault.detail[0] != '\0' ? errdetail("%s", fault.detail) : 0,
                        fault.hint[0] != '\0' ? errhint("%s", fault.hint) : 0));
}

} // namespace

void
check_subscription_options(const SinkKind &kind, Jsonb *options)
{
    if (!JB_ROOT_IS_OBJECT(options))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("options must be a JSON object")));
    bool has_lag = false;
    bool detaches = false;
    for_each_member(&options->root,
                    [&](const char *name, const JsonbValue &value)
                    {
                        has_lag = has_lag || strcmp(name, kMaxLag) == 0;
                        if (is_of_lag(name))
                            detaches = check_lag(name, text_of(value)) || detaches;
                        else if (setting_behind(kind, name) != nullptr)
                            check_setting(kind, name, text_of(value));
                        else if (!is_among(kind.options, name))
                            refuse_unknown(kind, name);
                    });
    check_with_sink(kind, options);
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
    for_each_member(&options->root,
                    [&](const char *name, const JsonbValue &value)
                    {
                        const char *text = text_of(value);
                        if (strcmp(name, kMaxLag) == 0 && !parse_lag(text, &lag.seconds))
                            lag.seconds = 0;
                        if (strcmp(name, kOnLag) == 0 && text != nullptr)
                            lag.detaches = strcmp(text, "detach") == 0;
                    });
    return lag;
}

void
apply_subscription_options(const SinkKind &kind, Jsonb *options)
{
    for (const char *const *name = kind.settings; *name != nullptr; name++)
        SetConfigOption(setting_of(*name), "", PGC_SUSET, PGC_S_OVERRIDE);
    for (const char *const *pair = kind.defaults; *pair != nullptr; pair += 2)
        (void) apply_stored_setting(setting_of(pair[0]), pair[1], PGC_S_OVERRIDE);
    for_each_member(&options->root,
                    [&](const char *name, const JsonbValue &value)
                    {
                        const char *setting = setting_behind(kind, name);
                        const char *text = text_of(value);
                        if (setting != nullptr && text != nullptr)
                            (void) apply_stored_setting(setting_of(setting), text, PGC_S_OVERRIDE);
                    });
}

PlainOption *
sink_options(const SinkKind &kind, Jsonb *options, bool applied)
{
    const Size given = options == nullptr ? 0 : static_cast<Size>(JB_ROOT_COUNT(options));
    auto *plain = static_cast<PlainOption *>(palloc0(
        sizeof(PlainOption) * (given + count_of(kind.settings) + count_of(kind.policies) + 1)));
    int count = 0;
    for (const char *const *name = kind.settings; applied && *name != nullptr; name++)
        plain[count++] = {*name, OptionValue::Kind::text,
                          in_utf8(GetConfigOption(setting_of(*name), false, false)), nullptr};
    for (const char *const *name = kind.policies; applied && *name != nullptr; name++)
        plain[count++] = {*name, OptionValue::Kind::text,
                          in_utf8(GetConfigOption(setting_of(*name), false, false)), nullptr};
    if (options != nullptr)
        for_each_member(&options->root,
                        [&](const char *name, const JsonbValue &value)
                        {
                            const bool is_setting = is_among(kind.settings, name);
                            if (is_setting ? !applied : is_among(kind.options, name))
                                plain[count++] = plain_option(name, value);
                        });
    return plain;
}

void
fill_options(const PlainOption *from, SinkOptions &options)
{
    for (; from->name != nullptr; from++)
    {
        OptionValue value;
        value.kind = from->kind;
        if (from->text != nullptr)
            value.text = from->text;
        for (const char *const *member = from->members; member != nullptr && *member != nullptr;
             member += 2)
            value.members.emplace_back(member[0], member[1]);
        options.set(from->name, std::move(value));
    }
}

} // namespace outbox
