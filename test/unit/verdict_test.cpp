// Texts that are cut to fit.
#include "extension/core/verdict.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace outbox
{

namespace
{

std::string
without_cut_character(std::string text)
{
    drop_cut_character(text.data());
    return text.c_str();
}

TEST(CutTexts, EndBeforeTheCharacterThatWasCut)
{
    const std::string whole = "aä€😀";
    EXPECT_EQ(without_cut_character(whole), whole);
    for (std::size_t size = 0; size < whole.size(); size++)
    {
        const std::string cut = without_cut_character(whole.substr(0, size));
        EXPECT_EQ(whole.substr(0, cut.size()), cut);
        EXPECT_EQ(cut, std::string(clip(whole, size))) << size;
    }
    EXPECT_EQ(without_cut_character("\x80\x80\x80\x80"), "\x80\x80\x80\x80") << "no UTF-8";
}

TEST(CutTexts, RefusalsAreWholeCharacters)
{
    std::string many;
    for (int i = 0; i < 200; i++)
        many += "€";
    for (const std::string &prefix : std::vector<std::string>{"", "a", "ab"})
    {
        const Verdict verdict = refuse("", "%s%s", prefix.c_str(), many.c_str());
        EXPECT_EQ((std::strlen(verdict.reason) - prefix.size()) % 3, 0U);
    }
}

} // namespace

} // namespace outbox
