// Which topics and keys are blocked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace outbox
{

// What must stay in order: a topic and key, or a whole topic. The hash is stored in
// outbox.deliveries, so it never changes. Two lanes that share a hash only wait for each other.
using Lane = std::uint64_t;

Lane topic_lane(std::string_view topic) noexcept;
Lane key_lane(std::string_view topic, std::string_view key) noexcept;

// The lanes that have events in outbox.deliveries. Events of such a lane are not handed over but
// join the line there. Costs memory for each lane, none for each event.
class Lanes
{
public:
    enum class State
    {
        clear,
        blocked,  // behind an event that Kafka refused
        releasing // nothing blocks it any more; the line goes out before anything new
    };

    State state(Lane lane) const noexcept
    {
        const auto found = lanes_.find(lane);
        return found == lanes_.end() ? State::clear : found->second;
    }

    // Throw std::bad_alloc.
    void block(Lane lane) { set(lane, State::blocked); }
    void release(Lane lane) { set(lane, State::releasing); }

    void clear(Lane lane) noexcept
    {
        if (state(lane) == State::releasing)
            releasing_--;
        lanes_.erase(lane);
    }

    std::size_t size() const noexcept { return lanes_.size(); }
    std::size_t releasing() const noexcept { return releasing_; }

    const std::unordered_map<Lane, State> &all() const noexcept { return lanes_; }

private:
    void set(Lane lane, State to)
    {
        State &now = lanes_[lane];
        releasing_ += to == State::releasing ? 1 : 0;
        releasing_ -= now == State::releasing ? 1 : 0;
        now = to;
    }

    std::unordered_map<Lane, State> lanes_;
    std::size_t releasing_ = 0;
};

} // namespace outbox
