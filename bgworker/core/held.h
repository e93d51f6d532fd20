// Events that were read and can not go out just now, for a moment.
#pragma once

#include "lanes.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace outbox
{

// Tags of the stream, in lines by what they wait for: a topic that nothing is known of yet, a
// partition whose leader is being found, or a lane whose line in outbox.deliveries ends just now.
// As many at most as may be in flight.
class Held
{
public:
    struct Line
    {
        std::deque<std::uint64_t> tags;
        bool for_topic = false; // only news of a topic can help
    };

    bool is_empty() const noexcept { return lines_.empty(); }
    bool has(Lane lane) const noexcept
    {
        return !lines_.empty() && lines_.find(lane) != lines_.end();
    }

    // Throws std::bad_alloc.
    void add(Lane lane, std::uint64_t tag, bool for_topic)
    {
        lines_.try_emplace(lane, Line{{}, for_topic}).first->second.tags.push_back(tag);
    }

    std::uint64_t first(Lane lane) const { return lines_.at(lane).tags.front(); }

    // Returns false when the line is empty, and so gone.
    bool drop_first(Lane lane)
    {
        const auto found = lines_.find(lane);
        found->second.tags.pop_front();
        if (!found->second.tags.empty())
            return true;
        lines_.erase(found);
        return false;
    }

    void clear() noexcept { lines_.clear(); }

    const std::unordered_map<Lane, Line> &lines() const noexcept { return lines_; }

private:
    std::unordered_map<Lane, Line> lines_;
};

} // namespace outbox
