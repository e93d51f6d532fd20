#include "progress_positions.h"

#include <vector>

namespace outbox::test
{

namespace
{

TEST(Progress, AdvancesOverTheAcknowledgedPrefixOnly)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t first = progress.add(101, 10, 0);
    const std::uint64_t second = progress.add(102, 10, 0);
    const std::uint64_t third = progress.add(103, 10, 0);
    EXPECT_TRUE(progress.acknowledge(second));
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 0");
    EXPECT_TRUE(progress.acknowledge(first));
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 102");
    EXPECT_TRUE(progress.acknowledge(third));
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 103");
    progress.close_window();
    EXPECT_EQ(shown(progress.position()), "9:9: 9:9: 0");
    EXPECT_EQ(progress.acknowledged_prefix(), 3U);
}

TEST(Progress, GivesBackWithAnAcknowledgementWhatWasNotedWithTheEvent)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t first = progress.add(101, 10, 7, 0, {{70}, 700, 1});
    const std::uint64_t second = progress.add(102, 10, 8, 0, {{80}, 800, 2});
    Acknowledged event;
    EXPECT_TRUE(progress.acknowledge(second, true, &event));
    EXPECT_EQ(event.created_at, 8);
    EXPECT_EQ(event.memo.sent_at, Steady{80});
    EXPECT_EQ(event.memo.bytes, 800U);
    EXPECT_EQ(event.memo.topic, 2);
    std::vector<int> topics;
    const auto note = [&](std::uint64_t, const Memo &memo, bool acknowledged)
    {
        if (!acknowledged)
            topics.push_back(memo.topic);
    };
    progress.visit(note);
    EXPECT_EQ(topics, std::vector<int>{1});
    EXPECT_FALSE(progress.acknowledge(second, true, &event)) << "known already";
    EXPECT_TRUE(progress.acknowledge(first, false));
    topics.clear();
    progress.visit(note);
    EXPECT_TRUE(topics.empty());
}

TEST(Progress, RemembersWhereAndWhenAnEventWasSentAndWhenItWasAcknowledged)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t first = progress.add(101, 10, 7);
    const std::uint64_t second = progress.add(102, 10, 8);
    EXPECT_EQ(progress.next_tag(), second + 1);
    progress.set_sent(second, {70}, 5);
    Progress::InFlight flight;
    ASSERT_TRUE(progress.find(second, flight));
    EXPECT_EQ(flight.memo.sent_at, Steady{70});
    EXPECT_EQ(flight.memo.lane, 5U);
    EXPECT_TRUE(progress.acknowledge(second, true, nullptr, {90}));
    progress.set_sent(second, {100}, 6); // too late
    progress.visit(
        [&](std::uint64_t tag, const Memo &memo, bool acknowledged)
        {
            EXPECT_EQ(acknowledged, tag == second);
            EXPECT_EQ(memo.sent_at, Steady{tag == second ? 90 : 0});
            EXPECT_EQ(memo.lane, tag == second ? 5U : 0U);
        });
    EXPECT_EQ(progress.first_tag(), first);
}

TEST(Progress, CountsAnAcknowledgementOnce)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t first = progress.add(1, 10, 0);
    const std::uint64_t second = progress.add(2, 10, 0);
    EXPECT_TRUE(progress.acknowledge(second));
    EXPECT_FALSE(progress.acknowledge(second));
    EXPECT_TRUE(progress.acknowledge(first));
    EXPECT_FALSE(progress.acknowledge(first));
    EXPECT_FALSE(progress.acknowledge(second + 1));
    EXPECT_EQ(progress.in_flight(), 0U);
    EXPECT_EQ(progress.in_flight_bytes(), 0U);
}

TEST(Progress, IgnoresReportsFromBeforeAReset)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t old = progress.add(1, 10, 0);
    progress.reset(progress.position());
    EXPECT_FALSE(progress.acknowledge(old));
    const std::uint64_t again = progress.add(1, 10, 0); // reset() opened the window it resumes
    EXPECT_NE(again, old);
    EXPECT_FALSE(progress.acknowledge(old));
    EXPECT_TRUE(progress.acknowledge(again));
    EXPECT_EQ(progress.acknowledged_prefix(), 1U);
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 1");
}

TEST(Progress, ResumesInsideAWindow)
{
    Progress progress(10);
    progress.reset({until(5), until(9), 42});
    EXPECT_EQ(progress.windows(), 1U);
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 42");
    progress.close_window(); // nothing was left in it
    EXPECT_EQ(shown(progress.position()), "9:9: 9:9: 0");
}

TEST(Progress, StartsTheNextWindowAtItsBeginning)
{
    Progress progress(10);
    progress.reset({until(5), until(5), 42}); // the seq says nothing when no window is under way
    progress.open_window(until(9));
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 0");
}

TEST(Progress, JoinsWindowsThatHadNoEvents)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(6));
    const std::uint64_t held = progress.add(1, 10, 0);
    progress.close_window();
    for (std::uint64_t xmax = 7; xmax < 1000; ++xmax)
    {
        progress.open_window(until(xmax));
        progress.close_window();
    }
    EXPECT_LE(progress.windows(), 2U);
    EXPECT_EQ(shown(progress.position()), "5:5: 6:6: 0");
    EXPECT_TRUE(progress.acknowledge(held));
    EXPECT_EQ(shown(progress.position()), "999:999: 999:999: 0");
}

TEST(Progress, TakesBackTheLastEvent)
{
    Progress progress(10);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t first = progress.add(1, 10, 0);
    progress.add(2, 20, 0);
    progress.remove_last();
    EXPECT_EQ(progress.in_flight(), 1U);
    EXPECT_EQ(progress.in_flight_bytes(), 10U);
    EXPECT_TRUE(progress.acknowledge(first));
    EXPECT_EQ(shown(progress.position()), "5:5: 9:9: 1");
    EXPECT_EQ(progress.acknowledged_prefix(), 1U);
}

TEST(Progress, KeepsItsBoundsAndLetsALargeEventGoAlone)
{
    Progress progress(2);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    EXPECT_TRUE(progress.has_room(1000, 100));
    const std::uint64_t large = progress.add(1, 1000, 0);
    EXPECT_FALSE(progress.has_room(1, 100));
    EXPECT_TRUE(progress.acknowledge(large));
    const std::uint64_t first = progress.add(2, 50, 0);
    EXPECT_TRUE(progress.has_room(50, 100));
    EXPECT_FALSE(progress.has_room(51, 100));
    const std::uint64_t second = progress.add(3, 1, 0);
    EXPECT_FALSE(progress.has_room(1, 100));
    EXPECT_TRUE(progress.acknowledge(second)); // still behind the first, its place is not free
    EXPECT_FALSE(progress.has_room(1, 100));
    EXPECT_TRUE(progress.acknowledge(first));
    EXPECT_TRUE(progress.has_room(1, 100));
}

TEST(Progress, KnowsTheOldestEventBehindThePrefix)
{
    Progress progress(10);
    EXPECT_EQ(progress.oldest_created_at(), 0);
    progress.reset(at_rest(5));
    progress.open_window(until(9));
    const std::uint64_t first = progress.add(1, 1, 1111);
    const std::uint64_t second = progress.add(2, 1, 2222);
    EXPECT_TRUE(progress.acknowledge(second));
    EXPECT_EQ(progress.oldest_created_at(), 1111);
    EXPECT_TRUE(progress.acknowledge(first));
    EXPECT_EQ(progress.oldest_created_at(), 0);
}

TEST(Progress, AmpleRoomIsAQuarterOfBothBounds)
{
    Progress progress(8);
    progress.open_window(XidSnapshot());
    std::vector<std::uint64_t> tags;
    for (int seq = 1; seq <= 8; ++seq)
        tags.push_back(progress.add(seq, 10, 0));
    EXPECT_FALSE(progress.has_ample_room(1000));
    progress.acknowledge(tags[0]);
    EXPECT_FALSE(progress.has_ample_room(1000));
    progress.acknowledge(tags[1]);
    EXPECT_TRUE(progress.has_ample_room(1000));
    EXPECT_TRUE(progress.has_ample_room(80));
    EXPECT_FALSE(progress.has_ample_room(79));
}

} // namespace

} // namespace outbox::test
