// Event contracts as they are read: whatever a file holds, there is an answer.
#include "client/outboxctl/contract.h"
#include "client/outboxctl/contract_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/replaced.h"

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

// The contract with a part of it replaced.
std::string
contract(const std::string &what, const std::string &by)
{
    return test::replaced(kContract, what, by);
}

// The problems as "line: message", one on each line.
std::string
problems_of(const std::string &text)
{
    Problems problems;
    (void) read_contract(text, problems);
    std::string all;
    for (const Problem &problem : problems)
        all += std::to_string(problem.line) + ": " + problem.message + "\n";
    return all;
}

TEST(Contract, FrontMatterHasKeysAndValuesAlone)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {contract("owner: ", "owner "), "6: this is no \"key: value\""},
        {contract("owner: ", ": "), "6: this is no \"key: value\""},
        {contract("owner: ", "Owner: "), "6: this is no \"key: value\""},
        {contract("owner: ", "team: "), "6: there is no key \"team\""},
        {contract("owner: ", "event_type: a\nowner: "), "6: \"event_type\" is there twice"},
        {contract("owner: ", "owner: " + std::string(180, 'x')), "6: \"owner\" is longer than 200"},
        {contract("---\n# order", "# order"), "1: the front matter is not closed"},
    };
    for (const auto &[text, problem] : cases)
        EXPECT_NE(problems_of(text).find(problem), std::string::npos) << problem << "\n" << text;
    // Said once: nothing is compared with a number that is none.
    EXPECT_EQ(problems_of(contract("schema_version: 2", "schema_version: 2b")),
              "4: schema_version is a number from 1 on\n");
}

TEST(Contract, TextIsWrittenSoThatEveryReaderOfMarkdownSeesTheSame)
{
    const std::string before = "---\n# order.placed";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {contract(before, "---\nText.\n# order.placed"), "8: text stands before the first heading"},
        {contract(before, "---\n```\n```\n# order.placed"), "8: a block stands before the first"},
        {contract("```sql", " ```sql"), "11: a fence begins at the beginning"},
        {contract("The id.", "####### Notes"), "16: a heading is one to six #"},
        {contract("The id.", "## "), "16: a heading is one to six #"},
        {contract("The id.", "##Notes"), "16: a heading is one to six #"},
        {contract("The id.", " # Notes"), "16: a heading begins at the beginning"},
        {contract("The id.", " ## Notes"), "16: a heading begins at the beginning"},
        {contract("The id.", " ### Notes"), "16: a heading begins at the beginning"},
        {contract("The id.", "The id.\n==="), "17: lines of = or - make headings"},
        {contract("The id.", "The \x7fid."), "16: this line holds the control character 0x7f"},
    };
    for (const auto &[text, problem] : cases)
        EXPECT_NE(problems_of(text).find(problem), std::string::npos) << problem << "\n" << text;
    EXPECT_EQ(problems_of(contract("The id.", "The\tid.")), "");
}

TEST(Contract, SectionsAndVersionsHaveTheirPlaces)
{
    const std::string schema = "### Schema\n```json\n{ \"required\": [\"a\"] }\n```\n";
    const std::string example = "### Example\n```json\n{ \"a\": 1.5e3 }\n```\n";
    const std::string consumers = "## Consumers\n- Ignore what you do not know.\n";
    const std::string whole = kContract;
    const std::vector<std::pair<std::string, std::string>> cases = {
        {contract("# order.placed", "## order.placed"), "8: the first heading is"},
        {contract(consumers, "# More\nText.\n" + consumers),
         "23: there is one heading of the first"},
        {contract(consumers, "") + consumers, "49: \"Consumers\" comes too late"},
        {contract("The id.\n", "The id.\n### Notes\n"), "17: only versions have headings below"},
        {contract("Adds b.\n", "Adds b.\n#### Notes\n"), "27: there are headings of three levels"},
        {whole.substr(0, whole.find("## Version")), "1: there is no section \"## Version N\""},
        {contract("## Version 1", "## Version one"), "42: a version is a number from 1 on"},
        {contract("## Version 1", "## Version -1"), "42: a version is a number from 1 on"},
        {contract("## Version 1", "## Version 01"), "42: a version is a number from 1 on"},
        {contract("## Version 1", "## Version 1b"), "42: a version is a number from 1 on"},
        {contract("## Version 1", "## Version 4294967297"), "42: a version is a number from 1 on"},
        {whole + "## Version 1\n", "51: there is no version before 1"},
        {contract(schema, ""), "42: version 1 has no schema"},
        {contract(example, ""), "42: version 1 has no example"},
        {contract("### Example\n", "### Counterexample\n"), "42: version 1 has no example"},
        {contract(schema, schema + schema), "47: the version has two schemas"},
        {contract(schema + example, example + schema), "47: the schema stands before the examples"},
        {contract(example, example + "```json\n{}\n```\n"), "47: \"Example\" holds one block"},
        {contract("### Counterexample\n```json", "### Counterexample\n```yaml"),
         "38: \"Counterexample\" holds one block"},
    };
    for (const auto &[text, problem] : cases)
        EXPECT_NE(problems_of(text).find(problem), std::string::npos) << problem << "\n" << text;
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
