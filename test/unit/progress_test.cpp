#include "bgworker/core/progress.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace outbox::test
{

namespace
{

// A snapshot that has seen everything below `xmax`.
XidSnapshot
until(std::uint64_t xmax)
{
    XidSnapshot snapshot;
    EXPECT_TRUE(
        XidSnapshot::parse(std::to_string(xmax) + ":" + std::to_string(xmax) + ":", snapshot));
    return snapshot;
}

Position
at_rest(std::uint64_t xmax)
{
    return {until(xmax), until(xmax), 0};
}

std::string
shown(const Position &position)
{
    return position.from.to_text() + " " + position.to.to_text() + " " +
           std::to_string(position.last_seq);
}

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
    const std::uint64_t first = progress.add(101, 10, 7, 0, {70, 700, 1});
    const std::uint64_t second = progress.add(102, 10, 8, 0, {80, 800, 2});
    Acknowledged event;
    EXPECT_TRUE(progress.acknowledge(second, true, &event));
    EXPECT_EQ(event.created_at, 8);
    EXPECT_EQ(event.memo.sent_at, 80);
    EXPECT_EQ(event.memo.bytes, 800U);
    EXPECT_EQ(event.memo.topic, 2);
    std::vector<int> topics;
    progress.visit_in_flight([&](const Memo &memo) { topics.push_back(memo.topic); });
    EXPECT_EQ(topics, std::vector<int>{1});
    EXPECT_FALSE(progress.acknowledge(second, true, &event)) << "known already";
    EXPECT_TRUE(progress.acknowledge(first, false));
    topics.clear();
    progress.visit_in_flight([&](const Memo &memo) { topics.push_back(memo.topic); });
    EXPECT_TRUE(topics.empty());
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

// The same thing without cleverness: every event of every window is kept, and the position is found
// by looking at all of them.
class Model
{
public:
    void reset(const Position &position)
    {
        begin_ = position.from;
        windows_.clear();
        if (!(position.to == position.from))
            windows_.push_back({position.to, {}, false});
    }

    void open(const XidSnapshot &to) { windows_.push_back({to, {}, false}); }
    void close() { windows_.back().closed = true; }
    bool is_open() const { return !windows_.empty() && !windows_.back().closed; }

    void add(std::uint64_t tag, std::int64_t seq)
    {
        windows_.back().events.push_back({tag, seq, false});
    }
    void remove_last() { windows_.back().events.pop_back(); }
    bool can_remove_last() const
    {
        return is_open() && !windows_.back().events.empty() &&
               !windows_.back().events.back().acknowledged;
    }

    std::vector<std::uint64_t> in_flight() const
    {
        std::vector<std::uint64_t> tags;
        for (const Window &window : windows_)
            for (const Event &event : window.events)
                if (!event.acknowledged)
                    tags.push_back(event.tag);
        return tags;
    }

    void acknowledge(std::uint64_t tag)
    {
        for (Window &window : windows_)
            for (Event &event : window.events)
                if (event.tag == tag)
                    event.acknowledged = true;
    }

    // The seqs of all events that a relay starting at `position` would read.
    std::vector<std::int64_t> wanted_after(const Position &position) const
    {
        std::vector<std::int64_t> seqs;
        bool passed_from = position.from == begin_;
        bool passed_to = false;
        for (const Window &window : windows_)
        {
            if (passed_from)
                for (const Event &event : window.events)
                    if (passed_to || event.seq > position.last_seq)
                        seqs.push_back(event.seq);
            passed_to = passed_to || (passed_from && window.to == position.to);
            passed_from = passed_from || window.to == position.from;
        }
        EXPECT_TRUE(passed_from);
        return seqs;
    }

    // The seqs from the first event that is not acknowledged on.
    std::vector<std::int64_t> behind_prefix() const
    {
        std::vector<std::int64_t> seqs;
        bool behind = false;
        for (const Window &window : windows_)
            for (const Event &event : window.events)
            {
                behind = behind || !event.acknowledged;
                if (behind)
                    seqs.push_back(event.seq);
            }
        return seqs;
    }

private:
    struct Event
    {
        std::uint64_t tag;
        std::int64_t seq;
        bool acknowledged;
    };
    struct Window
    {
        XidSnapshot to;
        std::vector<Event> events;
        bool closed;
    };

    XidSnapshot begin_;
    std::vector<Window> windows_;
};

// A Progress and its model, driven by random steps that the relay may take.
class Simulation
{
public:
    explicit Simulation(unsigned seed) : random_(seed), progress_(1 + random_() % 8)
    {
        restart(at_rest(xmax_));
    }

    void step()
    {
        switch (random_() % 16)
        {
        case 0:
        case 1:
            close_window();
            break;
        case 2:
        case 3:
            open_window();
            break;
        case 4:
            remove_last();
            break;
        case 5:
            if (random_() % 4 == 0)
                restart(progress_.position());
            break;
        case 6:
        case 7:
        case 8:
        case 9:
            add();
            break;
        default:
            acknowledge();
        }
    }

    void check() const
    {
        const Position position = progress_.position();
        ASSERT_EQ(model_.wanted_after(position), model_.behind_prefix()) << shown(position);
        ASSERT_EQ(progress_.behind_prefix(), model_.behind_prefix().size());
        ASSERT_EQ(progress_.in_flight(), model_.in_flight().size());
    }

private:
    // As after a crash or a new producer: reading begins at the position, old reports mean nothing.
    void restart(const Position &position)
    {
        const std::vector<std::uint64_t> lost = model_.in_flight();
        old_tags_.insert(old_tags_.end(), lost.begin(), lost.end());
        progress_.reset(position);
        model_.reset(position);
        seq_ = position.last_seq;
    }

    void open_window()
    {
        if (model_.is_open())
            return;
        ++xmax_;
        progress_.open_window(until(xmax_));
        model_.open(until(xmax_));
        seq_ = 0; // the seqs of a later window may be lower
    }

    void close_window()
    {
        if (!model_.is_open())
            return;
        progress_.close_window();
        model_.close();
    }

    void add()
    {
        if (!model_.is_open() || !progress_.has_room(1, 1000))
            return;
        seq_ += 1 + static_cast<std::int64_t>(random_() % 3);
        model_.add(progress_.add(seq_, 1, 0), seq_);
    }

    void remove_last()
    {
        if (!model_.can_remove_last())
            return;
        progress_.remove_last();
        model_.remove_last();
    }

    void acknowledge()
    {
        const std::vector<std::uint64_t> in_flight = model_.in_flight();
        if (!in_flight.empty())
        {
            const std::uint64_t tag = in_flight[random_() % in_flight.size()];
            ASSERT_TRUE(progress_.acknowledge(tag));
            model_.acknowledge(tag);
        }
        if (old_tags_.empty())
            return;
        ASSERT_FALSE(progress_.acknowledge(old_tags_[random_() % old_tags_.size()]));
    }

    std::mt19937_64 random_;
    Progress progress_;
    Model model_;
    std::vector<std::uint64_t> old_tags_;
    std::uint64_t xmax_ = 5;
    std::int64_t seq_ = 0;
};

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

// Whoever resumes from the position reads again exactly what is behind the acknowledged prefix:
// nothing is lost, and nothing of the prefix is repeated.
TEST(Progress, PositionLeavesExactlyWhatIsBehindThePrefix)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (unsigned round = 0; round < 300; ++round)
    {
        Simulation simulation(seed + round);
        for (int step = 0; step < 200 && !::testing::Test::HasFatalFailure(); ++step)
        {
            simulation.step();
            simulation.check();
        }
        ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "round " << round;
    }
}

} // namespace

} // namespace outbox::test
