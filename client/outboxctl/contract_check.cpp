#include "contract_check.h"

#include "contract_schema.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

// A version as it can be tried; what could not be read is missing.
struct Compiled
{
    int number;
    std::unique_ptr<CompiledSchema> schema;
    std::vector<LinedJson> examples; // those that conform
};

std::unique_ptr<CompiledSchema>
compile(const Fence &fence, Problems &problems)
{
    const std::optional<LinedJson> schema = read_json(fence.text, fence.line, problems);
    if (!schema)
        return nullptr;
    const std::size_t before = problems.size();
    check_schema(*schema, problems);
    if (problems.size() > before)
        return nullptr;
    try
    {
        return std::make_unique<CompiledSchema>(schema->value);
    }
    catch (const std::exception &error)
    {
        problems.push_back({fence.line, std::string("the schema cannot be used: ") + error.what()});
        return nullptr;
    }
}

// " at /customer/id", nothing for the whole value
std::string
place_of(const std::string &pointer)
{
    return pointer.empty() ? "" : " at " + pointer;
}

using Violations = std::vector<CompiledSchema::Violation>;

// Nothing when it cannot be said, which is a problem then.
std::optional<Violations>
violations_of(const LinedJson &value, const CompiledSchema &schema, Problems &problems)
{
    try
    {
        return schema.violations(value.value);
    }
    catch (const std::exception &error)
    {
        problems.push_back(
            {value.line_of(""), std::string("the schema cannot be applied: ") + error.what()});
        return std::nullopt;
    }
}

// Says of each violation what `claim` says: "violates the schema of version 2".
void
expect_conforming(const LinedJson &value, const CompiledSchema &schema, const std::string &claim,
                  Problems &problems)
{
    const std::optional<Violations> found = violations_of(value, schema, problems);
    for (const CompiledSchema::Violation &violation : found.value_or(Violations()))
        problems.push_back({value.line_of(violation.pointer),
                            claim + place_of(violation.pointer) + ": " + violation.reason});
}

Compiled
try_version(const Version &version, Problems &problems)
{
    Compiled compiled{version.number, nullptr, {}};
    if (version.schema)
        compiled.schema = compile(*version.schema, problems);
    for (const Example &example : version.examples)
    {
        std::optional<LinedJson> value = read_json(example.json.text, example.json.line, problems);
        if (!value)
            continue;
        if (compiled.schema && example.conforms)
            expect_conforming(
                *value, *compiled.schema,
                fmt::format("the example violates the schema of version {}", version.number),
                problems);
        else if (compiled.schema)
        {
            const std::optional<Violations> found =
                violations_of(*value, *compiled.schema, problems);
            if (found && found->empty())
                problems.push_back(
                    {value->line_of(""),
                     fmt::format("the counterexample conforms to the schema of version {}",
                                 version.number)});
        }
        if (example.conforms && value->zero_line != 0)
            problems.push_back({value->zero_line, "PostgreSQL's jsonb cannot hold \\u0000, so no "
                                                  "event has this payload"});
        if (example.conforms)
            compiled.examples.push_back(std::move(*value));
    }
    return compiled;
}

void
check_pair(const Compiled &newer, const Compiled &older, Compatibility compatibility,
           Problems &problems)
{
    const bool backward =
        compatibility == Compatibility::kBackward || compatibility == Compatibility::kFull;
    const bool forward =
        compatibility == Compatibility::kForward || compatibility == Compatibility::kFull;
    const auto expect_readable =
        [&](const Compiled &written, const Compiled &reading, const char *direction)
    {
        if (!reading.schema)
            return; // said already
        for (const LinedJson &example : written.examples)
            expect_conforming(example, *reading.schema,
                              fmt::format("not {} compatible: this example of version {} "
                                          "violates the schema of version {}",
                                          direction, written.number, reading.number),
                              problems);
    };
    if (backward)
        expect_readable(older, newer, "backward");
    if (forward)
        expect_readable(newer, older, "forward");
}

} // namespace

Contract
check_contract(const std::string &text, Problems &problems)
{
    Contract contract = read_contract(text, problems);
    std::vector<Compiled> versions;
    for (const Version &version : contract.versions)
        versions.push_back(try_version(version, problems));
    for (std::size_t i = 1; i < versions.size(); i++)
        check_pair(versions[i - 1], versions[i], contract.compatibility, problems);
    return contract;
}

} // namespace outbox::ctl
