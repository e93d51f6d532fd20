#include "maintenance.h"

#include <algorithm>

namespace outbox::sim
{

bool
Maintenance::advance()
{
    constexpr Time kPause = 500 * kMs;
    if (all_.size() == 1 || clock_.at() < look_at_ || !all_.front()->relay().is_running() ||
        database_.is_locked(Table::events))
        return false;
    look_at_ = clock_.at() + kPause;
    empty_slot();
    if (holds_all_)
        return true;
    for (auto &one : all_)
        if (one->exists() && !one->is_detached() && one->settings().max_lag > 0)
            look_at(*one);
    return true;
}

void
Maintenance::empty_slot()
{
    if (changes_.holds_ring())
        return;
    trace_.is_about("");
    if (database_.empty_one_slot())
        for (auto &one : all_)
            one->checker().check_missed();
}

// For a while, so that a subscription can show that it is well after a restart.
void
Maintenance::look_at(Subscription &one)
{
    constexpr Time kLongestGrace = 60 * kSecond;
    const Time now = clock_.at();
    const Time max_lag = one.settings().max_lag;
    if (now - one.attached_at < max_lag || !database_.holds_since(one.store(), now - max_lag))
    {
        lagging_since_.erase(one.number());
        return;
    }
    const auto since = lagging_since_.try_emplace(one.number(), now).first->second;
    if (now - since >= std::min(kLongestGrace, max_lag) && !changes_.holds(one))
        detach(one);
}

void
Maintenance::detach(Subscription &one)
{
    trace_.is_about("");
    trace_.say("subscription %d is detached", one.number());
    lagging_since_.erase(one.number());
    one.store().write(
        [&](RelayTables &tables)
        {
            tables.detached = true;
            tables.missed = 0;
            for (ReplayRow &replay : tables.replays)
                if (!replay.has_ended())
                    replay.state = ReplayRow::State::failed;
            tables.filters.add(tables.position.from, false, one.types);
        });
    one.checker().detached();
    one.restart();
}

} // namespace outbox::sim
