// Validation is valijson's. It reports failures of a schema's form by exceptions only on request.
#define VALIJSON_USE_EXCEPTIONS 1

#include "contract_schema.h"

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>
#include <set>

namespace outbox::ctl
{

namespace
{

using nlohmann::json;
using Violation = CompiledSchema::Violation;
using valijson::adapters::NlohmannJsonAdapter;

constexpr std::size_t kMostViolations = 10;

// valijson's path is "<root>", "[member]", "[0]", ….
std::string
pointer_of(const std::vector<std::string> &path)
{
    std::string pointer;
    for (std::size_t i = 1; i < path.size(); i++)
        pointer += "/" + escaped_token(path[i].substr(1, path[i].size() - 2));
    return pointer;
}

// What is said of a container only because of something in it, which is said too.
bool
only_repeats(const Violation &violation)
{
    for (const char *beginning :
         {"Failed to validate against schema associated with property name",
          "Failed to validate item #", "Failed to validate against additional properties schema",
          "Failed to validate against a conditional schema",
          "Failed to validate against child schema #"})
        if (violation.reason.rfind(beginning, 0) == 0)
            return true;
    return false;
}

// valijson makes a text of what is none, or throws, when a format meets it; by the draft a format
// says nothing of that.
json
with_formats_of_texts_alone(json schema)
{
    static const std::set<std::string> kValues = {"const", "enum", "default", "examples"};
    static const std::set<std::string> kMaps = {"properties", "patternProperties", "definitions",
                                                "dependencies"};
    if (!schema.is_object())
        return schema;
    for (auto &[name, value] : schema.items())
        if (kMaps.count(name) > 0 || (value.is_array() && kValues.count(name) == 0))
            for (json &below : value)
                below = with_formats_of_texts_alone(std::move(below));
        else if (kValues.count(name) == 0)
            value = with_formats_of_texts_alone(std::move(value));
    const auto format = schema.find("format");
    if (format == schema.end())
        return schema;
    const json then = {{"format", *format}};
    schema.erase(format);
    schema["allOf"].push_back({{"if", {{"type", "string"}}}, {"then", then}});
    return schema;
}

} // namespace

struct CompiledSchema::Compiled
{
    valijson::Schema schema;
};

CompiledSchema::CompiledSchema(const json &schema) : compiled_(std::make_unique<Compiled>())
{
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    const json usable = with_formats_of_texts_alone(schema);
    parser.populateSchema(NlohmannJsonAdapter(usable), compiled_->schema);
}

CompiledSchema::~CompiledSchema() = default;

std::vector<Violation>
CompiledSchema::violations(const nlohmann::json &value) const
{
    valijson::Validator validator;
    valijson::ValidationResults results;
    std::vector<Violation> found;
    if (validator.validate(compiled_->schema, NlohmannJsonAdapter(value), &results))
        return found;
    valijson::ValidationResults::Error error;
    while (results.popError(error))
        found.push_back({pointer_of(error.context), error.description});
    if (!std::all_of(found.begin(), found.end(), only_repeats))
        found.erase(std::remove_if(found.begin(), found.end(), only_repeats), found.end());
    if (found.empty())
        found.push_back({"", "does not conform to the schema"});
    if (found.size() > kMostViolations)
        found.resize(kMostViolations);
    return found;
}

} // namespace outbox::ctl
