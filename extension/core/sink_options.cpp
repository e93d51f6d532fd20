#include "sink_options.h"

#include <algorithm>
#include <charconv>

namespace outbox
{

namespace
{

struct Unit
{
    const char *name;
    std::int64_t factor;
};

constexpr Unit kTimes[] = {{"", 1},        {"ms", 1},      {"s", 1000},
                           {"min", 60000}, {"h", 3600000}, {"d", 86400000}};
constexpr Unit kSizes[] = {{"", 1}, {"B", 1}, {"kB", 1024}, {"MB", 1048576}, {"GB", 1073741824}};

std::string
quoted(std::string_view name)
{
    return "option \"" + std::string(name) + '"';
}

bool
refuse_option(OptionFault &fault, std::string_view name, const std::string &what,
              std::string detail = "", std::string hint = "")
{
    fault = {quoted(name) + ' ' + what, std::move(detail), std::move(hint)};
    return false;
}

bool
is_number(std::string_view text, std::int64_t &value, std::string_view &rest)
{
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end.ec != std::errc())
        return false;
    rest = text.substr(static_cast<std::size_t>(end.ptr - text.data()));
    while (!rest.empty() && rest.front() == ' ')
        rest.remove_prefix(1);
    return true;
}

// Whether it is a whole number and one of these units.
template <std::size_t N>
bool
read_with_unit(std::string_view text, const Unit (&units)[N], std::int64_t &value)
{
    std::string_view unit;
    if (!is_number(text, value, unit))
        return false;
    const auto found = std::find_if(std::begin(units), std::end(units),
                                    [&](const Unit &known) { return unit == known.name; });
    return found != std::end(units) && !__builtin_mul_overflow(value, found->factor, &value);
}

bool
check_range(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most,
            const char *unit, OptionFault &fault)
{
    if (value >= least && value <= most)
        return true;
    return refuse_option(fault, name, "is out of range",
                         "It must be from " + std::to_string(least) + " to " +
                             std::to_string(most) + unit + '.');
}

template <std::size_t N>
bool
read_quantity(const SinkOptions &options, std::string_view name, const Unit (&units)[N],
              const char *what, const char *hint, std::int64_t &value, OptionFault &fault)
{
    const OptionValue *option = options.find(name);
    const bool has_text =
        option->kind == OptionValue::Kind::text || option->kind == OptionValue::Kind::number;
    if (has_text && read_with_unit(option->text, units, value))
        return true;
    return refuse_option(fault, name, what, "", hint);
}

} // namespace

void
SinkOptions::set(std::string name, OptionValue value)
{
    const auto at = std::lower_bound(all_.begin(), all_.end(), name,
                                     [](const auto &item, const std::string &other)
                                     { return item.first < other; });
    if (at != all_.end() && at->first == name)
        at->second = std::move(value);
    else
        all_.emplace(at, std::move(name), std::move(value));
}

const OptionValue *
SinkOptions::find(std::string_view name) const noexcept
{
    const auto at = std::lower_bound(all_.begin(), all_.end(), name,
                                     [](const auto &item, std::string_view other)
                                     { return std::string_view(item.first) < other; });
    return at != all_.end() && at->first == name ? &at->second : nullptr;
}

std::string_view
SinkOptions::text(std::string_view name, std::string_view otherwise) const noexcept
{
    const OptionValue *value = find(name);
    return value != nullptr ? std::string_view(value->text) : otherwise;
}

bool
read_text(const SinkOptions &options, std::string_view name, std::string &value, OptionFault &fault)
{
    const OptionValue *option = options.find(name);
    if (option == nullptr)
        return true;
    if (option->kind != OptionValue::Kind::text)
        return refuse_option(fault, name, "must be a string");
    value = option->text;
    return true;
}

bool
read_boolean(const SinkOptions &options, std::string_view name, bool &value, OptionFault &fault)
{
    const OptionValue *option = options.find(name);
    if (option == nullptr)
        return true;
    const bool is_boolean = option->kind == OptionValue::Kind::boolean ||
                            (option->kind == OptionValue::Kind::text &&
                             (option->text == "true" || option->text == "false" ||
                              option->text == "on" || option->text == "off"));
    if (!is_boolean)
        return refuse_option(fault, name, "must be true or false");
    value = option->text == "true" || option->text == "on";
    return true;
}

bool
read_integer(const SinkOptions &options, std::string_view name, std::int64_t least,
             std::int64_t most, std::int64_t &value, OptionFault &fault)
{
    if (!options.has(name))
        return true;
    constexpr Unit kNone[] = {{"", 1}};
    std::int64_t read = 0;
    if (!read_quantity(options, name, kNone, "must be a whole number", "", read, fault) ||
        !check_range(name, read, least, most, "", fault))
        return false;
    value = read;
    return true;
}

bool
read_duration(const SinkOptions &options, std::string_view name, std::int64_t least_ms,
              std::int64_t most_ms, std::int64_t &value_ms, OptionFault &fault)
{
    if (!options.has(name))
        return true;
    std::int64_t read = 0;
    if (!read_quantity(options, name, kTimes, "is no time",
                       "A time is a whole number with ms, s, min, h or d, such as \"15s\".", read,
                       fault) ||
        !check_range(name, read, least_ms, most_ms, " ms", fault))
        return false;
    value_ms = read;
    return true;
}

bool
read_size(const SinkOptions &options, std::string_view name, std::int64_t least, std::int64_t most,
          std::int64_t &bytes, OptionFault &fault)
{
    if (!options.has(name))
        return true;
    std::int64_t read = 0;
    if (!read_quantity(options, name, kSizes, "is no size",
                       "A size is a whole number with B, kB, MB or GB, such as \"8MB\".", read,
                       fault) ||
        !check_range(name, read, least, most, " bytes", fault))
        return false;
    bytes = read;
    return true;
}

bool
read_choice(const SinkOptions &options, std::string_view name,
            std::initializer_list<std::string_view> words, std::string &value, OptionFault &fault)
{
    const OptionValue *option = options.find(name);
    if (option == nullptr)
        return true;
    std::string list;
    for (const std::string_view word : words)
    {
        if (option->kind == OptionValue::Kind::text && option->text == word)
        {
            value = option->text;
            return true;
        }
        list += (list.empty() ? "" : ", ") + std::string(word);
    }
    return refuse_option(fault, name, "has no such value", "", "Available values: " + list + '.');
}

bool
read_members(const SinkOptions &options, std::string_view name,
             std::vector<std::pair<std::string, std::string>> &members, OptionFault &fault)
{
    const OptionValue *option = options.find(name);
    if (option == nullptr)
        return true;
    if (option->kind != OptionValue::Kind::object)
        return refuse_option(fault, name, "must be an object", "",
                             "For example {\"name\": \"value\"}.");
    members = option->members;
    return true;
}

} // namespace outbox
