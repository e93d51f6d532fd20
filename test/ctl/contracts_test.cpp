// contracts lint
#include "ctl.h"

#include <filesystem>

#include <sys/stat.h>

#include "support/tree.h"

namespace outbox::test
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
std::string
contract(const std::string &what, const std::string &by)
{
    std::string text = kContract;
    const std::size_t place = text.find(what);
    EXPECT_NE(place, std::string::npos) << what;
    return text.replace(place, what.size(), by);
}

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
        return ctl({}, words);
    }
    // Whether the folder has this problem, "path:line: text", and this one alone.
    testing::AssertionResult refused(const std::string &problem) const
    {
        const Ran ran = lint();
        const std::string expected = folder_.string() + "/" + problem;
        if (ran.status == 4 && ran.out.rfind(expected, 0) == 0 &&
            ran.out.find(": 1 problem\n") != std::string::npos)
            return testing::AssertionSuccess();
        return testing::AssertionFailure()
               << "expected " << expected << "\ngot " << ran.status << " " << ran.out << ran.err;
    }
    // The same with only a contract in it.
    testing::AssertionResult refused(const std::string &text, const std::string &problem) const
    {
        write("orders/order-placed.md", text);
        return refused("orders/order-placed.md:" + problem);
    }

    const std::filesystem::path folder_ = run_dir() / unique_name("contracts");
};

TEST_F(Contracts, ThoseOfThisProjectAreWhole)
{
    const Ran ran = ctl({}, {"contracts", "lint", in_source("docs/events"), "--json"});
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    EXPECT_EQ(ran.json()["contracts"], 2);
    EXPECT_EQ(ran.json()["problems"].size(), 0U);
}

TEST_F(Contracts, AWholeOneHasNoProblem)
{
    write("orders/order-placed.md", kContract);
    write("README.md", "anything");
    write("orders/README.md", "anything");
    write(".hidden", "anything");
    const Ran ran = lint();
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "1 contract, 2 versions, 3 examples: 0 problems\n");
}

TEST_F(Contracts, WindowsLineEndsAreTaken)
{
    std::string text = kContract;
    for (std::size_t i = 0; (i = text.find('\n', i)) != std::string::npos; i += 2)
        text.insert(i, 1, '\r');
    write("orders/order-placed.md", text);
    EXPECT_EQ(lint().status, 0) << lint().out;
}

TEST_F(Contracts, TheFormIsCheckedLineByLine)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {contract("owner: Team, team@example.com\n", ""), "1: the front matter lacks \"owner\""},
        {contract("owner:", "team:"), "1: the front matter lacks \"owner\"\n"},
        {contract("schema_version: 2", "schema_version: two"), "4: schema_version is a number"},
        {contract("schema_version: 2", "schema_version: 3"), "18: the newest version comes first"},
        {contract("compatibility: backward", "compatibility: some"), "5: compatibility is"},
        {contract("# order.placed", "# order"), "8: the title is \"order\", event_type is"},
        {contract("It was placed.\n", ""), "8: below the title stands"},
        {contract("## Consumers\nIgnore what you do not know.\n", ""),
         "1: the section \"## Consumers\" is missing"},
        {contract("The id.\n", ""), "10: \"Partition key\" says nothing"},
        {contract("## Partition key\nThe id.\n## Idempotency key",
                  "## Idempotency key\nThe id.\n## Partition key"),
         "12: \"Partition key\" comes too late; the order is"},
        {contract("## Version 2\n", "## Notes\nNotes.\n## Version 2\n"),
         "18: there is no section \"Notes\""},
        {contract("## Version 2\n", "## Consumers\nTwice.\n## Version 2\n"),
         "18: \"Consumers\" is there twice"},
        {contract("## Version 1", "## Version 2"), "43: here comes version 1, without a gap"},
        {contract("Adds b.\n", ""), "18: what the version changed is not said"},
        {contract("### Example\n", "### Sample\n"), "32: below a version stand Schema"},
        {contract("```json\n{ \"a\": 1 }\n```\n", "`{}`\n"), "52: \"Example\" holds one block"},
        {contract("### Counterexample: no a\n```json\n{ \"b\": \"x\" }\n```\n", "~~~\n"),
         "39: a block is fenced with ```"},
        {contract("It was placed.", "It was placed.\n---"), "10: lines of = or - make headings"},
        {contract("It was placed.", "It was placed. <!-- or not -->"), "9: comments are not read"},
        {contract("It was placed.", "It was \x01placed."), "9: this line holds the control"},
        {contract("It was placed.", "It was pl\xff"), "9: this line is not UTF-8"},
        {contract("{ \"a\": 1 }\n```\n", "{ \"a\": 1 }\n"), "53: this block is not closed"},
        {contract("---\nevent", "\xEF\xBB\xBF---\nevent"), "1: the file begins with a byte order"},
        {"", "1: the first line has to be \"---\""},
    };
    for (const auto &[text, problem] : cases)
    {
        write("orders/order-placed.md", text);
        const Ran ran = lint();
        EXPECT_EQ(ran.status, 4) << problem;
        EXPECT_NE(ran.out.find("orders/order-placed.md:" + problem), std::string::npos)
            << problem << "\n"
            << ran.out;
    }
}

TEST_F(Contracts, JsonIsCheckedLineByLine)
{
    EXPECT_TRUE(refused(contract("  \"b\": \"x\"\n}", "  \"b\": \"x\",\n}"),
                        "37: this is no JSON: syntax error"));
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,\n", "{\n  \"b\": \"\",\n"),
                        "36: the name \"b\" is there twice"));
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,", "{\n  \"c\": " + std::string(70, '[') +
                                                       std::string(70, ']') + ",\n  \"a\": 1,"),
                        "35: this is nested more than 64 deep"));
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,", "{\n  \"a\": 1.5,"),
                        "35: the example violates the schema of version 2 at /a: "));
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,", "{\n  \"c\": 1,"),
                        "34: the example violates the schema of version 2: Missing required"));
    EXPECT_TRUE(refused(contract("{ \"b\": \"x\" }", "{ \"a\": 5 }"),
                        "41: the counterexample conforms to the schema of version 2"));
}

TEST_F(Contracts, SchemasAreChecked)
{
    const auto with = [](const std::string &line)
    { return contract("  \"type\": \"object\",", "  " + line + ","); };
    EXPECT_TRUE(refused(with(R"("requierd": ["a"])"), "24: JSON Schema draft 7 has no keyword"));
    EXPECT_TRUE(refused(with(R"("type": "objekt")"), "24: \"type\" takes null, boolean, object"));
    EXPECT_TRUE(refused(with(R"("allOf": [])"), "24: \"allOf\" takes a list of schemas"));
    EXPECT_TRUE(refused(with(R"("not": 5)"), "24: here a schema is expected"));
    EXPECT_TRUE(refused(with(R"("pattern": "((")"), "24: the pattern cannot be read"));
    EXPECT_TRUE(refused(contract("-07/schema#", "-04/schema#"), "23: \"$schema\" is \"http"));
    EXPECT_TRUE(refused(contract("  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  "
                                 "\"type\"",
                                 "  \"type\""),
                        "22: the schema is an object with \"$schema\""));
    EXPECT_TRUE(
        refused(with(R"("not": {"$ref": "#/definitions/no"})"), "24: \"$ref\" leads to no schema"));
    EXPECT_TRUE(refused(with(R"("not": {"$ref": "#/properties/a", "type": "string"})"),
                        "24: \"type\" has no effect beside \"$ref\""));
    EXPECT_TRUE(
        refused(with(R"("anyOf": [true, {"$ref": "#"}])"), "22: this schema leads back to itself"));
    EXPECT_TRUE(
        refused(with(R"("maxLength": 18446744073709551615)"), "22: the schema cannot be used"));
    // The validator gives no reason, or did not always.
    write("orders/order-placed.md", with(R"("propertyNames": false)"));
    EXPECT_NE(lint().out.find(".md:34: the example violates the schema of version 2: "),
              std::string::npos)
        << lint().out;
    // What goes into the value may come back.
    write("orders/order-placed.md", with(R"("additionalProperties": {"$ref": "#"})"));
    EXPECT_EQ(lint().status, 0) << lint().out;
}

TEST_F(Contracts, WhatEachKeywordTakesIsChecked)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {R"("required": "a")", "\"required\" takes a list of different strings"},
        {R"("required": ["a", "a"])", "\"required\" takes a list of different strings"},
        {R"("required": [1])", "\"required\" takes a list of different strings"},
        {R"("type": [])", "\"type\" takes null, boolean"},
        {R"("type": ["string", "objekt"])", "\"type\" takes null, boolean"},
        {R"("maxLength": -1)", "\"maxLength\" takes a number from 0 on"},
        {R"("maximum": "1")", "\"maximum\" takes a number"},
        {R"("multipleOf": "1")", "\"multipleOf\" takes a number above 0"},
        {R"("multipleOf": 0)", "\"multipleOf\" takes a number above 0"},
        {R"("uniqueItems": 1)", "\"uniqueItems\" takes true or false"},
        {R"("title": 1)", "\"title\" takes a string"},
        {R"("enum": 1)", "\"enum\" takes a list"},
        {R"("allOf": {})", "\"allOf\" takes a list of schemas"},
        {R"("properties": [])", "\"properties\" takes an object of schemas"},
        {R"("$schema": "http://json-schema.org/draft-07/schema#")", "\"$schema\" is \"http"},
        {R"("$id": "a")", "\"$id\" stands at the top only"},
        {R"("$ref": "#/definitions/%30")", "\"$ref\" holds a %"},
        {R"("pattern": ")" + std::string(501, 'x') + "\"", "the pattern is longer than 500 bytes"},
        {R"("patternProperties": { "(": true })", "the pattern cannot be read"},
    };
    std::string schemas;
    for (std::size_t i = 0; i < cases.size(); i++)
        schemas += (i == 0 ? "\"" : ",\n\"") + std::to_string(i) + "\": {" + cases[i].first + "}";
    write("orders/order-placed.md",
          contract("  \"type\": \"object\",", "\"definitions\": {\n" + schemas + "},"));
    const Ran ran = lint();
    for (std::size_t i = 0; i < cases.size(); i++)
        EXPECT_NE(ran.out.find(".md:" + std::to_string(25 + i) + ": " + cases[i].second),
                  std::string::npos)
            << cases[i].first << "\n"
            << ran.out;
    EXPECT_NE(ran.out.find(": " + std::to_string(cases.size()) + " problems\n"), std::string::npos)
        << ran.out;

    std::string other = contract("-07/schema#", "-07/schema");
    const std::string type = "  \"type\": \"object\",";
    other.replace(other.find(type), type.size(), R"("dependencies": {"b": ["a"]},)");
    write("orders/order-placed.md", other);
    EXPECT_EQ(lint().status, 0) << lint().out;
}

TEST_F(Contracts, ACircleIsFoundFromOutsideOfIt)
{
    EXPECT_TRUE(refused(contract("  \"type\": \"object\",",
                                 "\"allOf\": [{ \"$ref\": \"#/definitions/a\" }],\n"
                                 "\"definitions\": {\n"
                                 "\"a\": { \"not\": { \"$ref\": \"#/definitions/a\" } } },"),
                        "26: this schema leads back to itself"));
}

TEST_F(Contracts, OfAnExampleTenViolationsAreTold)
{
    std::string members;
    for (int i = 0; i < 12; i++)
        members += ", \"x" + std::to_string(i) + "\": 1";
    std::string text = contract("  \"type\": \"object\",",
                                "  \"additionalProperties\": { \"type\": \"string\" },");
    const std::string example = "\"b\": \"x\"\n}";
    text.replace(text.find(example), example.size(), "\"b\": \"x\"" + members + "\n}");
    write("orders/order-placed.md", text);
    EXPECT_NE(lint().out.find(": 10 problems\n"), std::string::npos) << lint().out;
}

TEST_F(Contracts, AFormatSaysNothingOfWhatIsNoText)
{
    const std::string schema = R"("b": { "type": "string" })";
    const std::string nullable = R"("b": { "type": ["string", "null"], "format": "date" })";
    const auto with_example = [&](const std::string &b)
    {
        std::string text = contract(schema, nullable);
        const std::string old = R"("b": "x")";
        return text.replace(text.find(old), old.size(), R"("b": )" + b);
    };
    write("orders/order-placed.md", with_example("null"));
    EXPECT_EQ(lint().status, 0) << lint().out;
    write("orders/order-placed.md", with_example(R"("2026-11-21")"));
    EXPECT_EQ(lint().status, 0) << lint().out;
    write("orders/order-placed.md", with_example(R"("x")"));
    EXPECT_TRUE(refused("orders/order-placed.md:36: the example violates the schema of version 2 "
                        "at /b: "));
    write("orders/order-placed.md", with_example("5"));
    EXPECT_TRUE(refused("orders/order-placed.md:36: the example violates the schema of version 2 "
                        "at /b: "));
}

TEST_F(Contracts, ProblemsAreToldInTheOrderOfTheirLines)
{
    std::string text = contract("It was placed.\n", "");
    const std::string section = "## Consumers\nIgnore what you do not know.\n";
    write("orders/order-placed.md", text.replace(text.find(section), section.size(), ""));
    const std::string out = lint().out;
    const std::size_t first = out.find(".md:1: the section \"## Consumers\" is missing");
    const std::size_t second = out.find(".md:8: below the title");
    EXPECT_NE(second, std::string::npos) << out;
    EXPECT_LT(first, second) << out;
    // Without an event type, nothing is compared with it.
    EXPECT_TRUE(refused(contract("event_type: order.placed\n", ""), "1: the front matter lacks"));
}

TEST_F(Contracts, NothingIsFetched)
{
    for (const std::string where :
         {"http://127.0.0.1:1/a.json", "file:///etc/passwd", "other.json#/definitions/a"})
        EXPECT_TRUE(
            refused(contract("{ \"type\": \"integer\" }", "{ \"$ref\": \"" + where + "\" }"),
                    "26: \"$ref\" leads out of the schema to \"" + where + "\""));
}

TEST_F(Contracts, VersionsAreAsCompatibleAsTheySay)
{
    const std::string required = contract("\"required\": [\"a\"]", "\"required\": [\"a\", \"b\"]");
    EXPECT_TRUE(refused(required, "54: not backward compatible: this example of version 1 "
                                  "violates the schema of version 2: Missing required"));
    const auto as = [](std::string text, const std::string &mode)
    { return text.replace(text.find("backward"), 8, mode); };
    EXPECT_TRUE(refused(as(required, "full"), "54: not backward"));
    write("orders/order-placed.md", as(required, "none"));
    EXPECT_EQ(lint().status, 0) << lint().out;
    write("orders/order-placed.md", as(required, "forward"));
    EXPECT_EQ(lint().status, 0) << lint().out;

    std::string closed = kContract;
    const std::string last = "\"integer\" } },\n";
    closed.insert(closed.rfind(last) + last.size(), "  \"additionalProperties\": false,\n");
    write("orders/order-placed.md", closed);
    EXPECT_EQ(lint().status, 0) << lint().out;
    EXPECT_TRUE(refused(as(closed, "forward"), "34: not forward compatible: this example of "
                                               "version 2 violates the schema of version 1"));
}

TEST_F(Contracts, EachEventTypeHasOneContractInTheFileOfItsName)
{
    write("orders/order-placed.md", kContract);
    write("sales/order-placed.md", kContract);
    EXPECT_TRUE(refused("sales/order-placed.md:2: there is a contract of \"order.placed\" of "
                        "\"order\" already: " +
                        folder_.string() + "/orders/order-placed.md"));
    write("sales/order-placed.md", contract("aggregate_type: order", "aggregate_type: offer"));
    EXPECT_EQ(lint().status, 0) << lint().out;
    std::filesystem::rename(folder_ / "sales/order-placed.md", folder_ / "sales/placed.md");
    EXPECT_TRUE(refused("sales/placed.md:2: the contract of \"order.placed\" has to be named"));
}

TEST_F(Contracts, TheTemplateIsCheckedButForItsName)
{
    write("orders/order-placed.md", kContract);
    write("TEMPLATE.md", kContract);
    EXPECT_EQ(lint().out, "1 contract, 2 versions, 3 examples: 0 problems\n");
    write("TEMPLATE.md", contract("Adds b.\n", ""));
    EXPECT_TRUE(refused("TEMPLATE.md:18: what the version changed is not said"));
}

TEST_F(Contracts, WhatDoesNotBelongIntoTheFolderIsNamed)
{
    const auto inside = [&](const std::string &path, const std::string &problem)
    {
        write("orders/order-placed.md", kContract);
        EXPECT_TRUE(refused(path + ":1: this " + problem));
        std::filesystem::remove_all(folder_);
    };
    write("stray.md", "");
    inside("stray.md", "does not belong here");
    write("orders/order.json", "");
    inside("orders/order.json", "is no contract");
    for (const std::string name : {"Orders X", "-orders", "orders-", "or--ders"})
    {
        write(name + "/README.md", "");
        inside(name, "is no name of a domain");
    }
    write("orders/deep/a.md", "");
    inside("orders/deep", "is a directory");
    write("orders/big.md", std::string(256UL * 1024 + 1, 'x'));
    inside("orders/big.md", "is larger than 256 KiB");
    std::filesystem::create_directories(folder_ / "orders");
    std::filesystem::create_directory_symlink("..", folder_ / "orders/loop");
    inside("orders/loop", "is a symbolic link");
    std::filesystem::create_directories(folder_);
    std::filesystem::create_symlink("loop", folder_ / "loop");
    inside("loop", "is a symbolic link");
    std::filesystem::create_directories(folder_ / "orders");
    ASSERT_EQ(::mkfifo((folder_ / "orders/pipe.md").c_str(), 0600), 0);
    inside("orders/pipe.md", "is no file");
    std::filesystem::create_directories(folder_ / "orders");
    ASSERT_EQ(::mknod((folder_ / "orders/socket.md").c_str(), S_IFSOCK | 0600, 0), 0);
    inside("orders/socket.md", "cannot be read: No such device or address");
}

TEST_F(Contracts, AFolderHasTenThousandFilesAtMost)
{
    const auto refuses = [&](const std::string &why)
    {
        const Ran ran = lint();
        EXPECT_EQ(ran.status, 1) << ran.out.substr(0, 1000);
        EXPECT_NE(ran.err.find("there are more than 10000 " + why), std::string::npos) << ran.err;
    };
    const std::filesystem::path first = folder_ / "orders/0.md";
    write("orders/0.md", "");
    for (int i = 1; i < 10000; i++)
        std::filesystem::create_hard_link(first, folder_ / "orders" / (std::to_string(i) + ".md"));
    write("sales/a.md", "");
    refuses("contracts");
    write("orders/a.md", "");
    refuses("files in");
}

TEST_F(Contracts, WhatCannotBeCheckedInTimeOrMemoryIsAProblem)
{
    // Every member doubles the work; so do the alternatives of a pattern that nearly matches.
    const std::string slow = contract("\"b\": { \"type\": \"string\" }",
                                      R"("b": { "type": "string", "pattern": "^(a|a)*$" })");
    const std::string text = "\"b\": \"" + std::string(60, 'a') + "!\"\n";
    std::string hanging = slow;
    hanging.replace(hanging.find("\"b\": \"x\"\n"), 9, text);
    EXPECT_TRUE(refused(hanging, "1: checking this contract took more than 3 s"));
    std::string deep = slow;
    deep.replace(deep.find("\"b\": \"x\"\n"), 9, "\"b\": \"" + std::string(200000, 'a') + "\"\n");
    EXPECT_TRUE(refused(deep, "1: checking this contract took more"));
    // A name that each of many examples lacks is told as often.
    const std::string long_name =
        contract("\"required\": [\"a\"]", "\"required\": [\"" + std::string(100000, 'a') + "\"]");
    const auto with_examples = [&](int count)
    {
        std::string lacking = long_name;
        std::string examples;
        for (int i = 0; i < count; i++)
            examples += "### Example\n```json\n{}\n```\n";
        return lacking.insert(lacking.find("### Counterexample"), examples);
    };
    EXPECT_TRUE(refused(with_examples(300), "1: checking this contract did not end well"));
    EXPECT_TRUE(refused(with_examples(4000), "1: checking this contract took more memory"));
}

TEST_F(Contracts, AFolderThatIsNotThereOrEmptyIsAnError)
{
    Ran ran = lint();
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("there is no contract in"), std::string::npos) << ran.err;
    ran = ctl({}, {"contracts", "lint", folder_ / "nowhere"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("No such file or directory"), std::string::npos) << ran.err;
    EXPECT_EQ(ctl({}, {"contracts", "lint", "a", "b"}).status, 2);
    EXPECT_EQ(ctl({}, {"contracts"}).status, 2);
}

TEST_F(Contracts, WithJsonProblemsHaveFileLineAndMessage)
{
    write("orders/order-placed.md", contract("Adds b.\n", ""));
    const Ran ran = lint({"--json"});
    EXPECT_EQ(ran.status, 4);
    const Json report = ran.json();
    EXPECT_EQ(report["contracts"], 1);
    EXPECT_EQ(report["versions"], 2);
    EXPECT_EQ(report["examples"], 3);
    ASSERT_EQ(report["problems"].size(), 1U) << report;
    EXPECT_EQ(report["problems"][0]["file"], folder_.string() + "/orders/order-placed.md");
    EXPECT_EQ(report["problems"][0]["line"], 18);
    EXPECT_EQ(report["problems"][0]["message"], "what the version changed is not said");
}

} // namespace

} // namespace outbox::test
