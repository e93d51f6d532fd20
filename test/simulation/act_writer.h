// What writes acts into a history, at random.
#pragma once

#include "acts.h"
#include "world/random.h"

namespace outbox::sim
{

class ActWriter
{
protected:
    using Kind = Act::Kind;

    ActWriter(History &history, const Random &random) : history_(history), random_(random) {}

    Time moment() { return random_.below(history_.active); }
    int number(std::int64_t low, std::int64_t high)
    {
        return static_cast<int>(random_.between(low, high));
    }
    int topic() { return number(0, history_.types - 1); }
    void act(Time at, Kind kind, int a = 0, int b = 0, int c = 0, int d = 0, int e = 0)
    {
        history_.acts.push_back({at, kind, a, b, c, d, e, subscription_});
    }

    // Somebody does something about events, up to so many times.
    void operate(int most, Time longest_pause)
    {
        for (int i = number(1, most); i > 0; i--)
        {
            const Time at = moment();
            switch (random_.below(5))
            {
            case 0:
                act(at, Kind::pause);
                act(at + random_.below(longest_pause), Kind::resume);
                break;
            case 1:
                act(at, Kind::retry);
                break;
            case 2:
                act(at, Kind::discard, number(0, 20));
                break;
            case 3:
                act(at, Kind::hold, number(0, 20));
                act(at + random_.below(3 * kSecond), Kind::release);
                break;
            default:
                act(at, Kind::policy, number(1, 5), number(0, 1));
            }
        }
    }

    History &history_;
    Random random_;
    int subscription_ = 0; // whose acts they are; 0: those of `default`
};

} // namespace outbox::sim
