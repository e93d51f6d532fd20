// contracts lint: schemas, examples, and what they are to each other
#include "contracts.h"

namespace outbox::test
{

namespace
{

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

    write("orders/order-placed.md",
          replaced(contract("-07/schema#", "-07/schema"), "  \"type\": \"object\",",
                   R"("dependencies": {"b": ["a"]},)"));
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
    const std::string text = contract("  \"type\": \"object\",",
                                      "  \"additionalProperties\": { \"type\": \"string\" },");
    write("orders/order-placed.md",
          replaced(text, "\"b\": \"x\"\n}", "\"b\": \"x\"" + members + "\n}"));
    EXPECT_NE(lint().out.find(": 10 problems\n"), std::string::npos) << lint().out;
}

TEST_F(Contracts, AFormatSaysNothingOfWhatIsNoText)
{
    const std::string schema = R"("b": { "type": "string" })";
    const std::string nullable = R"("b": { "type": ["string", "null"], "format": "date" })";
    const auto with_example = [&](const std::string &b)
    { return replaced(contract(schema, nullable), R"("b": "x")", R"("b": )" + b); };
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
    const auto as = [](const std::string &text, const std::string &mode)
    { return replaced(text, "backward", mode); };
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

TEST_F(Contracts, WhatCannotBeCheckedInTimeOrMemoryIsAProblem)
{
    // Every member doubles the work; so do the alternatives of a pattern that nearly matches.
    const std::string slow = contract("\"b\": { \"type\": \"string\" }",
                                      R"("b": { "type": "string", "pattern": "^(a|a)*$" })");
    const auto with_b = [&](const std::string &b)
    { return replaced(slow, "\"b\": \"x\"\n", "\"b\": \"" + b + "\"\n"); };
    EXPECT_TRUE(refused(with_b(std::string(60, 'a') + "!"),
                        "1: checking this contract took more than 3 s"));
    EXPECT_TRUE(refused(with_b(std::string(200000, 'a')), "1: checking this contract took more"));
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
    // Whichever bound a busy machine meets first.
    EXPECT_TRUE(refused(with_examples(4000), "1: checking this contract took more"));
}

} // namespace

} // namespace outbox::test
