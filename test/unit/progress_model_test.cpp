// Progress against a model of it that keeps everything.
#include "progress_positions.h"

#include <random>
#include <vector>

namespace outbox::test
{

namespace
{

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
