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
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,", "\xEF\xBB\xBF{\n  \"a\": 1,"),
                        "34: this begins with a byte order mark (U+FEFF); remove it"));
    EXPECT_TRUE(refused(contract("{\n  \"$schema\"", "\xEF\xBB\xBF{\n  \"$schema\""),
                        "22: this begins with a byte order mark (U+FEFF); remove it"));
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,", "{\n  \"a\": 1.5,"),
                        "35: the example violates the schema of version 2 at /a: "));
    EXPECT_TRUE(refused(contract("{\n  \"a\": 1,", "{\n  \"c\": 1,"),
                        "34: the example violates the schema of version 2: Missing required"));
    EXPECT_TRUE(refused(contract("{ \"b\": \"x\" }", "{ \"a\": 5 }"),
                        "41: the counterexample conforms to the schema of version 2"));
}

TEST_F(Contracts, WhatJsonbCannotHoldIsNoExample)
{
    const std::string why =
        "PostgreSQL's jsonb cannot hold \\u0000, so no event has this payload\n";
    for (const char *b : {R"("x\u0000")", R"("\u0000", "c": "\u0000")", R"("", "c\u0000": 1)",
                          R"("", "c": [[{"d": "\u0000"}]])"})
        EXPECT_TRUE(
            refused(contract("\"b\": \"x\"\n", "\"b\": " + std::string(b) + "\n"), "36: " + why))
            << b;
    EXPECT_TRUE(refused(contract("### Example\n```json\n{ \"a\": 1 }",
                                 "### Example\n```json\n{ \"a\": 1,\n\"z\": \"\\u0000\" }"),
                        "55: " + why));
    write("orders/order-placed.md", contract("\"b\": \"x\"\n", R"("b": "\\u0000 \u0001 0")"
                                                               "\n"));
    EXPECT_EQ(lint().status, 0) << lint().out;
    // What no event has may be a counterexample.
    write("orders/order-placed.md", contract("{ \"b\": \"x\" }", R"({ "b": "\u0000" })"));
    EXPECT_EQ(lint().status, 0) << lint().out;
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
    // Each has a reason.
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
        {R"("maxItems": 5.5)", "\"maxItems\" takes a number from 0 on"},
        {R"("maxItems": "5")", "\"maxItems\" takes a number from 0 on"},
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

// By the draft: numbers count by their values, texts by their characters.
TEST_F(Contracts, ValuesConformAsTheDraftSays)
{
    struct Case
    {
        const char *schema; // without braces
        Words conform;
        Words violate;
    };
    const std::vector<Case> cases = {
        {R"("propertyNames": {"maxLength": 2})", {R"({"äö": 1})"}, {R"({"äöü": 1})"}},
        {R"("minLength": 1.0, "maxLength": 2e0)", {R"("a")", R"("ab")"}, {R"("")", R"("abc")"}},
        {R"("minItems": -0.0, "maxItems": 1e300)", {"[]", "[1, 2]"}, {}},
        {R"("minLength": 2, "maxLength": 18446744073709551615)", {R"("😀😀")", "7"}, {R"("😀")"}},
        {R"("multipleOf": 0.01)",
         {"25", "19.99", "0.07", "4.35", "-19.99", "0", "1e10", "123456789.12"},
         {"19.999", "0.001", "25.001"}},
        {R"("multipleOf": 3)",
         {"9", "-3", "9.0", "9007199254740993", "3e22", "-9223372036854775806"},
         {"10", "9.5", "1e23", "-9223372036854775808", "1e308"}},
        // Large ones with a fraction; very large and very small ones.
        {R"("multipleOf": 1)",
         {"1000000000000000", "-1e300", "0.0", "-0.0", "123456789012345678901234567890"},
         {"1000000000000000.5", "-1000000000000000.5", "0.1", "-1e-300", "4503599627370495.5"}},
        {R"("multipleOf": 0.01)",
         {"9999999999999.99", "99999999999999.99", "1e300", "9007199254740993"},
         {"9999999999999.995", "999999999999.995", "1e-3"}},
        {R"("multipleOf": 0.5)",
         {"999999999999999.5", "1e15", "-0.5"},
         {"999999999999999.25", "999999999999999.75"}},
        {R"("multipleOf": 1e-300)", {"1e308", "2e-300", "0.7"}, {"1.5e-300", "1e-301", "5e-324"}},
        {R"("multipleOf": 1e300)", {"0", "3e300", "1e301"}, {"1", "1.5e300", "1e299"}},
        {R"("multipleOf": 18446744073709551615)",
         {"18446744073709551615", "0"},
         {"18446744073709551614", "-1", "1e19", "1.8446744073709551e300"}},
        {R"("type": "integer")",
         {"1.0", "1e2", "-1", "123456789012345678901234567890"},
         {"1.5", R"("1")", "true", "null"}},
        {R"("maximum": 9007199254740992)", {"9007199254740992"}, {"9007199254740993"}},
        {R"("exclusiveMinimum": 1, "exclusiveMaximum": 10)", {"2", "1.0001"}, {"1", "10"}},
        {R"("const": 1)", {"1", "1.0"}, {"true", R"("1")", "[1]"}},
        {R"("const": -1)", {"-1", "-1.0"}, {"18446744073709551615", "1"}},
        {R"("const": 18446744073709551615)",
         {"18446744073709551615"},
         {"-1", "18446744073709551614"}},
        {R"("enum": [9007199254740993, {"a": [-1]}])",
         {"9007199254740993", R"({"a": [-1.0]})"},
         {"9007199254740992.0", R"({"a": [18446744073709551615]})", R"({"b": [-1]})"}},
        {R"("enum": [1, "a", null, {"x": [1]}])",
         {"1.0", R"("a")", "null", R"({"x": [1]})"},
         {"2", "false", R"("1")", R"({"x": [2]})"}},
        {R"("uniqueItems": true)",
         {R"([1, "1", true, null, [], {}])", "[-1, 18446744073709551615, 0, false, 1, true]",
          R"([[-1], [18446744073709551615], {"a": -1}, {"b": -1}])"},
         {"[1, 1.0]", R"([{"a": 1}, 2, {"a": 1}])", "[18446744073709551615, -1, 1, 0, -1.0]",
          R"([{"a": [0, 1]}, {"a": [0.0, 1.0]}])"}},
        {R"("items": [{"type": "integer"}], "additionalItems": false)",
         {"[1]", "[]", "1"},
         {"[1, 2]", R"(["a"])"}},
        {R"("items": {"type": "integer"}, "additionalItems": false)", {"[1, 2]"}, {R"([1, "a"])"}},
        {R"("contains": {"const": 1}, "minItems": 1, "maxItems": 2)",
         {"[2, 1]", "5"},
         {"[2]", "[]", "[1, 1, 1]"}},
        {R"("properties": {"a": true, "b": false}, "patternProperties": {"^x": {"minimum": 2}},
            "additionalProperties": {"type": "null"})",
         {R"({"a": 1, "x": 2, "y": null})", "3"},
         {R"({"b": 1})", R"({"x": 1})", R"({"y": 1})"}},
        {R"("dependencies": {"a": ["b"], "c": {"minProperties": 2}, "d": false})",
         {"{}", R"({"a": 1, "b": 1})", R"({"c": 1, "x": 1})"},
         {R"({"a": 1})", R"({"c": 1})", R"({"d": 1})"}},
        {R"("if": {"required": ["k"]}, "then": {"required": ["x"]}, "else": {"maxProperties": 1})",
         {R"({"k": 1, "x": 1})", R"({"y": 1})"},
         {R"({"k": 1})", R"({"y": 1, "z": 1})"}},
        {R"("oneOf": [{"multipleOf": 3}, {"multipleOf": 5}], "not": {"const": 5})",
         {"3", "10"},
         {"15", "7", "5"}},
        {R"("anyOf": [{"type": "string"}, {"allOf": [{"minimum": 3}, {"maximum": 4}]}])",
         {R"("x")", "3"},
         {"2", "5"}},
        {R"("definitions": {"a/b~c": {"$ref": "#/definitions/d"}, "d": {"format": "date"}},
            "properties": {"x": {"$ref": "#/definitions/a~1b~0c"}, "n": {"$ref": "#"}})",
         {R"({"x": "2024-02-29", "n": {"x": 5}})"},
         {R"({"n": {"n": {"x": "2025-02-29"}}})", R"({"x": "2026-1-1"})",
          R"({"x": "2026-04-31"})"}},
        {R"("format": "date-time")",
         {R"("2026-01-31T10:00:00Z")", R"("2026-06-30t23:59:60.5z")",
          R"("2027-01-01T05:29:60+05:30")", R"("2026-12-31T15:59:60-08:00")"},
         {R"("2026-01-31 10:00:00Z")", R"("2026-01-31T10:00:00")", R"("2026-02-30T10:00:00Z")",
          R"("2026-01-31T10:00:00.Z")", R"("2026-01-31T10:00:00Zx")", R"("2026-12-31T12:00:60Z")",
          R"("2026-12-31T23:59:60+05:30")", R"("2026-12-31T23:59:61Z")",
          R"("2026-12-31T23:58:60Z")"}},
        {R"("properties": {"format": {"const": 1}, "const": {"format": "time"}})",
         {R"({"format": 1, "const": "10:00:00Z"})"},
         {R"({"format": 2})", R"({"const": "24:00:00Z"})"}},
    };
    for (const Case &each : cases)
    {
        write("orders/order-placed.md", contract_of(each.schema, each.conform, each.violate));
        const Ran ran = lint();
        EXPECT_EQ(ran.status, 0) << each.schema << "\n" << ran.out;
    }
}

TEST_F(Contracts, AnExampleOfManyItemsIsNoTroubleForTheLimits)
{
    std::string items;
    for (int i = 0; i < 60000; i++)
        items += i == 0 ? "1" : ",\n1";
    const std::string list =
        contract("{ \"type\": \"string\" }", "{ \"items\": { \"type\": \"integer\" } }");
    write("orders/order-placed.md", replaced(list, "\"b\": \"x\"\n}", "\"b\": [" + items + "]\n}"));
    const Ran ran = lint();
    EXPECT_EQ(ran.status, 0) << ran.out;
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
    EXPECT_TRUE(refused(as(closed, "forward"),
                        "36: not forward compatible: this example of "
                        "version 2 violates the schema of version 1 at /b: "));
}

// Each character, and each definition, is one level more of what checks it.
TEST_F(Contracts, LongTextsAndChainsOfDefinitionsAreChecked)
{
    const auto with = [](const std::string &pattern, const std::string &b)
    {
        return replaced(contract("\"b\": { \"type\": \"string\" }",
                                 R"("b": { "type": "string", "pattern": ")" + pattern + "\" }"),
                        "\"b\": \"x\"\n", "\"b\": \"" + b + "\"\n");
    };
    for (const std::string pattern : {"^[a-z]*$", "^(a|b)*$", "^((a|b|c)+x?)*$"})
    {
        write("orders/order-placed.md", with(pattern, std::string(100000, 'a')));
        EXPECT_EQ(lint().status, 0) << lint().out;
        EXPECT_TRUE(refused(with(pattern, std::string(100001, 'a')),
                            "34: the schema cannot be applied: a text of 100001 characters is "
                            "longer than the 100000 that patterns are tried with"));
    }
    const auto chain = [](int count, const std::string &end)
    {
        std::string definitions;
        for (int i = 0; i < count; i++)
            definitions += "\"d" + std::to_string(i) + "\": { \"$ref\": \"#/definitions/d" +
                           std::to_string(i + 1) + "\" },\n";
        return contract("  \"type\": \"object\",", "  \"definitions\": {" + definitions + "\"d" +
                                                       std::to_string(count) + "\": " + end +
                                                       " },\n  \"not\": { \"$ref\": "
                                                       "\"#/definitions/d0\" },");
    };
    for (const int count : {2000, 4000})
    {
        write("orders/order-placed.md", chain(count, "{ \"type\": \"array\" }"));
        EXPECT_EQ(lint().status, 0) << count << lint().out;
        write("orders/order-placed.md", chain(count, "{ \"$ref\": \"#/definitions/d0\" }"));
        EXPECT_NE(lint().out.find("this schema leads back to itself"), std::string::npos)
            << count << lint().out;
    }
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
    // Whichever bound a busy machine meets first; each is named.
    for (const int count : {300, 4000})
        EXPECT_TRUE(refused(with_examples(count), Words{"1: checking this contract took more",
                                                        "1: checking this contract gave more"}));
}

} // namespace

} // namespace outbox::test
