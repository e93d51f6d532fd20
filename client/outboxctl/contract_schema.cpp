// Validation is valijson's. It tells failures of a schema's form by exceptions only when told to.
#define VALIJSON_USE_EXCEPTIONS 1

#include "contract_schema.h"

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>

namespace outbox::ctl
{

namespace
{

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
          "Failed to validate item #", "Failed to validate against additional properties schema"})
        if (violation.reason.rfind(beginning, 0) == 0)
            return true;
    return false;
}

} // namespace

struct CompiledSchema::Compiled
{
    valijson::Schema schema;
};

CompiledSchema::CompiledSchema(const nlohmann::json &schema)
    : compiled_(std::make_unique<Compiled>())
{
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.populateSchema(NlohmannJsonAdapter(schema), compiled_->schema);
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
