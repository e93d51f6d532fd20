// The simulated world is what the rest believes, so it is compared with simpler ones.
#include "world/cluster.h"
#include "world/database.h"

#include <gtest/gtest.h>

namespace outbox::sim
{

namespace
{

class Deaf final : public EventFate, public LogReader
{
public:
    void emitted(const EventRow &) override {}
    void committed(int event) override { visible.insert(event); }
    void vanished(int event) override { visible.erase(event); }
    void removed(int) override {}
    void appended(const Place &, const Message &message) override { log.push_back(message.event); }
    void misdirected(const Place &, Time) override {}

    std::set<int> visible;
    std::vector<int> log;
};

struct World
{
    explicit World(std::uint64_t seed) : clock(seed), random(seed), trace(clock, false) {}
    SimClock clock;
    Random random;
    Trace trace;
    Deaf deaf;
};

} // namespace

// Whatever the order of commits: the windows between snapshots have each committed event once.
TEST(SimulatedDatabase, WindowsHaveEachCommittedEventOnce)
{
    for (std::uint64_t seed = 1; seed <= 300; seed++)
    {
        World world(seed);
        Database database(world.clock, world.random, world.trace, world.deaf, 1);
        std::set<int> seen;
        XidSnapshot before;
        int sessions = 0;
        for (int step = 0; step < 200; step++)
        {
            const int session = static_cast<int>(world.random.below(8));
            switch (world.random.below(9))
            {
            case 0:
                database.begin(session);
                break;
            case 1:
            case 2:
            case 3:
                database.emit(session, {});
                break;
            case 4:
                database.savepoint(session);
                break;
            case 5:
                database.rollback_to_savepoint(session);
                break;
            case 6:
                database.commit(session, world.random.percent(50));
                break;
            case 7:
                database.rollback(session);
                break;
            default:
                const XidSnapshot now = database.snapshot();
                std::set<int> visible;
                for (const int event : world.deaf.visible)
                {
                    EXPECT_TRUE(now.visible(database.row(event).xid)) << "seed " << seed;
                    visible.insert(event);
                    const bool in_window = !before.visible(database.row(event).xid);
                    EXPECT_EQ(in_window, seen.count(event) == 0) << "seed " << seed;
                }
                seen = visible;
                before = now;
            }
            sessions++;
        }
        EXPECT_GT(sessions, 0);
    }
}

// A crash keeps a prefix of what was committed, and all that somebody waited for.
TEST(SimulatedDatabase, ACrashKeepsAPrefix)
{
    for (std::uint64_t seed = 1; seed <= 300; seed++)
    {
        World world(seed);
        Database database(world.clock, world.random, world.trace, world.deaf, 1);
        std::vector<int> order;
        int last_waited = -1;
        for (int session = 0; session < 20; session++)
        {
            const bool waits = world.random.percent(20);
            database.begin(session);
            database.emit(session, {});
            database.commit(session, waits);
            order.push_back(session);
            last_waited = waits ? session : last_waited;
        }
        database.crash();
        bool kept = true;
        for (const int event : order)
        {
            const bool is_there = database.is_committed(event);
            EXPECT_TRUE(kept || !is_there) << "seed " << seed;
            EXPECT_TRUE(is_there || event > last_waited) << "seed " << seed;
            kept = is_there;
        }
    }
}

TEST(SimulatedKafka, ABrokerTakesEachSequenceNumberOnceAndInOrder)
{
    World world(1);
    Cluster cluster(world.clock, world.random, world.trace, world.deaf, 1);
    const Place place = {"topic0", 0};
    cluster.set_leader(place, 1);
    const auto batch = [&](std::int32_t epoch, std::int64_t first, int count)
    {
        Batch made;
        made.producer = 7;
        made.epoch = epoch;
        made.first_sequence = first;
        made.place = place;
        for (int i = 0; i < count; i++)
        {
            Message message;
            message.event = static_cast<int>(first) + i + epoch * 100;
            made.messages.push_back(message);
        }
        return made;
    };
    EXPECT_EQ(cluster.append(0, batch(0, 0, 2)), Answer::not_leader);
    EXPECT_EQ(cluster.append(1, batch(0, 0, 2)), Answer::accepted);
    EXPECT_EQ(cluster.append(1, batch(0, 0, 2)), Answer::accepted); // again
    EXPECT_EQ(cluster.append(1, batch(0, 3, 1)), Answer::out_of_order);
    EXPECT_EQ(cluster.append(1, batch(0, 2, 1)), Answer::accepted);
    EXPECT_EQ(cluster.append(1, batch(1, 3, 1)), Answer::out_of_order); // a new epoch begins with 0
    EXPECT_EQ(cluster.append(1, batch(1, 0, 1)), Answer::accepted);
    EXPECT_EQ(cluster.append(1, batch(0, 3, 1)), Answer::out_of_order); // of the old one
    EXPECT_EQ(world.deaf.log, (std::vector<int>{0, 1, 2, 100}));
}

TEST(SimulatedKafka, ABatchIsRefusedAsAWhole)
{
    World world(1);
    Cluster cluster(world.clock, world.random, world.trace, world.deaf, 1);
    const Place place = {"topic0", 1};
    cluster.set_leader(place, 0);
    Batch batch;
    batch.place = place;
    batch.messages.resize(2);
    batch.messages[1].invalid = true;
    EXPECT_EQ(cluster.append(0, batch), Answer::invalid);
    batch.messages[1].invalid = false;
    batch.messages[1].bytes = 200000;
    EXPECT_EQ(cluster.append(0, batch), Answer::too_large);
    cluster.set_topic("topic0", true, false);
    EXPECT_EQ(cluster.append(0, batch), Answer::not_authorized);
    EXPECT_TRUE(world.deaf.log.empty());
}

} // namespace outbox::sim
