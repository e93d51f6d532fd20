// JSON Schema, draft 7: what a contract's schema may say, and whether a value conforms to it.
#pragma once

#include "contract_json.h"

#include <memory>

namespace outbox::ctl
{

// Looks for keywords that draft 7 does not have, values that they cannot have, and references that
// lead out of the schema, nowhere, or back to themselves.
void check_schema(const LinedJson &schema, Problems &problems);

// A schema in which check_schema() found nothing. Compiling it, and validating, take as long as
// patterns and references of the schema make them: call these where time is bounded.
class CompiledSchema
{
public:
    // Throws std::exception when it cannot be used.
    explicit CompiledSchema(const nlohmann::json &schema);
    ~CompiledSchema();
    CompiledSchema(const CompiledSchema &) = delete;
    CompiledSchema &operator=(const CompiledSchema &) = delete;

    struct Violation
    {
        std::string pointer; // JSON pointer to what violates it
        std::string reason;
    };

    // At most ten, none when the value conforms. Throws std::exception when it cannot be said.
    std::vector<Violation> violations(const nlohmann::json &value) const;

    struct Compiled;

private:
    std::unique_ptr<Compiled> compiled_;
};

} // namespace outbox::ctl
