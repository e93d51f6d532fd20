// Event contracts as they are read: whatever a file holds, there is an answer.
#include "client/outboxctl/contract.h"
#include "client/outboxctl/contract_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace outbox::ctl
{

namespace
{

constexpr const char *kContract = R"(---
event_type: order.placed
aggregate_type: order
schema_version: 2
compatibility: backward
owner: Team, team@example.com
---
# order.placed
It was placed.

```sql
select 1;
```

## Partition key
The id.
## Idempotency key
The event's id.
## Compatibility
| may | may not |
|-----|---------|
| add | remove  |
## Consumers
- Ignore what you do not know.
## Version 2
Adds b.
### Schema
```json
{
  "properties": { "a": { "type": "integer" }, "b": { "type": ["string", "null"] } },
  "required": ["a"]
}
```
### Example: with b
```json
{ "a": 1, "b": "x" }
```
### Counterexample
```json
[]
```
## Version 1
### Schema
```json
{ "required": ["a"] }
```
### Example
```json
{ "a": 1.5e3 }
```
)";

TEST(Contract, IsReadWithItsVersionsAndExamples)
{
    Problems problems;
    const Contract contract = read_contract(kContract, problems);
    EXPECT_TRUE(problems.empty()) << problems[0].line << problems[0].message;
    EXPECT_EQ(contract.event_type, "order.placed");
    EXPECT_EQ(contract.aggregate_type, "order");
    EXPECT_EQ(contract.compatibility, Compatibility::kBackward);
    EXPECT_EQ(contract.event_type_line, 2);
    ASSERT_EQ(contract.versions.size(), 2U);
    EXPECT_EQ(contract.versions[0].number, 2);
    ASSERT_EQ(contract.versions[0].examples.size(), 2U);
    EXPECT_TRUE(contract.versions[0].examples[0].conforms);
    EXPECT_FALSE(contract.versions[0].examples[1].conforms);
    ASSERT_TRUE(contract.versions[1].schema);
    EXPECT_EQ(contract.versions[1].schema->language, "json");
}

TEST(Contract, HeadingsInBlocksAreNone)
{
    Problems problems;
    const Markdown markdown =
        read_markdown("---\nkey: value\n---\n# a\n````\n## b\n```\n````\n## c\n", problems);
    EXPECT_TRUE(problems.empty());
    ASSERT_EQ(markdown.sections.size(), 2U);
    ASSERT_EQ(markdown.sections[0].fences.size(), 1U);
    EXPECT_EQ(markdown.sections[0].fences[0].text, "## b\n```\n");
    EXPECT_EQ(markdown.sections[0].fences[0].line, 6);
    EXPECT_EQ(markdown.sections[1].title, "c");
}

TEST(Contract, FileNamesAreMadeOfTheEventType)
{
    EXPECT_EQ(file_name_of("order.placed"), "order-placed");
    EXPECT_EQ(file_name_of("OrderPlaced_v2"), "orderplaced-v2");
    EXPECT_EQ(file_name_of(".a..b."), "a-b");
    EXPECT_EQ(file_name_of("…"), "");
}

TEST(Contract, ValuesOfFrontMatterMeanTheSameInYaml)
{
    for (const char *bad : {"", "\"x\"", "[x]", "- x", "# x", "a: b", "a #b", "a:", "*x", "{x}"})
    {
        Problems problems;
        read_markdown(std::string("---\nkey: ") + bad + "\n---\n", problems);
        EXPECT_EQ(problems.size(), 1U) << bad;
    }
    Problems problems;
    const Markdown markdown = read_markdown("---\nkey:  Team, a@b.c (x:y) \n---\n", problems);
    EXPECT_TRUE(problems.empty());
    EXPECT_EQ(markdown.front_matter[0].value, "Team, a@b.c (x:y)");
}

TEST(ContractJson, KnowsTheLineOfEachValue)
{
    Problems problems;
    const std::optional<LinedJson> json = read_json("{\n \"a/b\": [\n  1\n  ,\n  {\"c\":\n 2}],\n"
                                                    " \"~\": null\n}\n",
                                                    10, problems);
    ASSERT_TRUE(json);
    EXPECT_EQ(json->line_of(""), 10);
    EXPECT_EQ(json->line_of("/a~1b"), 11);
    EXPECT_EQ(json->line_of("/a~1b/0"), 12);
    EXPECT_EQ(json->line_of("/a~1b/1"), 14);
    EXPECT_EQ(json->line_of("/a~1b/1/c"), 14);
    EXPECT_EQ(json->line_of("/~0"), 16);
    EXPECT_EQ(json->line_of("/a~1b/1/none/below"), 14) << "the nearest around it";
    EXPECT_EQ(json->value, nlohmann::json::parse(R"({"a/b": [1, {"c": 2}], "~": null})"));
}

TEST(ContractJson, RefusesWhatIsNoJson)
{
    for (const char *bad :
         {"", " ", "{", "[1,]", "{} {}", "nul", "{\"a\":1,\"a\":2}", "1e999", "\"\\x\""})
    {
        Problems problems;
        EXPECT_FALSE(read_json(bad, 1, problems)) << bad;
        EXPECT_EQ(problems.size(), 1U) << bad;
    }
}

// Damaged files: whatever is cut out, doubled or flipped, problems name lines that are there.
TEST(Contract, DamagedFilesAreAnsweredWithLinesThatExist)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string whole = kContract;
    for (int round = 0; round < 300; round++)
    {
        std::string text = whole;
        for (unsigned damage = 0; damage <= random() % 3 && !text.empty(); damage++)
        {
            const std::size_t place = random() % text.size();
            const std::size_t length = std::min<std::size_t>(random() % 80, text.size() - place);
            const unsigned kind = random() % 4;
            if (kind == 0)
                text.erase(place, length);
            else if (kind == 1)
                text.insert(place, text.substr(random() % text.size(), length));
            else if (kind == 2)
                text[place] = static_cast<char>(random());
            else
                text.resize(place + 1);
        }
        const int lines = 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
        Problems problems;
        const Contract contract = read_contract(text, problems);
        for (const Version &version : contract.versions)
            if (version.schema)
                (void) read_json(version.schema->text, version.schema->line, problems);
        for (const Problem &problem : problems)
        {
            EXPECT_GE(problem.line, 1) << problem.message;
            EXPECT_LE(problem.line, lines) << problem.message;
        }
    }
}

} // namespace

} // namespace outbox::ctl
