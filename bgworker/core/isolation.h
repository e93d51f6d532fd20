// Finds the event that Kafka refuses, when a refusal hits everything that was sent together with
// it.
#pragma once

#include <algorithm>
#include <cstddef>

namespace outbox
{

// After a refusal events go out in groups, each acknowledged before the next begins. A refused
// group is halved, an accepted one doubles the next, and a refused group of one is the culprit. It
// ends when as many events went through as were under suspicion.
class Isolation
{
public:
    bool active() const noexcept { return suspects_ > 0; }

    // Most events that may be outstanding together.
    std::size_t group() const noexcept { return group_; }

    // `outstanding` events were refused together, the last of which is `suspects` events ahead.
    void refused(std::size_t outstanding, std::size_t suspects) noexcept
    {
        suspects_ = std::max({suspects_, suspects, std::size_t{1}});
        group_ =
            std::max<std::size_t>(std::min(outstanding, std::max<std::size_t>(group_, 2)) / 2, 1);
    }

    // A group of this many events was accepted, or set aside.
    void accepted(std::size_t events) noexcept
    {
        suspects_ -= std::min(suspects_, events);
        group_ = suspects_ == 0 ? kWhole : group_ * 2;
    }

private:
    static constexpr std::size_t kWhole = 1 << 20;
    std::size_t suspects_ = 0;
    std::size_t group_ = kWhole;
};

} // namespace outbox
