#include "bgworker/engine/common/window_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <random>
#include <string>

namespace outbox::test
{

namespace
{

constexpr int kSlots = 3;

struct Row
{
    int slot;
    std::uint64_t xid;
    std::int64_t seq;
};

// The index on (xid, seq) of each slot, and how often it was read.
class Index
{
public:
    void insert(const Row &row)
    {
        entries_[row.slot][{row.xid, row.seq}] = static_cast<Locator>(row.seq) * 10;
    }
    void erase(const Row &row) { entries_[row.slot].erase({row.xid, row.seq}); }

    // One scan as WindowKeys asks for it; false when it refused an entry.
    bool scan(WindowKeys &keys)
    {
        for (std::size_t i = 0; i < keys.ranges().size(); ++i)
        {
            const IndexRange range = keys.ranges()[i];
            keys.begin_range(i);
            const auto &slot = entries_[range.slot];
            for (auto entry = slot.lower_bound(range.first);
                 entry != slot.end() && !(range.last < entry->first); ++entry)
            {
                ++entries_read_;
                if (!keys.offer(entry->first.xid, entry->first.seq, entry->second))
                    return false;
            }
        }
        keys.finish_scan();
        return true;
    }

    std::size_t entries_read() const { return entries_read_; }

private:
    std::map<int, std::map<IndexPoint, Locator>> entries_;
    std::size_t entries_read_ = 0;
};

XidSnapshot
parsed(const std::string &text)
{
    XidSnapshot snapshot;
    EXPECT_TRUE(XidSnapshot::parse(text, snapshot)) << text;
    return snapshot;
}

// Everything that `keys` hands out.
std::vector<std::int64_t>
read_all(WindowKeys &keys, Index &index)
{
    std::vector<std::int64_t> seqs;
    for (int scans = 0; scans < 20000; ++scans)
    {
        for (; keys.next() != nullptr; keys.drop_next())
        {
            EXPECT_EQ(keys.next()->locator, static_cast<Locator>(keys.next()->seq) * 10);
            seqs.push_back(keys.next()->seq);
        }
        if (!keys.need_scan())
            return seqs;
        EXPECT_TRUE(index.scan(keys));
    }
    ADD_FAILURE() << "no end";
    return seqs;
}

TEST(WindowKeys, HandsOutASmallWindowBySeq)
{
    Index index;
    for (const Row &row :
         {Row{0, 10, 3}, Row{1, 11, 1}, Row{2, 12, 2}, Row{0, 13, 9}, Row{0, 9, 8}})
        index.insert(row);
    WindowKeys keys(100, 10);
    keys.open(parsed("10:10:"), parsed("13:13:"), 0, kSlots);
    EXPECT_EQ(read_all(keys, index), (std::vector<std::int64_t>{1, 2, 3}));
    EXPECT_EQ(keys.remaining(), 0U);
}

TEST(WindowKeys, FindsWhatWasRunningBefore)
{
    Index index;
    for (const Row &row :
         {Row{0, 10, 1}, Row{0, 11, 2}, Row{0, 12, 3}, Row{0, 20, 4}, Row{0, 21, 5}})
        index.insert(row);
    WindowKeys keys(100, 10);
    keys.open(parsed("10:20:10,12"), parsed("12:22:12,21"), 0, kSlots);
    EXPECT_EQ(read_all(keys, index), (std::vector<std::int64_t>{1, 4}));
}

TEST(WindowKeys, ResumesAfterASeq)
{
    Index index;
    for (std::int64_t seq = 1; seq <= 5; ++seq)
        index.insert({0, 10, seq});
    WindowKeys keys(2, 1);
    keys.open(parsed("10:10:"), parsed("11:11:"), 3, kSlots);
    EXPECT_EQ(read_all(keys, index), (std::vector<std::int64_t>{4, 5}));
}

// Numbers are only unique within one history: a merge of two databases may bring some twice.
TEST(WindowKeys, NumbersThatSeveralTransactionsShareComeToAnEndAndAllOfThemComeOut)
{
    const unsigned seed = std::random_device()();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round)
    {
        Index index;
        std::vector<std::int64_t> expected;
        const std::uint64_t xids = 1 + random() % 20;
        const std::int64_t seqs = 1 + static_cast<std::int64_t>(random() % 30);
        for (std::uint64_t xid = 10; xid < 10 + xids; ++xid)
            for (std::int64_t seq = 1; seq <= seqs; ++seq)
                if (random() % 3 != 0)
                {
                    index.insert({static_cast<int>(random() % kSlots), xid, seq});
                    expected.push_back(seq);
                }
        std::sort(expected.begin(), expected.end());
        // All that share a number are in memory together.
        const std::size_t capacity = xids + random() % 20;
        WindowKeys keys(capacity, 1 + random() % capacity);
        keys.open(parsed("10:10:"), parsed("100:100:"), 0, kSlots);
        ASSERT_EQ(read_all(keys, index), expected) << "round " << round;
    }
}

TEST(WindowKeys, AnEmptyWindowNeedsNoKeys)
{
    Index index;
    WindowKeys keys(10, 5);
    EXPECT_FALSE(keys.need_scan());
    keys.open(parsed("10:20:10"), parsed("10:20:10"), 0, kSlots);
    EXPECT_FALSE(keys.need_scan()); // no transaction ended in between
    keys.open(parsed("10:20:10"), parsed("10:21:10"), 0, kSlots);
    EXPECT_EQ(read_all(keys, index), std::vector<std::int64_t>{});
}

// Entries that were not there at the survey, and more of them than there is room for.
TEST(WindowKeys, RefusesEntriesThatItHasNoPlaceForAndCanBeOpenedAgain)
{
    Index index;
    for (std::int64_t seq = 1; seq <= 10; ++seq)
        index.insert({0, static_cast<std::uint64_t>(10 + seq), seq});
    WindowKeys keys(4, 4);
    keys.open(parsed("10:10:"), parsed("30:30:"), -100, kSlots);
    ASSERT_TRUE(index.scan(keys));
    ASSERT_TRUE(keys.need_scan());
    for (std::int64_t seq = -5; seq <= 0; ++seq)
        index.insert({0, 12, seq});
    EXPECT_FALSE(index.scan(keys));

    keys.open(parsed("10:10:"), parsed("30:30:"), -100, kSlots);
    EXPECT_EQ(read_all(keys, index).size(), 16U);
}

// A scan that begins inside a transaction cannot skip to its place if it reaches another one.
TEST(WindowKeys, RangesThatBeginInsideATransactionStayInIt)
{
    Index index;
    for (std::int64_t seq = 1; seq <= 300; ++seq)
        index.insert(
            {0, seq <= 10 || seq > 290 ? static_cast<std::uint64_t>(100 + seq) : 200, seq});
    WindowKeys keys(50, 20);
    keys.open(parsed("10:10:"), parsed("1000:1000:"), 0, kSlots);
    ASSERT_TRUE(index.scan(keys));
    std::size_t inside = 0;
    for (int scans = 0; keys.need_scan() && scans < 1000; ++scans)
    {
        for (const IndexRange &range : keys.ranges())
        {
            const bool begins_inside = range.first.xid == 200 && range.first.seq > 11;
            inside += begins_inside ? 1 : 0;
            EXPECT_TRUE(!begins_inside || range.last.xid == 200);
        }
        ASSERT_TRUE(index.scan(keys));
        while (keys.next() != nullptr)
            keys.drop_next();
    }
    EXPECT_GT(inside, 5U);
}

// A random history: transactions run over the slots, some of them across snapshots.
struct History
{
    std::vector<Row> rows;
    XidSnapshot from;
    XidSnapshot to;
};

XidSnapshot
random_snapshot(std::mt19937_64 &random, std::uint64_t xmin, std::uint64_t xmax,
                const XidSnapshot *earlier)
{
    std::vector<std::uint64_t> running;
    for (std::uint64_t xid = xmin; xid < xmax; ++xid)
        if (random() % 4 == 0 && (earlier == nullptr || !earlier->visible(xid)))
            running.push_back(xid);
    std::string text =
        std::to_string(running.empty() ? xmax : running.front()) + ":" + std::to_string(xmax) + ":";
    for (std::size_t i = 0; i < running.size(); ++i)
        text += (i == 0 ? "" : ",") + std::to_string(running[i]);
    return parsed(text);
}

History
random_history(std::mt19937_64 &random)
{
    History history;
    const std::uint64_t middle = 10 + random() % 40;
    const std::uint64_t end = middle + random() % 60;
    history.from = random_snapshot(random, 10, middle, nullptr);
    history.to = random_snapshot(random, 10, end, &history.from);
    // A seq mostly follows its transaction's id; how loosely differs from history to history.
    const std::int64_t spread = 1 + static_cast<std::int64_t>(random() % 500);
    std::set<std::int64_t> used;
    const std::uint64_t count = random() % 400;
    for (std::uint64_t i = 0; i < count; ++i)
    {
        const std::uint64_t xid = 5 + random() % (end + 5);
        const auto seq = static_cast<std::int64_t>(xid) * 10 +
                         static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(spread));
        if (!used.insert(seq).second)
            continue;
        history.rows.push_back({static_cast<int>(random() % kSlots), xid, seq});
    }
    return history;
}

bool
in_window(const History &history, const Row &row, std::int64_t after)
{
    return !history.from.visible(row.xid) && history.to.visible(row.xid) && row.seq > after;
}

TEST(WindowKeys, HandsOutTheWindowExactlyAndInOrder)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 1500; ++round)
    {
        const History history = random_history(random);
        Index index;
        for (const Row &row : history.rows)
            index.insert(row);
        const std::int64_t after =
            random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 1000);
        std::vector<std::int64_t> expected;
        for (const Row &row : history.rows)
            if (in_window(history, row, after))
                expected.push_back(row.seq);
        std::sort(expected.begin(), expected.end());

        const std::size_t capacity = 1 + random() % 50;
        WindowKeys keys(capacity, 1 + random() % capacity);
        keys.open(history.from, history.to, after, kSlots);
        ASSERT_EQ(read_all(keys, index), expected)
            << "round " << round << ", capacity " << capacity;
        ASSERT_EQ(keys.remaining(), 0U);
    }
}

// Entries of transactions that rolled back may be vacuumed away between two scans.
TEST(WindowKeys, LosesNothingWhenOtherEntriesVanish)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 1000; ++round)
    {
        const History history = random_history(random);
        Index index;
        for (const Row &row : history.rows)
            index.insert(row);
        const auto rolled_back = [](const Row &row) { return row.xid % 3 == 0; };
        const std::size_t capacity = 1 + random() % 20;
        WindowKeys keys(capacity, 1 + random() % capacity);
        keys.open(history.from, history.to, 0, kSlots);
        std::vector<std::int64_t> got;
        for (int scans = 0; keys.need_scan() || keys.next() != nullptr; ++scans)
        {
            ASSERT_LT(scans, 10000);
            for (; keys.next() != nullptr; keys.drop_next())
                got.push_back(keys.next()->seq);
            for (const Row &row : history.rows)
                if (rolled_back(row) && random() % 5 == 0)
                    index.erase(row);
            ASSERT_TRUE(!keys.need_scan() || index.scan(keys));
        }
        ASSERT_TRUE(std::is_sorted(got.begin(), got.end()));
        ASSERT_EQ(std::adjacent_find(got.begin(), got.end()), got.end());
        for (const Row &row : history.rows)
        {
            const bool found = std::binary_search(got.begin(), got.end(), row.seq);
            const bool may_be_missing = rolled_back(row) && !found;
            ASSERT_TRUE(may_be_missing || found == in_window(history, row, 0))
                << "round " << round << ", seq " << row.seq;
        }
    }
}

// A long backlog costs about two reads of each entry, not a scan of everything for each batch.
TEST(WindowKeys, ReadsALongBacklogAboutTwice)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    constexpr std::int64_t kRows = 200000;
    Index index;
    for (std::int64_t seq = 1; seq <= kRows; ++seq)
    {
        // 8 clients with transactions of some ten events each, interleaved
        const auto client = random() % 8;
        const std::uint64_t xid = 100 + static_cast<std::uint64_t>(seq) / 80 * 8 + client;
        index.insert({0, xid, seq});
    }
    WindowKeys keys(10000, 500);
    keys.open(parsed("10:10:"), parsed("1000000:1000000:"), 0, kSlots);
    const std::vector<std::int64_t> seqs = read_all(keys, index);
    ASSERT_EQ(seqs.size(), static_cast<std::size_t>(kRows));
    EXPECT_TRUE(std::is_sorted(seqs.begin(), seqs.end()));
    EXPECT_LT(index.entries_read(), static_cast<std::size_t>(kRows) * 5 / 2);
}

} // namespace

} // namespace outbox::test
