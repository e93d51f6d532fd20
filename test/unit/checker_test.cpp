#include "support/checker.h"

#include <gtest/gtest.h>

using namespace outbox::test;

namespace
{

// Events "1", "2", … of one key, in that order.
std::vector<Event>
events(int count)
{
    std::vector<Event> list;
    for (int i = 1; i <= count; ++i)
        list.push_back({i, std::to_string(i), "t", "k", "p" + std::to_string(i)});
    return list;
}

// Their deliveries in the order given, one partition.
std::vector<Delivery>
deliveries(const std::vector<int> &ids)
{
    std::vector<Delivery> list;
    for (size_t i = 0; i < ids.size(); ++i)
        list.push_back({std::to_string(ids[i]), "t", 0, static_cast<int64_t>(i), "k",
                        "p" + std::to_string(ids[i])});
    return list;
}

} // namespace

TEST(Checker, AcceptsEachEventOnceInOrder)
{
    const Report report = compare(events(3), deliveries({1, 2, 3}));
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_EQ(report.most_copies, 1U);
}

TEST(Checker, AcceptsNothingAtAll)
{
    EXPECT_TRUE(compare({}, {}).exact());
}

TEST(Checker, JudgesByOffsetNotByTheOrderOfReading)
{
    std::vector<Delivery> read = deliveries({1, 2, 3});
    std::swap(read[0], read[2]);
    EXPECT_TRUE(compare(events(3), read).exact());
}

TEST(Checker, FindsALostEventAndBlamesNothingElse)
{
    const Report report = compare(events(4), deliveries({1, 3, 4}));
    ASSERT_EQ(report.lost.size(), 1U);
    EXPECT_NE(report.lost[0].find("seq 2"), std::string::npos);
    EXPECT_TRUE(report.misordered.empty());
    EXPECT_FALSE(report.complete_and_ordered());
}

TEST(Checker, FindsAnInventedEvent)
{
    const Report report = compare(events(2), deliveries({1, 7, 2}));
    EXPECT_EQ(report.invented.size(), 1U);
    EXPECT_TRUE(report.misordered.empty());
    EXPECT_FALSE(report.complete_and_ordered());
}

TEST(Checker, CountsDuplicatesAndTheirMaximum)
{
    const Report report = compare(events(3), deliveries({1, 2, 2, 2, 3, 3}));
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_FALSE(report.exact());
    EXPECT_EQ(report.duplicates, 3U);
    EXPECT_EQ(report.most_copies, 3U);
}

TEST(Checker, AcceptsTheRepeatOfASuffix)
{
    EXPECT_TRUE(
        compare(events(5), deliveries({1, 2, 3, 2, 3, 4, 1, 2, 3, 4, 5})).complete_and_ordered());
}

TEST(Checker, FindsAnEventThatOvertook)
{
    EXPECT_EQ(compare(events(3), deliveries({1, 3, 2})).misordered.size(), 1U);
}

TEST(Checker, FindsARepeatWithAGap)
{
    EXPECT_EQ(compare(events(4), deliveries({1, 2, 3, 1, 3, 4})).misordered.size(), 1U);
}

TEST(Checker, FindsAFirstEventThatIsNotTheFirst)
{
    EXPECT_FALSE(compare(events(2), deliveries({2, 1})).misordered.empty());
}

TEST(Checker, KeysAreOrderedOnTheirOwn)
{
    std::vector<Event> committed = events(4);
    std::vector<Delivery> read = deliveries({2, 1, 4, 3});
    for (size_t i : {size_t{1}, size_t{3}}) // events 2 and 4
        committed[i].key = "other";
    for (size_t i : {size_t{0}, size_t{2}})
        read[i].key = "other";
    EXPECT_TRUE(compare(committed, read).exact());
}

TEST(Checker, TopicsAreOrderedOnTheirOwn)
{
    std::vector<Event> committed = events(2);
    std::vector<Delivery> read = deliveries({2, 1});
    committed[1].topic = read[0].topic = "u";
    EXPECT_TRUE(compare(committed, read).exact());
}

TEST(Checker, FindsAnAlteredPayloadKeyOrTopic)
{
    for (int what = 0; what < 4; ++what)
    {
        std::vector<Delivery> read = deliveries({1});
        if (what == 0)
            read[0].payload = "other";
        else if (what == 1)
            read[0].payload = std::nullopt;
        else if (what == 2)
            read[0].key = "other";
        else
            read[0].topic = "other";
        EXPECT_EQ(compare(events(1), read).altered.size(), 1U) << what;
    }
}

TEST(Checker, TellsNullFromEmptyPayload)
{
    std::vector<Event> committed = events(1);
    std::vector<Delivery> read = deliveries({1});
    committed[0].payload = std::nullopt;
    read[0].payload = "";
    EXPECT_FALSE(compare(committed, read).exact());
    read[0].payload = std::nullopt;
    EXPECT_TRUE(compare(committed, read).exact());
}

TEST(Checker, FindsAKeyInTwoPartitions)
{
    std::vector<Delivery> read = deliveries({1, 2});
    read[1].partition = 1;
    EXPECT_EQ(compare(events(2), read).altered.size(), 1U);
}

TEST(Checker, SummaryNamesWhatIsWrong)
{
    const std::string text = compare(events(30), deliveries({9})).summary();
    EXPECT_NE(text.find("lost 29"), std::string::npos) << text;
    EXPECT_NE(text.find("… and 19 more"), std::string::npos) << text;
}
