// Events that were read and can not go out just now, for a moment.
#pragma once

#include "bgworker/engine/clock.h"
#include "bgworker/engine/common/lanes.h"
#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

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
        const auto [line, is_new] = lines_.try_emplace(lane);
        if (is_new)
            line->second.for_topic = for_topic;
        line->second.tags.push_back(tag);
    }
    // One that the sink has given back comes before what was held since.
    void take_back(Lane lane, std::uint64_t tag)
    {
        std::deque<std::uint64_t> &tags = lines_[lane].tags;
        tags.insert(std::lower_bound(tags.begin(), tags.end(), tag), tag);
    }

    // What the first of a line waits for has changed.
    void set_for_topic(Lane lane, bool for_topic) { lines_.at(lane).for_topic = for_topic; }

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

    void clear() noexcept
    {
        lines_.clear();
        flowing_ = false;
    }

    // There is news of topics.
    void note_news() noexcept { news_ = true; }
    // The look before has ended only for lack of time, while a line went out.
    bool is_flowing() const noexcept { return flowing_ && !is_empty(); }
    // Whether it is time to try what is held again.
    bool is_due(Steady now) const noexcept
    {
        constexpr int kHeldMs = 20;
        return !is_empty() && (news_ || flowing_ || has_passed(looked_at_, now, kHeldMs));
    }
    // The lanes to be tried now, beginning where the look before has stopped. Throws
    // std::bad_alloc.
    const std::vector<Lane> &begin_look(Steady now)
    {
        constexpr int kTopicsMs = 100; // that one is not described for too long is no news
        flowing_ = false;
        with_topics_ = std::exchange(news_, false) ||
                       (has_passed(topics_at_, now, kTopicsMs) && !OUTBOX_MUTANT(looks_with_news));
        looked_at_ = now;
        if (with_topics_)
            topics_at_ = now;
        lanes_.clear();
        for (const auto &line : lines_)
            if (with_topics_ || !line.second.for_topic)
                lanes_.push_back(line.first);
        std::sort(lanes_.begin(), lanes_.end());
        std::rotate(lanes_.begin(), std::lower_bound(lanes_.begin(), lanes_.end(), next_),
                    lanes_.end());
        return lanes_;
    }
    // The look ends before its end, at this lane, and the next one continues; at once if it
    // was flowing.
    void stop_look(Lane at, bool flowing) noexcept
    {
        next_ = at;
        news_ = with_topics_;
        flowing_ = flowing;
    }

    const std::unordered_map<Lane, Line> &lines() const noexcept { return lines_; }

private:
    std::unordered_map<Lane, Line> lines_;
    std::vector<Lane> lanes_; // of the look under way
    Steady looked_at_;
    Steady topics_at_; // the last look at those that wait for a topic
    bool news_ = false;
    bool with_topics_ = false;
    bool flowing_ = false;
    Lane next_ = 0;
};

} // namespace outbox
