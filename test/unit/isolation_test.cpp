#include "bgworker/core/isolation.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

using outbox::Isolation;

namespace
{

// Sends events in groups as the relay does: Kafka refuses every group that holds a culprit.
struct Simulation
{
    std::set<int> culprits;
    std::set<int> blamed;
    std::deque<int> line;
    Isolation isolation;
    int refusals = 0;
    int groups = 0;

    Simulation(int events, std::set<int> bad) : culprits(std::move(bad))
    {
        for (int i = 0; i < events; i++)
            line.push_back(i);
    }

    bool holds_culprit(std::size_t count) const
    {
        for (std::size_t i = 0; i < count; i++)
            if (culprits.count(line[i]) > 0)
                return true;
        return false;
    }

    void run()
    {
        while (!line.empty())
        {
            groups++;
            const std::size_t count = std::min(isolation.group(), line.size());
            if (!holds_culprit(count))
            {
                line.erase(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(count));
                if (isolation.active())
                    isolation.accepted(count);
                continue;
            }
            refusals++;
            if (count > 1 || isolation.active())
                isolation.refused(count, count);
            if (count == 1)
            {
                blamed.insert(line.front());
                line.pop_front();
            }
        }
    }
};

} // namespace

TEST(Isolation, IsNotActiveBeforeARefusal)
{
    const Isolation isolation;
    EXPECT_FALSE(isolation.active());
    EXPECT_GT(isolation.group(), 100000U);
}

TEST(Isolation, HalvesARefusedGroupDownToOne)
{
    Isolation isolation;
    isolation.refused(1000, 1000);
    EXPECT_TRUE(isolation.active());
    EXPECT_EQ(isolation.group(), 500U);
    isolation.refused(500, 500);
    EXPECT_EQ(isolation.group(), 250U);
    for (int i = 0; i < 20; i++)
        isolation.refused(isolation.group(), 1);
    EXPECT_EQ(isolation.group(), 1U);
}

TEST(Isolation, DoublesAnAcceptedGroupAndEndsWhenAllSuspectsAreThrough)
{
    Isolation isolation;
    isolation.refused(8, 8);
    EXPECT_EQ(isolation.group(), 4U);
    isolation.accepted(4);
    EXPECT_TRUE(isolation.active());
    EXPECT_EQ(isolation.group(), 8U);
    isolation.accepted(4);
    EXPECT_FALSE(isolation.active());
}

TEST(Isolation, ARefusalFurtherOffKeepsMoreUnderSuspicion)
{
    Isolation isolation;
    isolation.refused(2, 100);
    isolation.refused(1, 10);
    isolation.accepted(99);
    EXPECT_TRUE(isolation.active());
    isolation.accepted(1);
    EXPECT_FALSE(isolation.active());
}

TEST(Isolation, BlamesTheCulpritsAndNobodyElse)
{
    const std::set<int> sets[] = {{0}, {999}, {500}, {0, 1, 2}, {0, 999}, {17, 18, 400, 401, 990}};
    for (const std::set<int> &culprits : sets)
    {
        Simulation simulation(1000, culprits);
        simulation.run();
        EXPECT_EQ(simulation.blamed, culprits);
        // Each is found by halving, a new group doubling in between.
        EXPECT_LE(simulation.refusals, 11 * static_cast<int>(culprits.size()));
        EXPECT_LE(simulation.groups, 25 * static_cast<int>(culprits.size()));
    }
}
