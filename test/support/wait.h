#pragma once

#include <chrono>
#include <thread>

namespace outbox::test
{

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Polls `condition` until it holds and says whether it did within `limit`. The condition is tried
// at least once, and once more at the very end, so a slow machine does not turn "just in time" into
// a miss.
template <class Condition>
bool
wait_until(Milliseconds limit, Condition &&condition)
{
    const auto deadline = Clock::now() + limit;
    auto pause = Milliseconds(2);
    while (!condition())
    {
        if (Clock::now() >= deadline)
            return condition();
        std::this_thread::sleep_for(pause);
        if (pause < Milliseconds(50))
            pause *= 2;
    }
    return true;
}

inline Milliseconds
since(Clock::time_point start)
{
    return std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
}

} // namespace outbox::test
