// When to look again at what others change.
#pragma once

#include <algorithm>
#include <cstdint>

namespace outbox
{

// A change is looked at as soon as it is told of, and the looks take a bounded part of the time:
// the next one waits four times as long as the last one took, at most five seconds, and longer when
// a change is only possible. What is told of meanwhile is kept. Moments are microseconds of a clock
// that is never set.
class ChangePace
{
public:
    // Something has changed.
    void note() noexcept { changed_ = true; }
    // Something may have changed: whoever says so cannot know, and need not have a right to.
    void note_possible() noexcept { possible_ = true; }

    bool is_due(std::int64_t now) const noexcept
    {
        return (changed_ && now >= next_) || (possible_ && now >= next_possible_);
    }
    // Until then, in ms; -1: nothing is told of.
    long wait_ms(std::int64_t now) const noexcept
    {
        if (!changed_ && !possible_)
            return -1;
        const std::int64_t at = changed_ ? next_ : next_possible_;
        return static_cast<long>(std::max<std::int64_t>(at - now + 999, 0) / 1000);
    }

    // A look begins, which sees all that was told of before; and has ended.
    void begin(std::int64_t now) noexcept
    {
        began_ = now;
        changed_ = possible_ = false;
    }
    void end(std::int64_t now) noexcept
    {
        const std::int64_t pause = std::min(kPauses * (now - began_), kLongest);
        next_ = now + pause;
        next_possible_ = now + std::max(kPossible * pause, kLeastPossible);
    }

private:
    static constexpr std::int64_t kSecond = 1000 * 1000;
    static constexpr std::int64_t kPauses = 4;
    static constexpr std::int64_t kLongest = 5 * kSecond;
    static constexpr std::int64_t kPossible = 4; // of those pauses
    static constexpr std::int64_t kLeastPossible = kSecond;

    bool changed_ = false;
    bool possible_ = false;
    std::int64_t began_ = 0;
    std::int64_t next_ = INT64_MIN;
    std::int64_t next_possible_ = INT64_MIN;
};

} // namespace outbox
