// What plays a history: the simulated world, its subscriptions, and the order of things.
#pragma once

#include "maintenance.h"
#include "simulation.h"

#include <algorithm>
#include <memory>

namespace outbox::sim
{

// Tells the checker of each subscription.
class Fates final : public EventFate
{
public:
    explicit Fates(Subscriptions &all) : all_(all) {}
    void emitted(const EventRow &row) override
    {
        for (auto &one : all_)
            one->checker().emitted(row);
    }
    void committed(int event) override
    {
        for (auto &one : all_)
            one->checker().committed(event);
    }
    void vanished(int event) override
    {
        for (auto &one : all_)
            one->checker().vanished(event);
    }
    void removed(int event) override
    {
        for (auto &one : all_)
            one->checker().removed(event);
    }

private:
    Subscriptions &all_;
};

class Play final : public Server
{
public:
    Play(const History &history, bool in_words)
        : history_(history), clock_(history.seed), random_(history.seed), trace_(clock_, in_words),
          fates_(subscriptions_),
          database_(clock_, random_, trace_, fates_, history.types, {history.lanes, 0}),
          changes_(clock_, trace_, database_, subscriptions_),
          maintenance_(clock_, trace_, database_, subscriptions_, changes_)
    {
        most_rows_looked_at = history.rows_at_once;
        const Subscription::World world = {clock_, random_, trace_, database_, *this, history_};
        add(world, history);
        for (const Settings &settings : history.others)
            add(world, settings);
        subscriptions_.front()->checker().takes_all();
        subscriptions_.front()->begin(RelayTables());
    }

    // Their stores leave the database when they end, so they end first; and lines of the trace are
    // of none of them then.
    ~Play()
    {
        trace_.is_about("");
        subscriptions_.clear();
    }
    Play(const Play &) = delete;
    Play &operator=(const Play &) = delete;

    Outcome run();
    void crash() override;

private:
    void add(const Subscription::World &world, const Settings &settings)
    {
        const int number = static_cast<int>(subscriptions_.size());
        subscriptions_.push_back(std::make_unique<Subscription>(world, settings, number));
    }
    template <class Visit> void for_each(Visit &&visit)
    {
        for (auto &one : subscriptions_)
            if (one->exists())
                visit(*one);
    }
    template <class Is> bool all_of(Is &&is) const
    {
        return std::all_of(subscriptions_.begin(), subscriptions_.end(),
                           [&](const auto &one) { return !one->exists() || is(*one); });
    }

    Time next_event_at(Time quiet_at);
    bool is_over(Time quiet_at) const;
    bool is_wrong() const;
    void advance();
    void settle();
    void put_all_right();
    void perform(const Act &act);
    void session(const Act &act);
    void server(const Act &act);
    void operate(const Act &act);
    void change_routes(const Act &act);
    void wake_all()
    {
        for_each([](Subscription &one) { one.relay().wake(); });
    }
    Outcome outcome();

    const History &history_;
    SimClock clock_;
    Random random_;
    Trace trace_;
    Subscriptions subscriptions_;
    Fates fates_;
    Database database_;
    Changes changes_;
    Maintenance maintenance_;
    std::size_t next_act_ = 0;
    Time settle_at_ = 0;
    bool touched_ = true; // something may be due to any of them
};

} // namespace outbox::sim
