// The form of a JSON Schema of draft 7. Stricter than the draft, which lets unknown keywords pass:
// a misspelt one would check nothing.
#include "contract_formats.h"
#include "contract_pattern.h"
#include "contract_schema.h"
#include "contract_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace outbox::ctl
{

namespace
{

using nlohmann::json;

constexpr const char *kDraft = "http://json-schema.org/draft-07/schema#";
constexpr std::size_t kLongestPattern = 500;

enum class Takes
{
    kAnything,
    kSchema,
    kSchemaOrList,
    kSchemaList,
    kSchemaMap,
    kDependencies, // a map of schemas or lists of names
    kCount,
    kNumber,
    kPositive,
    kBoolean,
    kText,
    kPattern,
    kNames,
    kList,
    kType,
};

struct Keyword
{
    Takes takes;
    bool in_place = false; // its schemas apply to the same value
    bool beside_ref = false;
};

const std::map<std::string, Keyword> kKeywords = {
    {"$schema", {Takes::kText, false, true}},
    {"$id", {Takes::kText, false, true}},
    {"$ref", {Takes::kText, true, true}},
    {"$comment", {Takes::kText, false, true}},
    {"title", {Takes::kText, false, true}},
    {"description", {Takes::kText, false, true}},
    {"default", {Takes::kAnything, false, true}},
    {"examples", {Takes::kList, false, true}},
    {"definitions", {Takes::kSchemaMap, false, true}},
    {"readOnly", {Takes::kBoolean}},
    {"writeOnly", {Takes::kBoolean}},
    {"contentEncoding", {Takes::kText}},
    {"contentMediaType", {Takes::kText}},
    {"format", {Takes::kText}},
    {"type", {Takes::kType}},
    {"enum", {Takes::kList}},
    {"const", {Takes::kAnything}},
    {"multipleOf", {Takes::kPositive}},
    {"maximum", {Takes::kNumber}},
    {"exclusiveMaximum", {Takes::kNumber}},
    {"minimum", {Takes::kNumber}},
    {"exclusiveMinimum", {Takes::kNumber}},
    {"maxLength", {Takes::kCount}},
    {"minLength", {Takes::kCount}},
    {"pattern", {Takes::kPattern}},
    {"items", {Takes::kSchemaOrList}},
    {"additionalItems", {Takes::kSchema}},
    {"maxItems", {Takes::kCount}},
    {"minItems", {Takes::kCount}},
    {"uniqueItems", {Takes::kBoolean}},
    {"contains", {Takes::kSchema}},
    {"maxProperties", {Takes::kCount}},
    {"minProperties", {Takes::kCount}},
    {"required", {Takes::kNames}},
    {"properties", {Takes::kSchemaMap}},
    {"patternProperties", {Takes::kSchemaMap}},
    {"additionalProperties", {Takes::kSchema}},
    {"propertyNames", {Takes::kSchema}},
    {"dependencies", {Takes::kDependencies, true}},
    {"if", {Takes::kSchema, true}},
    {"then", {Takes::kSchema, true}},
    {"else", {Takes::kSchema, true}},
    {"allOf", {Takes::kSchemaList, true}},
    {"anyOf", {Takes::kSchemaList, true}},
    {"oneOf", {Takes::kSchemaList, true}},
    {"not", {Takes::kSchema, true}},
};

const std::set<std::string> kTypes = {"null",   "boolean", "object", "array",
                                      "number", "integer", "string"};

bool
is_list_of_names(const json &value)
{
    if (!value.is_array())
        return false;
    std::set<std::string> names;
    for (const json &name : value)
        if (!name.is_string() || !names.insert(name.get<std::string>()).second)
            return false;
    return true;
}

bool
is_type(const json &value)
{
    if (value.is_string())
        return kTypes.count(value.get<std::string>()) > 0;
    if (!is_list_of_names(value) || value.empty())
        return false;
    for (const json &name : value)
        if (kTypes.count(name.get<std::string>()) == 0)
            return false;
    return true;
}

// What a keyword takes, when the value is not that; empty when it is, or holds schemas.
const char *
expected_instead(Takes takes, const json &value)
{
    switch (takes)
    {
    case Takes::kCount:
        return is_count(value) ? "" : "a number from 0 on, without a fraction";
    case Takes::kNumber:
        return value.is_number() ? "" : "a number";
    case Takes::kPositive:
        return value.is_number() && value.get<double>() > 0 ? "" : "a number above 0";
    case Takes::kBoolean:
        return value.is_boolean() ? "" : "true or false";
    case Takes::kText:
    case Takes::kPattern:
        return value.is_string() ? "" : "a string";
    case Takes::kNames:
        return is_list_of_names(value) ? "" : "a list of different strings";
    case Takes::kList:
        return value.is_array() ? "" : "a list";
    case Takes::kType:
        return is_type(value) ? ""
                              : "null, boolean, object, array, number, integer or string, or "
                                "a list of different ones";
    case Takes::kSchemaList:
        return value.is_array() && !value.empty() ? "" : "a list of schemas";
    case Takes::kSchemaMap:
    case Takes::kDependencies:
        return value.is_object() ? "" : "an object of schemas";
    case Takes::kAnything:
    case Takes::kSchema:
    case Takes::kSchemaOrList:
        break;
    }
    return "";
}

class Examination
{
public:
    Examination(const LinedJson &schema, Problems &problems) : schema_(schema), problems_(problems)
    {
    }

    void run()
    {
        const json &root = schema_.value;
        if (!root.is_object() || !root.contains("$schema"))
            problem("",
                    std::string("the schema is an object with \"$schema\": \"") + kDraft + "\"");
        examine(root, "");
        for (const auto &[pointer, target] : references_)
            if (in_place_.count(target) == 0)
                problem(pointer,
                        "\"$ref\" leads to no schema: there is none at \"#" + target + "\"");
        // Of all circles, one says enough.
        if (const std::optional<std::string> circle = place_in_circle())
            problem(*circle, "this schema leads back to itself without going into the value");
    }

private:
    void problem(const std::string &pointer, const std::string &message)
    {
        problems_.push_back({schema_.line_of(pointer), message});
    }

    // The parser bounds how deep this goes.
    void examine(const json &schema, const std::string &pointer)
    {
        in_place_[pointer];
        if (schema.is_boolean())
            return;
        if (!schema.is_object())
        {
            problem(pointer, "here a schema is expected: an object, true or false");
            return;
        }
        const bool reference = schema.contains("$ref");
        for (const auto &[name, value] : schema.items())
        {
            const std::string place = pointer + "/" + escaped_token(name);
            const auto keyword = kKeywords.find(name);
            if (keyword == kKeywords.end())
                problem(place, "JSON Schema draft 7 has no keyword \"" + name + "\"");
            else if (reference && !keyword->second.beside_ref)
                problem(place, "\"" + name + "\" has no effect beside \"$ref\"");
            else
                examine_keyword(name, keyword->second, value, pointer, place);
        }
    }

    void examine_keyword(const std::string &name, const Keyword &keyword, const json &value,
                         const std::string &pointer, const std::string &place)
    {
        const std::string expected = expected_instead(keyword.takes, value);
        if (!expected.empty())
        {
            problem(place, "\"" + name + "\" takes " + expected);
            return;
        }
        if (name == "$schema" &&
            (!pointer.empty() || (value != kDraft && value.get<std::string>() + "#" != kDraft)))
            problem(place, std::string("\"$schema\" is \"") + kDraft +
                               "\", at the top: this is the draft that is understood");
        else if (name == "$id" && !pointer.empty())
            problem(place, "\"$id\" stands at the top only");
        else if (name == "$ref")
            examine_reference(value.get<std::string>(), pointer, place);
        else if (keyword.takes == Takes::kPattern)
            examine_pattern(value.get<std::string>(), place);
        else
            examine_schemas(name, keyword, value, pointer, place);
    }

    void examine_schemas(const std::string &name, const Keyword &keyword, const json &value,
                         const std::string &pointer, const std::string &place)
    {
        const auto below = [&](const json &schema, const std::string &at)
        {
            if (keyword.in_place)
                in_place_[pointer].push_back(at);
            examine(schema, at);
        };
        const bool list = keyword.takes == Takes::kSchemaList ||
                          (keyword.takes == Takes::kSchemaOrList && value.is_array());
        if (list)
            for (std::size_t i = 0; i < value.size(); i++)
                below(value[i], place + "/" + std::to_string(i));
        else if (keyword.takes == Takes::kSchema || keyword.takes == Takes::kSchemaOrList)
            below(value, place);
        else if (keyword.takes == Takes::kSchemaMap || keyword.takes == Takes::kDependencies)
            for (const auto &[member, schema] : value.items())
            {
                const std::string at = place + "/" + escaped_token(member);
                if (name == "patternProperties")
                    examine_pattern(member, at);
                if (keyword.takes == Takes::kDependencies && is_list_of_names(schema))
                    continue;
                below(schema, at);
            }
    }

    void examine_reference(const std::string &reference, const std::string &pointer,
                           const std::string &place)
    {
        if (reference != "#" && reference.rfind("#/", 0) != 0)
            problem(place, "\"$ref\" leads out of the schema to \"" + reference +
                               "\"; nothing is fetched, write \"#/definitions/…\"");
        else if (reference.find('%') != std::string::npos)
            problem(place, "\"$ref\" holds a %; give what it names a plain name");
        else
        {
            references_[place] = reference.substr(1);
            in_place_[pointer].push_back(reference.substr(1));
        }
    }

    void examine_pattern(const std::string &pattern, const std::string &place)
    {
        if (pattern.size() > kLongestPattern)
            problem(place, fmt::format("the pattern is longer than {} bytes", kLongestPattern));
        else
            try
            {
                (void) Pattern(characters_of(pattern));
            }
            catch (const std::invalid_argument &error)
            {
                problem(place, std::string("the pattern cannot be read: ") + error.what());
            }
    }

    // A schema from which others that apply to the same value lead back to it. In time that grows
    // with their number, which may be some ten thousand.
    std::optional<std::string> place_in_circle() const
    {
        enum class State
        {
            kOpen, // on the way from where it was begun
            kDone, // leads into no circle
        };
        struct Step
        {
            std::string place;
            std::size_t next; // of the targets
        };
        std::map<std::string, State> states;
        for (const auto &[begin, none] : in_place_)
        {
            std::vector<Step> way;
            const auto enter = [&](const std::string &place)
            {
                if (!states.emplace(place, State::kOpen).second)
                    return states[place] == State::kDone;
                way.push_back({place, 0});
                return true;
            };
            (void) enter(begin); // what is known already is done
            while (!way.empty())
            {
                Step &step = way.back();
                const auto known = in_place_.find(step.place);
                if (known == in_place_.end() || step.next == known->second.size())
                {
                    states[step.place] = State::kDone;
                    way.pop_back();
                    continue;
                }
                const std::string &target = known->second[step.next++];
                if (!enter(target))
                    return target;
            }
        }
        return std::nullopt;
    }

    const LinedJson &schema_;
    Problems &problems_;
    std::map<std::string, std::string> references_;            // where, and to what
    std::map<std::string, std::vector<std::string>> in_place_; // of every schema
};

} // namespace

void
check_schema(const LinedJson &schema, Problems &problems)
{
    Examination(schema, problems).run();
}

} // namespace outbox::ctl
