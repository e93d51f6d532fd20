// What the relay of `default` does for all: it empties partitions of the ring, and lets go of
// subscriptions that hold them back for too long. As bgworker/maintenance has it.
#pragma once

#include "changes.h"

#include <map>

namespace outbox::sim
{

class Maintenance
{
public:
    Maintenance(SimClock &clock, Trace &trace, Database &database, Subscriptions &all,
                const Changes &changes)
        : clock_(clock), trace_(trace), database_(database), all_(all), changes_(changes)
    {
    }

    // Every now and then, while that relay runs; whether it was time.
    bool advance();
    void empty_slot();
    // Nobody is let go of any more.
    void hold_all() noexcept { holds_all_ = true; }

private:
    void look_at(Subscription &one);
    void detach(Subscription &one);

    SimClock &clock_;
    Trace &trace_;
    Database &database_;
    Subscriptions &all_;
    const Changes &changes_;
    bool holds_all_ = false;
    Time look_at_ = 0;
    std::map<int, Time> lagging_since_; // by subscription
};

} // namespace outbox::sim
