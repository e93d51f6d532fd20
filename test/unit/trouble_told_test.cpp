#include "bgworker/engine/stream/trouble_told.h"

#include "support/seed.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace outbox::test
{

namespace
{

using Say = TroubleTold::Say;
using Lines = std::vector<Say>;

Steady
at_ms(std::int64_t ms)
{
    Steady moment;
    return plus_ms(moment, 1000 + ms);
}

Lines
said(TroubleTold &told, std::int64_t ms)
{
    Lines lines;
    for (Say say = told.next(at_ms(ms)); say != Say::nothing && lines.size() < 4;
         say = told.next(at_ms(ms)))
        lines.push_back(say);
    return lines;
}

TEST(TroubleTold, BeginAndEndAreSaidOnce)
{
    TroubleTold told;
    EXPECT_EQ(said(told, 0), Lines{});
    told.begin();
    EXPECT_EQ(said(told, 1), Lines{Say::begins});
    EXPECT_EQ(said(told, 3600 * 1000), Lines{});
    told.end();
    EXPECT_EQ(said(told, 3600 * 1000 + 1), Lines{Say::ends});
    EXPECT_EQ(said(told, 7200 * 1000), Lines{});
}

TEST(TroubleTold, TroubleThatIsOverBeforeTheNextLookIsSaidWithItsEnd)
{
    TroubleTold told;
    told.begin();
    told.end();
    EXPECT_EQ(said(told, 0), (Lines{Say::begins, Say::ends}));
}

TEST(TroubleTold, AnEndThatNobodySawIsNone)
{
    TroubleTold told;
    told.begin();
    EXPECT_EQ(said(told, 0), Lines{Say::begins});
    told.end();
    told.begin();
    EXPECT_EQ(said(told, 1), Lines{});
    told.end();
    EXPECT_EQ(said(told, 2), Lines{Say::ends});
}

TEST(TroubleTold, WhatLastsIsSaidAfterAMinuteAtTheLatest)
{
    TroubleTold told;
    told.begin();
    told.end();
    EXPECT_EQ(said(told, 0).size(), 2u);
    told.begin();
    EXPECT_EQ(said(told, TroubleTold::kPauseMs - 1), Lines{});
    EXPECT_EQ(said(told, TroubleTold::kPauseMs), Lines{Say::begins});
}

// Trouble that comes and goes at random: lines alternate, begin with a begin, are at most two a
// minute, and what has lasted for a minute, trouble or not, is what the last line says.
TEST(TroubleTold, LinesAreFewAndTrueHoweverTroubleComesAndGoes)
{
    std::mt19937_64 random(choose_seed());
    for (int history = 0; history < 300; history++)
    {
        TroubleTold told;
        bool failing = false;
        Say last = Say::nothing;
        std::int64_t now = 0;
        std::int64_t changed_at = 0;
        std::size_t begins = 0;
        const std::int64_t longest = history % 3 == 0 ? 300 : history % 3 == 1 ? 5000 : 100000;
        for (int step = 0; step < 600; step++)
        {
            now += static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest));
            if (random() % 3 != 0)
            {
                failing = !failing;
                failing ? told.begin() : told.end();
                changed_at = now;
            }
            if (random() % 4 == 0)
                continue; // nobody looks
            for (const Say say : said(told, now))
            {
                EXPECT_NE(say, last);
                EXPECT_FALSE(say == Say::ends && last == Say::nothing);
                begins += say == Say::begins ? 1 : 0;
                last = say;
            }
            if (!failing)
            {
                EXPECT_NE(last, Say::begins);
            }
            else if (now - changed_at >= TroubleTold::kPauseMs)
            {
                EXPECT_EQ(last, Say::begins);
            }
        }
        EXPECT_LE(begins, static_cast<std::size_t>(now / TroubleTold::kPauseMs) + 1);
    }
}

} // namespace

} // namespace outbox::test
