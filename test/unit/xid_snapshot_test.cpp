#include "bgworker/engine/common/xid_snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

namespace outbox::test
{

namespace
{

XidSnapshot
parsed(const std::string &text)
{
    XidSnapshot snapshot;
    EXPECT_TRUE(XidSnapshot::parse(text, snapshot)) << text;
    return snapshot;
}

TEST(XidSnapshot, SeesNothingAtFirst)
{
    const XidSnapshot snapshot;
    for (const std::uint64_t xid : {3ULL, 4ULL, 1000ULL, ~0ULL})
        EXPECT_FALSE(snapshot.visible(xid)) << xid;
    EXPECT_EQ(parsed(snapshot.to_text()), snapshot);
}

TEST(XidSnapshot, ReadsPostgresText)
{
    const XidSnapshot snapshot = parsed("10:20:10,14,15");
    EXPECT_EQ(snapshot.xmin(), 10U);
    EXPECT_EQ(snapshot.xmax(), 20U);
    EXPECT_EQ(snapshot.running(), (std::vector<std::uint64_t>{10, 14, 15}));
    EXPECT_EQ(snapshot.to_text(), "10:20:10,14,15");
    EXPECT_EQ(parsed("10:10:").to_text(), "10:10:");
    EXPECT_EQ(parsed("8589934592:8589934600:8589934599").xmin(),
              8589934592U); // past one wrap of 32 bits
}

TEST(XidSnapshot, KnowsWhoHadEnded)
{
    const XidSnapshot snapshot = parsed("10:20:10,14,15");
    for (const std::uint64_t xid : {3U, 9U, 11U, 13U, 16U, 19U})
        EXPECT_TRUE(snapshot.visible(xid)) << xid;
    for (const std::uint64_t xid : {10U, 14U, 15U, 20U, 21U})
        EXPECT_FALSE(snapshot.visible(xid)) << xid;
}

TEST(XidSnapshot, RefusesOtherText)
{
    for (const char *text : {"",
                             ":",
                             "10",
                             "10:20",
                             "10:20:,",
                             "10:20:14,",
                             "10:20:,14",
                             "10:20:14 ",
                             " 10:20:",
                             "10:20:14,14",
                             "10:20:15,14",
                             "10:20:9",
                             "10:20:20",
                             "20:10:",
                             "0:10:",
                             "10:0:",
                             "10:20:0",
                             "-1:10:",
                             "+1:10:",
                             "a:b:c",
                             "10:20:14;15",
                             "99999999999999999999:99999999999999999999:",
                             "10:20:14:",
                             "0x10:0x20:"})
    {
        XidSnapshot untouched = parsed("5:6:5");
        EXPECT_FALSE(XidSnapshot::parse(text, untouched)) << text;
        EXPECT_EQ(untouched.to_text(), "5:6:5") << text;
    }
}

// Against the definition, over random snapshots, and through the text and back.
TEST(XidSnapshot, AgreesWithItsDefinition)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 2000; ++round)
    {
        const std::uint64_t xmin = 3 + random() % 50;
        const std::uint64_t xmax = xmin + random() % 30;
        std::set<std::uint64_t> running;
        std::string text = std::to_string(xmin) + ":" + std::to_string(xmax) + ":";
        for (std::uint64_t xid = xmin; xid < xmax; ++xid)
        {
            if (random() % 3 != 0)
                continue;
            text += (running.empty() ? "" : ",") + std::to_string(xid);
            running.insert(xid);
        }
        const XidSnapshot snapshot = parsed(text);
        ASSERT_EQ(snapshot.to_text(), text);
        for (std::uint64_t xid = 3; xid < 90; ++xid)
            ASSERT_EQ(snapshot.visible(xid), xid < xmin || (xid < xmax && running.count(xid) == 0))
                << text << " " << xid;
    }
}

} // namespace

} // namespace outbox::test
