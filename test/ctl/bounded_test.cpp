// What is checked in a process of its own has bounds, each of which is told by its name.
#include "client/outboxctl/bounded.h"

#include <vector>

#include <gtest/gtest.h>

namespace outbox::ctl
{

namespace
{

constexpr unsigned kSeconds = 60; // which no other bound needs
constexpr std::size_t kMiB = 1024 * 1024;

std::string
refused(const std::function<std::string()> &work, unsigned seconds = kSeconds)
{
    const Bounded bounded = run_bounded(work, seconds);
    EXPECT_FALSE(bounded.done);
    return bounded.text;
}

// Each call needs its frame, as what it makes is used after the next one.
std::size_t
deeper(std::size_t depth)
{
    volatile char frame[1024] = {};
    frame[depth % sizeof frame] = 1;
    const std::size_t below = depth == 0 ? 0 : deeper(depth - 1);
    return below + static_cast<std::size_t>(frame[depth % sizeof frame]);
}

} // namespace

TEST(Bounded, WhatKeepsItsBoundsIsGivenWhole)
{
    const Bounded bounded = run_bounded([] { return std::string(16 * kMiB, 'x'); }, kSeconds);
    EXPECT_TRUE(bounded.done);
    EXPECT_EQ(bounded.text, std::string(16 * kMiB, 'x'));
}

TEST(Bounded, EachBoundIsToldByItsName)
{
    EXPECT_EQ(refused([] { return std::string(16 * kMiB + 1, 'x'); }),
              "gave more than 16 MiB of text");
    const auto for_ever = []() -> std::string
    {
        for (volatile unsigned long turns = 0;;)
            turns = turns + 1;
    };
    EXPECT_EQ(refused(for_ever, 1), "took more than 1 s");
    const auto memory = []
    {
        std::vector<std::string> all;
        for (;;)
            all.emplace_back(64 * kMiB, 'x');
        return std::string();
    };
    EXPECT_EQ(refused(memory), "took more memory than it may");
    EXPECT_EQ(refused([] { return std::to_string(deeper(1000000)); }),
              "took more stack than there is");
    EXPECT_EQ(refused([]() -> std::string { throw 1; }), "did not end well");
}

} // namespace outbox::ctl
