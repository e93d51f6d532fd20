// Validation by JSON Schema, draft 7: of numbers by their values, whatever way they are written,
// and of texts by their characters.
#include "contract_schema.h"

#include "characters.h"
#include "contract_formats.h"
#include "contract_pattern.h"
#include "contract_values.h"
#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace outbox::ctl
{

namespace
{

using nlohmann::json;
using Violation = CompiledSchema::Violation;
using Violations = std::vector<Violation>;

constexpr std::size_t kMostViolations = 10;
// What is noted on the way through a longer one might not fit into memory, see kMostMemory in
// bounded.cpp.
constexpr std::size_t kLongestMatched = 100000;

bool
is_of_type(const json &value, const std::string &type)
{
    if (type == "integer")
        return is_whole(value);
    if (type == "number")
        return value.is_number();
    return type == value.type_name();
}

std::string
below(const std::string &pointer, const std::string &name)
{
    return pointer + "/" + escaped_token(name);
}

} // namespace

struct CompiledSchema::Compiled
{
    json root;
    mutable std::map<std::string, Pattern> patterns;

    const Pattern &pattern(const std::string &text) const
    {
        const auto found = patterns.find(text);
        return found != patterns.end()
                   ? found->second
                   : patterns.emplace(text, Pattern(characters_of(text))).first->second;
    }
};

namespace
{

// Of one value, with all that is in it. Each check returns whether the value conforms.
class Validation
{
public:
    Validation(const CompiledSchema::Compiled &compiled) : compiled_(compiled) {}

    // Says why not in `found`, unless it is null.
    bool conforms(const json &schema, const json &value, const std::string &at, Violations *found)
    {
        if (schema.is_boolean())
            return schema.get<bool>() || refuse(found, at, "There must be no value here.");
        const auto reference = schema.find("$ref");
        if (reference != schema.end())
            return conforms(target_of(*reference), value, at, found);
        bool good = check_value(schema, value, at, found);
        if (value.is_number())
            good = check_number(schema, value, at, found) && good;
        else if (value.is_string())
            good = check_text(schema, value.get_ref<const std::string &>(), at, found) && good;
        else if (value.is_array())
        {
            good = check_size(schema, "Items", value.size(), at, found) && good;
            good = check_list(schema, value, at, found) && good;
        }
        else if (value.is_object())
        {
            good = check_size(schema, "Properties", value.size(), at, found) && good;
            good = check_members(schema, value, at, found) && good;
            good = check_names(schema, value, at, found) && good;
        }
        good = check_alternatives(schema, value, at, found) && good;
        return check_condition(schema, value, at, found) && good;
    }

private:
    static bool refuse(Violations *found, const std::string &at, const std::string &reason)
    {
        if (found != nullptr && found->size() < kMostViolations)
            found->push_back({at, reason});
        return false;
    }

    static const json *find(const json &schema, const char *keyword)
    {
        const auto found = schema.find(keyword);
        return found == schema.end() ? nullptr : &*found;
    }

    const json &target_of(const std::string &reference) const
    {
        return compiled_.root.at(json::json_pointer(reference.substr(1)));
    }

    bool matches(const std::string &text, const std::string &pattern) const
    {
        const std::wstring characters = characters_of(text);
        if (characters.size() > kLongestMatched)
            throw std::length_error(
                fmt::format("a text of {} characters is longer than the {} that patterns are "
                            "tried with",
                            characters.size(), kLongestMatched));
        return compiled_.pattern(pattern).matches(characters);
    }

    static bool check_value(const json &schema, const json &value, const std::string &at,
                            Violations *found)
    {
        bool good = true;
        if (const json *type = find(schema, "type"))
        {
            const json list = type->is_array() ? *type : json::array({*type});
            if (std::none_of(list.begin(), list.end(),
                             [&](const json &one) { return is_of_type(value, one); }))
                good = refuse(found, at, "Value type not permitted by 'type' constraint.");
        }
        const json *values = find(schema, "enum");
        if (values != nullptr &&
            std::none_of(values->begin(), values->end(),
                         [&](const json &one) { return is_equal(one, value); }))
            good = refuse(found, at, "Value is none of those of 'enum'.");
        const json *constant = find(schema, "const");
        if (constant != nullptr && !is_equal(*constant, value))
            good = refuse(found, at, "Value is not that of 'const'.");
        return good;
    }

    static bool check_number(const json &schema, const json &value, const std::string &at,
                             Violations *found)
    {
        const long double number = number_of(value);
        bool good = true;
        const auto check = [&](const char *keyword, auto is_good, const char *claim)
        {
            const json *bound = find(schema, keyword);
            if (bound != nullptr && !is_good(*bound))
                good = refuse(found, at, fmt::format("Value is not {} {}.", claim, bound->dump()));
        };
        check(
            "maximum", [&](const json &bound) { return number <= number_of(bound); }, "at most");
        check(
            "minimum", [&](const json &bound) { return number >= number_of(bound); }, "at least");
        check(
            "exclusiveMaximum", [&](const json &bound) { return number < number_of(bound); },
            "less than");
        check(
            "exclusiveMinimum", [&](const json &bound) { return number > number_of(bound); },
            "greater than");
        check(
            "multipleOf", [&](const json &by) { return is_multiple(value, by); }, "a multiple of");
        return good;
    }

    // Length, Items or Properties.
    static bool check_size(const json &schema, const char *what, std::size_t size,
                           const std::string &at, Violations *found)
    {
        bool good = true;
        const json *most = find(schema, (std::string("max") + what).c_str());
        if (most != nullptr && size > count_of(*most))
            good = refuse(found, at, fmt::format("{} is more than 'max{}'.", size, what));
        const json *least = find(schema, (std::string("min") + what).c_str());
        if (least != nullptr && size < count_of(*least))
            good = refuse(found, at, fmt::format("{} is less than 'min{}'.", size, what));
        return good;
    }

    bool check_text(const json &schema, const std::string &text, const std::string &at,
                    Violations *found) const
    {
        bool good = check_size(schema, "Length", columns_of(text), at, found);
        const json *pattern = find(schema, "pattern");
        if (pattern != nullptr && !matches(text, *pattern))
            good = refuse(found, at, "Text does not match 'pattern'.");
        const json *format = find(schema, "format");
        if (format != nullptr && !has_format(text, *format))
            good = refuse(found, at,
                          "Text is no valid " + format->get_ref<const std::string &>() + ".");
        return good;
    }

    bool check_list(const json &schema, const json &list, const std::string &at, Violations *found)
    {
        bool good = true;
        const json *items = find(schema, "items");
        const json *rest =
            items != nullptr && items->is_array() ? find(schema, "additionalItems") : items;
        const std::size_t listed = items != nullptr && items->is_array() ? items->size() : 0;
        for (std::size_t i = 0; i < list.size(); i++)
            if (const json *one = i < listed ? &(*items)[i] : rest)
                good = conforms(*one, list[i], at + "/" + std::to_string(i), found) && good;
        const json *unique = find(schema, "uniqueItems");
        if (unique != nullptr && unique->get<bool>() && has_equal_items(list))
            good = refuse(found, at, "Two items are equal, against 'uniqueItems'.");
        const json *contained = find(schema, "contains");
        if (contained != nullptr &&
            std::none_of(list.begin(), list.end(),
                         [&](const json &item) { return conforms(*contained, item, at, nullptr); }))
            good = refuse(found, at, "No item is as 'contains' says.");
        return good;
    }

    bool check_members(const json &schema, const json &object, const std::string &at,
                       Violations *found)
    {
        static const json kNone = json::object();
        const auto of = [&](const char *keyword) -> const json &
        {
            const json *there = find(schema, keyword);
            return there == nullptr ? kNone : *there;
        };
        const json *others = find(schema, "additionalProperties");
        bool good = true;
        for (const auto &[name, member] : object.items())
        {
            bool known = false;
            // C++17 captures no binding by itself.
            const auto check = [&, &name = name, &member = member](const json &by)
            {
                known = true;
                good = conforms(by, member, below(at, name), found) && good;
            };
            const auto property = of("properties").find(name);
            if (property != of("properties").end())
                check(*property);
            for (const auto &[pattern, by] : of("patternProperties").items())
                if (matches(name, pattern))
                    check(by);
            if (!known && others != nullptr)
                check(*others);
        }
        return good;
    }

    bool check_names(const json &schema, const json &object, const std::string &at,
                     Violations *found)
    {
        bool good = true;
        if (const json *required = find(schema, "required"))
            for (const json &name : *required)
                if (!object.contains(name.get_ref<const std::string &>()))
                    good = refuse(found, at,
                                  "Missing required property '" + name.get<std::string>() + "'.");
        if (const json *names = find(schema, "propertyNames"))
            for (const auto &[name, member] : object.items())
                if (!conforms(*names, name, at, nullptr))
                    good = refuse(found, at,
                                  "The name '" + name + "' is not as 'propertyNames' says.");
        if (const json *dependencies = find(schema, "dependencies"))
            for (const auto &[name, needed] : dependencies->items())
                if (object.contains(name))
                    good = check_dependency(name, needed, object, at, found) && good;
        return good;
    }

    bool check_dependency(const std::string &name, const json &needed, const json &object,
                          const std::string &at, Violations *found)
    {
        if (!needed.is_array())
            return conforms(needed, object, at, found);
        bool good = true;
        for (const json &other : needed)
            if (!object.contains(other.get_ref<const std::string &>()))
                good = refuse(found, at,
                              "Missing property '" + other.get<std::string>() + "', on which '" +
                                  name + "' depends.");
        return good;
    }

    bool check_alternatives(const json &schema, const json &value, const std::string &at,
                            Violations *found)
    {
        bool good = true;
        if (const json *all = find(schema, "allOf"))
            for (const json &one : *all)
                good = conforms(one, value, at, found) && good;
        const auto count = [&](const json &list)
        {
            return std::count_if(list.begin(), list.end(),
                                 [&](const json &one)
                                 { return conforms(one, value, at, nullptr); });
        };
        const json *any = find(schema, "anyOf");
        if (any != nullptr && count(*any) == 0)
            good = refuse(found, at, "Value conforms to none of 'anyOf'.");
        const json *single = find(schema, "oneOf");
        if (const auto fit = single == nullptr ? 1 : count(*single); fit != 1)
            good = refuse(found, at, fmt::format("Value conforms to {} of 'oneOf'.", fit));
        const json *wrong = find(schema, "not");
        if (wrong != nullptr && conforms(*wrong, value, at, nullptr))
            good = refuse(found, at, "Value conforms to 'not'.");
        return good;
    }

    bool check_condition(const json &schema, const json &value, const std::string &at,
                         Violations *found)
    {
        const json *condition = find(schema, "if");
        if (condition == nullptr)
            return true;
        const json *then = find(schema, conforms(*condition, value, at, nullptr) ? "then" : "else");
        return then == nullptr || conforms(*then, value, at, found);
    }

    const CompiledSchema::Compiled &compiled_;
};

} // namespace

CompiledSchema::CompiledSchema(const json &schema) : compiled_(std::make_unique<Compiled>())
{
    compiled_->root = schema;
}

CompiledSchema::~CompiledSchema() = default;

std::vector<Violation>
CompiledSchema::violations(const json &value) const
{
    std::vector<Violation> found;
    (void) Validation(*compiled_).conforms(compiled_->root, value, "", &found);
    return found;
}

} // namespace outbox::ctl
