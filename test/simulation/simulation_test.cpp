// Thousands of histories, none of which may break a promise; and faults of the engine, each of
// which must be seen.
#include "mutated.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace outbox::sim
{

namespace
{

// In how many of them a fault must be seen.

// "make check" has time for so many; "make check-simulation" runs more.
std::uint64_t
how_many()
{
    constexpr std::uint64_t kHistories = 10000;
    const char *text = std::getenv("OUTBOX_HISTORIES");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : kHistories;
}

// Every so many-th history. Says which fail; returns the first of them, 0: none.
std::uint64_t
run_some(std::uint64_t first, std::uint64_t step, std::uint64_t last)
{
    std::uint64_t failed = 0;
    for (std::uint64_t seed = first; seed <= last; seed += step)
    {
        const Outcome outcome = simulate(make_history(seed));
        if (outcome.good())
            continue;
        std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed),
                    outcome.kind.c_str(), outcome.text.c_str());
        failed = failed == 0 ? seed : failed;
    }
    std::fflush(stdout);
    return failed;
}

} // namespace

TEST(Simulation, TheSameSeedIsTheSameHistory)
{
    for (std::uint64_t seed = 1; seed <= 100; seed++)
    {
        const History history = make_history(seed);
        const Outcome one = simulate(history);
        const Outcome other = simulate(history);
        ASSERT_EQ(one.hash, other.hash) << "seed " << seed;
        ASSERT_EQ(one.rounds, other.rounds) << "seed " << seed;
        if (seed <= 10)
        {
            ASSERT_EQ(simulate(history, true).lines, simulate(history, true).lines)
                << "seed " << seed;
        }
    }
}

TEST(Simulation, NoHistoryBreaksAPromise)
{
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<pid_t> children;
    for (unsigned core = 0; core < cores; core++)
    {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            std::_Exit(run_some(1 + core, cores, how_many()) == 0 ? 0 : 1);
        children.push_back(child);
    }
    for (const pid_t child : children)
    {
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
            << "\"build/test/simulate seed SEED\" tells the history of a seed above";
    }
}

TEST(Simulation, ShortensWhatFails)
{
    set_mutant(Mutant::position_before_ack);
    std::uint64_t seed = 1;
    while (simulate(make_history(seed)).good())
        seed++;
    const History history = make_history(seed);
    const std::string kind = simulate(history).kind;
    const History shorter = shorten(history, kind);
    EXPECT_LT(shorter.acts.size(), 20U);
    EXPECT_EQ(simulate(shorter).kind, kind);
    EXPECT_NE(tell(shorter).find("WRONG"), std::string::npos);
    set_mutant(Mutant::none);
}

class Mutants : public testing::TestWithParam<int>
{
};

TEST_P(Mutants, AreSeen)
{
    expect_seen(static_cast<Mutant>(GetParam()), [](const History &) { return true; });
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, testing::Range(1, static_cast<int>(Mutant::count)));

} // namespace outbox::sim
