// A folder of contracts for the tests of "contracts lint".
#pragma once

#include <algorithm>
#include <filesystem>

#include "ctl.h"

#include "support/replaced.h"

namespace outbox::test
{

inline constexpr const char *kContract = R"(---
event_type: order.placed
aggregate_type: order
schema_version: 2
compatibility: backward
owner: Team, team@example.com
---
# order.placed
It was placed.
## Partition key
The id.
## Idempotency key
The event's id.
## Compatibility
Members may be added.
## Consumers
Ignore what you do not know.
## Version 2
Adds b.
### Schema
```json
{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "properties": {
    "a": { "type": "integer" },
    "b": { "type": "string" }
  },
  "required": ["a"]
}
```
### Example
```json
{
  "a": 1,
  "b": "x"
}
```
### Counterexample: no a
```json
{ "b": "x" }
```
## Version 1
### Schema
```json
{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "properties": { "a": { "type": "integer" } },
  "required": ["a"]
}
```
### Example
```json
{ "a": 1 }
```
)";

// The contract with a part of it replaced.
inline std::string
contract(const std::string &what, const std::string &by)
{
    return replaced(kContract, what, by);
}

// A contract of one version whose schema has these members, with values as examples and
// counterexamples.
inline std::string
contract_of(const std::string &schema, const Words &conform, const Words &violate)
{
    std::string parts;
    for (const std::string &value : conform)
        parts += "### Example\n```json\n" + value + "\n```\n";
    for (const std::string &value : violate)
        parts += "### Counterexample\n```json\n" + value + "\n```\n";
    const std::string text = kContract;
    return replaced(text.substr(0, text.find("## Version 2")), "version: 2", "version: 1") +
           "## Version 1\n### Schema\n```json\n{\"$schema\": "
           "\"http://json-schema.org/draft-07/schema#\",\n" +
           schema + "}\n```\n" + parts;
}

// Each contract may take 3 s of a processor, of which a busy machine gives little.
constexpr auto kLintLimit = std::chrono::minutes(5);

class Contracts : public testing::Test
{
protected:
    void SetUp() override { std::filesystem::create_directories(folder_ / "orders"); }

    void write(const std::string &path, const std::string &text) const
    {
        std::filesystem::create_directories((folder_ / path).parent_path());
        write_file(folder_ / path, text);
    }
    Ran lint(const Words &more = {}) const
    {
        Words words = {"contracts", "lint", folder_};
        words.insert(words.end(), more.begin(), more.end());
        return ctl({}, words, "", kLintLimit);
    }
    // Whether the folder has one of these problems, "path:line: text", and this one alone.
    testing::AssertionResult refused(const Words &problems) const
    {
        const Ran ran = lint();
        const bool one = ran.status == 4 && ran.out.find(": 1 problem\n") != std::string::npos;
        const auto said = [&](const std::string &problem)
        { return ran.out.rfind(folder_.string() + "/" + problem, 0) == 0; };
        if (one && std::any_of(problems.begin(), problems.end(), said))
            return testing::AssertionSuccess();
        return testing::AssertionFailure() << "expected " << testing::PrintToString(problems)
                                           << "\ngot " << ran.status << " " << ran.out << ran.err;
    }
    testing::AssertionResult refused(const std::string &problem) const
    {
        return refused(Words{problem});
    }
    // The same with only a contract in it.
    testing::AssertionResult refused(const std::string &text, Words problems) const
    {
        write("orders/order-placed.md", text);
        for (std::string &problem : problems)
            problem.insert(0, "orders/order-placed.md:");
        return refused(problems);
    }
    testing::AssertionResult refused(const std::string &text, const std::string &problem) const
    {
        return refused(text, Words{problem});
    }

    const std::filesystem::path folder_ = run_dir() / unique_name("contracts");
};

} // namespace outbox::test
