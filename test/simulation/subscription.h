// One subscription of a history: its relay, its destination, and what happens to them.
#pragma once

#include "acts.h"
#include "checker.h"
#include "relay.h"

#include <memory>
#include <string>

namespace outbox::sim
{

class Subscription
{
public:
    // What all have in common.
    struct World
    {
        SimClock &clock;
        Random &random;
        Trace &trace;
        Database &database;
        Server &server;
        const History &history;
    };

    // `default` is number 0.
    Subscription(const World &world, const Settings &settings, int number);

    // It is there from now on, with these rows; its destination is a new one.
    void begin(const RelayTables &tables);
    void drop();
    bool exists() const noexcept { return relay_ != nullptr; }
    bool is_detached() const { return exists() && store_->tables().detached; }
    int number() const noexcept { return number_; }
    const Settings &settings() const noexcept { return settings_; }

    Checker &checker() noexcept { return checker_; }
    const Checker &checker() const noexcept { return checker_; }
    Relay &relay() noexcept { return *relay_; }
    const Relay &relay() const noexcept { return *relay_; }
    RelayStore &store() noexcept { return *store_; }
    unsigned types = 0;   // that it takes now
    Time attached_at = 0; // or created
    Time next_at = -1;    // next_event_at(), as far as it is known

    void advance_network();
    void advance_relay();
    // Nobody can be blamed for what does not go out now.
    void note_disturbances();
    Time next_event_at() const;
    bool is_done() const;
    std::size_t rounds() const noexcept { return exists() ? relay_->rounds() : 0; }
    std::size_t built() const noexcept { return exists() ? relay_->built() : 0; }

    // What befalls it; nothing while it does not exist.
    void kafka(const Act &act);
    void operate(const Act &act);
    void die();
    void restart();
    void put_right();
    // What has failed is retried, and discarded if it can never be sent.
    void settle();
    Time discarded_at() const noexcept { return discarded_at_; }

private:
    void speak() const noexcept;
    bool is_any_put_off() const;
    void pause(bool paused);
    void retry_failed();
    void discard(Delivery &row);
    void discard_one(int which);
    void hold_rows(int which);
    void replay(const Act &act);
    void cancel_replay();

    const World world_;
    const Settings settings_;
    const int number_;
    const std::string name_; // for lines of the trace
    Checker checker_;
    std::unique_ptr<RelayStore> store_;
    std::unique_ptr<Cluster> cluster_;
    std::unique_ptr<Network> network_;
    std::unique_ptr<Relay> relay_;
    Time discarded_at_ = 0;
};

} // namespace outbox::sim
