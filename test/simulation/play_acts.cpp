// What happens in a history, and how all is put right at its end.
#include "play.h"

namespace outbox::sim
{

using Kind = Act::Kind;

// Of all processes, whichever was killed.
void
Play::crash()
{
    touched_ = true;
    for_each([](Subscription &one) { one.die(); });
    trace_.is_about("");
    database_.crash();
    changes_.crashed();
    if (subscriptions_.size() > 1 && history_.new_lanes)
        database_.change_lane_key();
    for_each(
        [&](Subscription &one)
        {
            one.checker().crashed();
            one.checker().tables_changed();
        });
}

void
Play::perform(const Act &act)
{
    const auto number = static_cast<std::size_t>(act.subscription);
    trace_.is_about("");
    if (act.kind <= Kind::rollback)
        return session(act);
    if (act.kind >= Kind::create && act.kind <= Kind::end_change)
        return act.kind == Kind::end_change ? changes_.end(act.a != 0) : changes_.call(act);
    if (number >= subscriptions_.size() || !subscriptions_[number]->exists())
        return;
    if (act.kind <= Kind::wants_no_more)
        subscriptions_[number]->kafka(act);
    else if (act.kind <= Kind::slow_machine)
        server(act);
    else
        operate(act);
}

void
Play::session(const Act &act)
{
    EventRow row;
    switch (act.kind)
    {
    case Kind::begin:
        return database_.begin(act.a);
    case Kind::emit:
        row.type = act.b;
        row.key = act.c;
        row.invalid = act.d == Act::invalid;
        row.unreadable = act.d == Act::unreadable;
        row.bytes = act.e;
        return database_.emit(act.a, row);
    case Kind::savepoint:
        return database_.savepoint(act.a);
    case Kind::undo:
        return database_.rollback_to_savepoint(act.a);
    case Kind::prepare:
        return database_.prepare(act.a);
    case Kind::commit:
        database_.commit(act.a, act.b != 0);
        return wake_all();
    default:
        return database_.rollback(act.a);
    }
}

void
Play::server(const Act &act)
{
    Subscription &one = *subscriptions_[static_cast<std::size_t>(act.subscription)];
    switch (act.kind)
    {
    case Kind::lock:
        trace_.say("a session locks table %d for %d ms", act.a, act.b);
        return database_.lock(static_cast<Table>(act.a), clock_.at() + act.b * kMs);
    case Kind::no_space:
        return one.store().fail_statements(act.a, clock_.at() + act.b * kMs);
    case Kind::crash:
        return crash();
    case Kind::kill:
        return one.store().kill_after(act.a);
    case Kind::restart:
        return one.restart();
    case Kind::flush_log:
        return database_.flush_log(database_.end_of_log());
    case Kind::standby:
        trace_.say("the standby %s", act.a != 0 ? "lags" : "is there");
        return database_.set_standby_lag(act.a != 0);
    case Kind::rotate:
        return database_.rotate();
    case Kind::empty_slot:
        return maintenance_.empty_slot();
    case Kind::slow_disk:
        trace_.say("the disk is slow: %d us for each row", act.a);
        return database_.set_cost_of_a_row(act.a);
    case Kind::set_clock:
        trace_.say("the clock is set by %d s", act.a);
        return clock_.set_wall(act.a * kSecond);
    default:
        return clock_.set_cost_of_a_look(act.a);
    }
}

void
Play::operate(const Act &act)
{
    switch (act.kind)
    {
    case Kind::route:
    case Kind::blocking:
        return change_routes(act);
    case Kind::repair:
        trace_.say("a person repairs what cannot be read");
        for_each([](Subscription &one) { one.checker().repaired(); });
        database_.repair();
        return for_each([](Subscription &one) { one.relay().tell_of_change(); });
    default:
        return subscriptions_[static_cast<std::size_t>(act.subscription)]->operate(act);
    }
}

void
Play::change_routes(const Act &act)
{
    const auto type = static_cast<std::size_t>(act.a);
    if (act.kind == Kind::route)
    {
        trace_.say("type %d goes to topic%d from now on", act.a, act.b);
        database_.change_routes([&](Routes &routes)
                                { routes.topics.at(type) = "topic" + std::to_string(act.b); });
        for (auto &one : subscriptions_) // also one that is created later
            one->checker().routed(act.a);
    }
    else
        database_.change_routes([&](Routes &routes) { routes.blocks.at(type) = act.b != 0; });
    wake_all();
}

void
Play::put_all_right()
{
    trace_.is_about("");
    trace_.say("all is put right");
    touched_ = true;
    for_each([](Subscription &one) { one.put_right(); });
    for (int table = 0; table < kTables; table++)
        database_.lock(static_cast<Table>(table), 0);
    database_.set_standby_lag(false);
    clock_.set_cost_of_a_look(1);
    database_.set_cost_of_a_row(0);
    maintenance_.hold_all();
    changes_.end(true);
    for (int session = 0; session < 1000; session++)
        if (database_.has_transaction(session))
            database_.commit(session, true);
    wake_all();
    for_each([](Subscription &one) { one.checker().disturbed(0); });
}

} // namespace outbox::sim
