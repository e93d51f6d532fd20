// Simulated time, in microseconds.
#pragma once

#include "bgworker/engine/clock.h"
#include "bgworker/engine/mutant.h"

#include "random.h"

namespace outbox::sim
{

constexpr Time kMs = 1000;
constexpr Time kSecond = 1000 * kMs;
constexpr Time kNever = INT64_MAX;
constexpr Time kBegin = 1000 * kSecond; // 0 stands for "never" in many places
constexpr Time kYear = 366 * 86400 * kSecond;

// Time passes when somebody says so: the simulation goes to the next thing that happens, and each
// look at a clock costs the relay a little. What happens in the world goes by the steady clock; the
// time of day is another one, which persons set.
class SimClock final : public Clock
{
public:
    explicit SimClock(std::uint64_t seed) : random_(seed) {}

    // For the relay.
    Time time_of_day() noexcept override
    {
        now_ += cost_of_a_look_;
        return wall();
    }
    Steady steady() noexcept override
    {
        now_ += cost_of_a_look_;
        return {OUTBOX_MUTANT(paces_by_time_of_day) ? wall() : now_};
    }
    std::uint64_t random() noexcept override { return random_.next(); }

    // For the world.
    Time at() const noexcept { return now_; }
    Time wall() const noexcept { return now_ + set_by_; }
    void advance(Time by) noexcept { now_ += by; }
    // What took its time was one of several processes that run at the same time.
    void go_back(Time time) noexcept { now_ = time; }
    void go_to(Time time) noexcept { now_ = time > now_ ? time : now_; }
    void set_cost_of_a_look(Time cost) noexcept { cost_of_a_look_ = cost; }
    void set_wall(Time by) noexcept
    {
        set_by_ += by;
        was_set_ = true;
    }
    bool was_set() const noexcept { return was_set_; }

private:
    Time now_ = kBegin;
    Time set_by_ = 26 * kYear;
    bool was_set_ = false;
    Time cost_of_a_look_ = 1;
    Random random_;
};

} // namespace outbox::sim
