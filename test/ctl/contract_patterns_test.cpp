// contracts lint: patterns, which are those of ECMA-262
#include "contracts.h"

namespace outbox::test
{

namespace
{

TEST_F(Contracts, PatternsMatchAsEcmaScriptSays)
{
    struct Case
    {
        const char *schema; // without braces
        Words conform;
        Words violate;
    };
    const std::vector<Case> cases = {
        {R"("type": "string", "pattern": "^.{3}$")",
         {R"("äöü")", R"("日本語")", R"("😀bc")"},
         {R"("ä")", R"("ab")", R"("äö")"}},
        {R"("pattern": "^[äöü]$")", {R"("ä")", "1"}, {R"("a")", R"("ää")"}},
        {R"("pattern": "^[а-я]+$")", {R"("привет")"}, {R"("hello")", R"("П")"}},
        {R"("pattern": "^[^é]$")", {R"("è")", R"("x")"}, {R"("é")"}},
        {R"("pattern": "^\\u00e9\\d?$")", {R"("é")", R"("é5")"}, {R"("e")"}},
        {R"("patternProperties": {"^.$": {"type": "integer"}})",
         {R"({"é": 1, "éé": "x"})"},
         {R"({"é": "a"})"}},
        // As ECMA-262 has it: white space, control characters, line ends, brackets.
        {R"("pattern": "^\\s[\\s]$")",
         {R"("\u00a0\ufeff")", R"(" \u2003")", R"("\u2028\n")", R"("\u3000\u000b")"},
         {R"("a ")", R"("\u200b\u200b")", R"("\u0085\u0085")"}},
        {R"("pattern": "^\\S[^\\S\\d][\\Sx]$")",
         {R"("a b")", R"("é\u00a0😀")"},
         {R"("\u00a0 a")", R"("aaa")", R"("a5a")", R"("a \u2009")"}},
        {R"("pattern": "^\\cJ[\\cm-\\cN]$")",
         {R"("\n\r")", R"("\n\u000e")"},
         {R"("Jm")", R"("J\r")", R"("\nm")"}},
        {R"("pattern": "^.[.]$")", {R"("a.")"}, {R"("\u2028.")", R"("\n.")", R"("aa")"}},
        {R"("pattern": "^[[:alpha:]]$")", {R"("a]")", R"("[]")", R"(":]")"}, {R"("b]")", R"("a")"}},
        {R"("pattern": "^[\\]\\\\.]{3}\\.$")", {R"("]\\..")"}, {R"("]\\.a")", R"("a]..")"}},
        {R"("pattern": "^[\\w-][-\\w][+-.][\\b][]?$")",
         {R"("--,\b")", R"("aa+\b")"},
         {R"("--b\b")"}},
        {R"("pattern": "^[^][^]$|[]")", {R"("\n😀")"}, {R"("a")"}},
        {R"("not": {"pattern": "^\\-\\@]}\\x41\\0\\/$"})", {R"("-@]}A0/")"}, {R"("-@]}A\u0000/")"}},
        // Two surrogates are one character.
        {R"("pattern": "^\\ud83d\\ude00{2}$")", {R"("😀😀")"}, {R"("😀")"}},
        {R"("pattern": "^[\\uD83D\\uDE00-\\ud83d\\ude02]$")", {R"("😀")", R"("😁")"}, {R"("😃")"}},
        // A group that took no part is empty, and each turn of a loop forgets its groups.
        {R"("pattern": "^(a)?\\1b$")", {R"("b")", R"("aab")"}, {R"("ab")"}},
        {R"("pattern": "^(?:(a)|b)*\\1$")", {R"("ab")", R"("baa")"}, {R"("ba")", R"("aba")"}},
        {R"("pattern": "^(?:(a)|(b)\\1)+c\\2$")",
         {R"("abcb")", R"("aac")"},
         {R"("abc")", R"("aacb")"}},
        {R"("pattern": "^\\2(a\\1)(b)\\1{2}$")", {R"("abaa")"}, {R"("aba")", R"("babaa")"}},
        {R"("pattern": "^(?=(a+))a*b\\1$")", {R"("aba")", R"("aabaa")"}, {R"("aab")", R"("aaba")"}},
        {R"("pattern": "^(?!(a)b)\\w\\1c$")", {R"("ac")", R"("bc")"}, {R"("abc")", R"("aac")"}},
        {R"("pattern": "^(?:(?=(a))a){2}\\1b$")", {R"("aaab")"}, {R"("aab")"}},
        // What is looked at ahead begins where one is.
        {R"("pattern": "^x(?=\\b)y$")", {"1"}, {R"("xy")"}},
        {R"("pattern": "^a(?=^b)b$")", {"1"}, {R"("ab")"}},
        {R"("pattern": "^a(?!^)b$")", {R"("ab")"}, {R"("b")"}},
        // Loops: empty turns, large numbers, the short way first.
        {R"("pattern": "^(?:a*)*(?:b?){3}(?:)*$")",
         {R"("")", R"("aab")", R"("bbb")"},
         {R"("abbbb")"}},
        {R"("pattern": "^x{0,65535}y{2,99999999999}z{0}$")",
         {R"("yy")", R"("xxyyy")"},
         {R"("xy")"}},
        {R"("pattern": "^(a+?)(a*?)(b??)\\1$")", {R"("aa")", R"("aba")"}, {R"("a")", R"("ab")"}},
        {R"("pattern": "\\bor\\b|\\Bx\\B")",
         {R"("a or b")", R"("axb")", R"("or")"},
         {R"("for x")", R"("xor")"}},
    };
    for (const Case &each : cases)
    {
        write("orders/order-placed.md", contract_of(each.schema, each.conform, each.violate));
        const Ran ran = lint();
        EXPECT_EQ(ran.status, 0) << each.schema << "\n" << ran.out;
    }
}

// Whatever the flag "u" would read in another way, too, as validators differ in that.
TEST_F(Contracts, PatternsThatCannotBeReadAreRefusedWithTheReason)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"a(b", "no ) belongs to this (, at character 2"},
        {"(?=a", "no ) belongs to this (, at character 1"},
        {"ab)", "no ( belongs to this ), at character 3"},
        {"[a]]b[", "no ] belongs to this [, at character 6"},
        {"[^a", "no ] belongs to this [, at character 1"},
        {"a|*", "there is nothing that could be repeated, at character 3"},
        {"^*", "there is nothing that could be repeated, at character 2"},
        {"(?=a)?", "there is nothing that could be repeated, at character 6"},
        {"^a++$", "there is nothing that could be repeated, at character 4"},
        {"^a**$", "there is nothing that could be repeated, at character 4"},
        {"^[0-9]{2}{2}$",
         "this { repeats nothing; as a character it is written \\{, at character 10"},
        {"a**", "there is nothing that could be repeated, at character 3"},
        {"äa{,5}", "this { repeats nothing; as a character it is written \\{, at character 3"},
        {"{1}", "this { repeats nothing; as a character it is written \\{, at character 1"},
        {"a{1", "this { repeats nothing; as a character it is written \\{, at character 2"},
        {"a{2,1}", "the least number of repetitions is above the largest one, at character 2"},
        {"[b-a]", "the range ends before it begins, at character 2"},
        {"[\\s-x]", "a range has a character on both sides; as a character, - is written \\-, at "
                    "character 2"},
        {"[\\w-.]", "a range has a character on both sides"},
        {"[a+-\\d]", "a range has a character on both sides; as a character, - is written \\-, at "
                     "character 3"},
        {"\\07", "there is no octal number; write \\x and two digits, at character 1"},
        {"[\\00]", "there is no octal number"},
        {"(a)\\2", "there is no group 2, at character 4"},
        {"[(](?:a)[\\]()]\\1", "there is no group 1"},
        {"[\\1]", "\\1 is not known, at character 2"},
        {"a\\z", "\\z is not known, at character 2"},
        {"\\p{L}", "\\p is not known, at character 1"},
        {"[\\B]", "\\B is not known"},
        {"(?<n>a)", "of the groups with (? those with (?:, (?= and (?! are known, at character 1"},
        {"(?<!a)b", "of the groups with (? those"},
        {"\\xg0", "\\x has 2 hexadecimal digits, at character 1"},
        {"\\u{61}", "\\u has 4 hexadecimal digits, at character 1"},
        {"\\c1", "behind \\c there is a letter from A to Z, at character 1"},
        {"a\\", "there is nothing behind \\, at character 2"},
    };
    for (const auto &[pattern, why] : cases)
    {
        std::string text;
        for (const char c : pattern)
            text += std::string(c == '\\' ? 2 : 1, c);
        EXPECT_TRUE(refused(contract_of("\"pattern\": \"" + text + "\"", {"1"}, {}),
                            "22: the pattern cannot be read: " + why))
            << pattern;
    }
}

} // namespace

} // namespace outbox::test
