// What is done to subscriptions besides `default`: they are created, altered, attached and dropped
// by transactions of operators, and detached by the relay of `default`.
#pragma once

#include "subscription.h"

#include <memory>
#include <optional>
#include <vector>

namespace outbox::sim
{

using Subscriptions = std::vector<std::unique_ptr<Subscription>>;

// As sql/changing.sql has it. One transaction at a time: others would wait for it.
class Changes
{
public:
    Changes(SimClock &clock, Trace &trace, Database &database, Subscriptions &all)
        : clock_(clock), trace_(trace), database_(database), all_(all)
    {
    }

    // Does nothing if the function would refuse it, or a transaction has called one already.
    void call(const Act &act);
    void end(bool commits);
    // What has waited for a relay to end, which takes ten seconds at most.
    void advance();
    // The transaction is gone.
    void crashed();

    bool any() const noexcept { return change_.has_value(); }
    // No partition is emptied: the subscription may begin with what is there.
    bool holds_ring() const noexcept;
    bool holds(const Subscription &one) const noexcept;

private:
    struct Change
    {
        Act act;
        Time called_at = 0;
        bool waits = false; // for the relay to end
        std::optional<bool> commits;
        XidSnapshot begins;
        std::int64_t left_out = 0;
    };

    bool may(const Act &act) const;
    void begin();
    void finish(bool commits);
    void apply(Subscription &one);
    void create(Subscription &one);
    void alter(Subscription &one);
    void attach(Subscription &one);

    SimClock &clock_;
    Trace &trace_;
    Database &database_;
    Subscriptions &all_;
    std::optional<Change> change_;
};

} // namespace outbox::sim
