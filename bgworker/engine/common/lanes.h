// Which topics, partitions and keys are blocked.
#pragma once

#include "sip_hash.h"

#include "bgworker/engine/clock.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace outbox
{

// What must stay in order: a topic and key, a partition of a topic, or a whole topic. The lane says
// which of these, so one of a key is never that of a topic; 0 is none. The rest of it is a hash by
// the database's secret, as whoever emits chooses keys, and types that topics are named after: he
// cannot have one of his events, refused, block what is not his. Two lanes that share a hash by
// chance only wait for each other.
using Lane = std::uint64_t;

// Once, before there are any lanes. They are stored in outbox.deliveries, so the key is as well.
void set_lane_key(const SipKey &key) noexcept;

Lane topic_lane(std::string_view topic) noexcept;
Lane partition_lane(Lane topic, std::int32_t partition) noexcept;
Lane key_lane(std::string_view topic, std::string_view key) noexcept;

// What the stored lane of an event with this topic and key is by the key of now: the same, unless
// it comes from another database or from 0.2. Then a topic's is the topic's, and all others the
// key's: of which partition it was cannot be told, and a row may go to a narrower lane.
Lane present_lane(Lane stored, std::string_view topic, std::string_view key) noexcept;

// What is known of a lane that has events in outbox.deliveries.
struct Line
{
    enum class State : unsigned char
    {
        clear,
        blocked,   // behind an event that Kafka refused
        releasing, // nothing blocks it any more; the line goes out before anything new
        closing    // the last of it is on its way; what is new waits in memory
    };
    static constexpr std::uint32_t kWholeGroup = 512;
    static constexpr std::uint32_t kFirstGroup = 32;

    State state = State::clear;
    bool isolating = false; // fewer go out together, as one of them is refused
    bool halved = false;    // for what came back of this group
    std::uint32_t group = kFirstGroup;
    std::uint32_t in_flight = 0;
    // Handed over by the stream of new events before they were set aside, and not given up yet.
    std::uint32_t afloat = 0;
    // The stream's events before this tag are to be acknowledged before any of the line goes out.
    std::uint64_t barrier = 0;
    // The lowest tag of those that joined it, a topic's, as nobody knew their partition.
    std::uint64_t unplaced = UINT64_MAX;
    // All that waits up to here is on its way.
    bool has_cursor = false;
    std::int64_t cursor = 0;
    Steady since; // closing
    // The lane that its next event waits for while that is blocked: a wider one; or that which this
    // is to follow into, and a person holds it.
    Lane behind = 0;

    // An event joins the line. It may have a lower number than some that are on their way: numbers
    // are drawn before the commit. Later events of its key may not go before it.
    void joined(std::int64_t seq) noexcept
    {
        behind = 0; // it may be the next one
        if (has_cursor && seq <= cursor)
            cursor = seq - 1;
    }
};

// The lanes that have events in outbox.deliveries. Events of such a lane are not handed over but
// join the line there. Costs memory for each lane, none for each event.
class Lanes
{
public:
    using State = Line::State;

    State state(Lane lane) const noexcept
    {
        const auto found = lanes_.find(lane);
        return found == lanes_.end() ? State::clear : found->second.state;
    }

    Line *find(Lane lane) noexcept
    {
        const auto found = lanes_.find(lane);
        return found == lanes_.end() ? nullptr : &found->second;
    }

    // Throw std::bad_alloc. A lane that was clear gets the barrier.
    void block(Lane lane, std::uint64_t barrier = 0) { set(lane, State::blocked, barrier); }
    void release(Lane lane, std::uint64_t barrier = 0) { set(lane, State::releasing, barrier); }

    // Of a lane that is being released.
    void close(Line &line, Steady now) noexcept
    {
        line.state = State::closing;
        line.since = now;
    }

    void open_closing() noexcept
    {
        for (auto &lane : lanes_)
            if (lane.second.state == State::closing)
                lane.second.state = State::releasing;
    }

    void clear(Lane lane) noexcept
    {
        if (is_open(state(lane)))
            releasing_--;
        lanes_.erase(lane);
    }

    std::size_t size() const noexcept { return lanes_.size(); }
    // Those being closed included.
    std::size_t releasing() const noexcept { return releasing_; }

    const std::unordered_map<Lane, Line> &all() const noexcept { return lanes_; }
    std::unordered_map<Lane, Line> &all() noexcept { return lanes_; }

private:
    static bool is_open(State state) noexcept
    {
        return state == State::releasing || state == State::closing;
    }

    void set(Lane lane, State to, std::uint64_t barrier)
    {
        Line &line = lanes_[lane];
        if (line.state == State::clear)
            line.barrier = barrier;
        releasing_ += is_open(to) ? 1 : 0;
        releasing_ -= is_open(line.state) ? 1 : 0;
        line.state = to;
    }

    std::unordered_map<Lane, Line> lanes_;
    std::size_t releasing_ = 0;
};

} // namespace outbox
