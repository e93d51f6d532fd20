// What happens to one subscription: to its destination, and what operators do.
#include "subscription.h"

namespace outbox::sim
{

using Kind = Act::Kind;

void
Subscription::kafka(const Act &act)
{
    const std::string topic = "topic" + std::to_string(act.a);
    const int broker = settings_.endpoint ? 0 : act.a;
    Cluster &cluster = *cluster_;
    speak();
    if (settings_.endpoint && (act.kind == Kind::lead || act.kind == Kind::short_replicas))
        return;
    switch (act.kind)
    {
    case Kind::unusable:
        return relay_->set_usable(act.a == 0);
    case Kind::wants_no_more:
        if (settings_.endpoint)
            cluster.want_no_more(act.a != 0);
        return;
    case Kind::broker_down:
        return cluster.set_broker(broker, false, false);
    case Kind::broker_up:
        return cluster.set_broker(broker, true, false);
    case Kind::broker_hangs:
        return cluster.set_broker(broker, true, true);
    case Kind::broker_slow:
        world_.trace.say("broker %d is slower by %d ms", broker, act.b);
        cluster.broker(broker).slow_by = act.b * kMs;
        cluster.broker(broker).well_since = world_.clock.at();
        return;
    case Kind::lose_answers:
        cluster.broker(broker).answers_to_lose = act.b;
        return;
    case Kind::lead:
        return cluster.set_leader({topic, act.b}, act.c);
    case Kind::short_replicas:
        return cluster.set_replicas({topic, act.b}, act.c == 2, act.c == 1);
    case Kind::topic_missing:
        checker_.topic_refuses();
        return cluster.set_topic(topic, false, true);
    case Kind::topic_forbidden:
        checker_.topic_refuses();
        return cluster.set_topic(topic, true, false, act.b != 0);
    case Kind::topic_fine:
        return cluster.set_topic(topic, true, true);
    case Kind::topic_limit:
        checker_.limits(topic);
        checker_.limited(act.b);
        cluster.topic(topic)->max_bytes = act.b;
        return;
    default:
        cluster.topic(topic)->checks_records = act.b != 0;
        return;
    }
}

void
Subscription::operate(const Act &act)
{
    speak();
    switch (act.kind)
    {
    case Kind::pause:
    case Kind::resume:
        return pause(act.kind == Kind::pause);
    case Kind::retry:
        return retry_failed();
    case Kind::discard:
        return discard_one(act.a % 3);
    case Kind::hold:
        return hold_rows(act.a);
    case Kind::release:
        // Rolled back, which tells nobody.
        return store_->release_rows();
    case Kind::replay:
        return replay(act);
    case Kind::cancel_replay:
        return cancel_replay();
    default:
        return relay_->set_policy(
            {act.a, act.b != 0, settings_.backoff_initial_ms, settings_.backoff_max_ms});
    }
}

void
Subscription::pause(bool paused)
{
    world_.trace.say("an operator %s", paused ? "pauses" : "resumes");
    store_->operate(
        [&](RelayTables &tables)
        {
            tables.paused = paused;
            tables.left = tables.left && paused;
        });
    relay_->tell_of_change();
}

void
Subscription::hold_rows(int which)
{
    int number = 0;
    for (const auto &[seq, row] : store_->tables().deliveries())
        if (which < 0 || number++ == which % 5)
        {
            world_.trace.say("a session holds the row of event %d", row.event);
            store_->hold_row(seq);
        }
}

void
Subscription::replay(const Act &act)
{
    if (is_detached())
        return;
    ReplayRow row;
    row.number = static_cast<int>(store_->tables().replays.size()) + 1;
    row.rate = act.c;
    row.events = std::make_shared<const std::vector<int>>(
        world_.database.replayable(*store_, act.a, static_cast<std::size_t>(act.b)));
    world_.trace.say("an operator has %zu events replayed", row.events->size());
    store_->operate([&](RelayTables &tables) { tables.replays.push_back(row); });
    relay_->tell_of_change();
}

void
Subscription::cancel_replay()
{
    world_.trace.say("an operator cancels the replay");
    store_->operate(
        [](RelayTables &tables)
        {
            for (ReplayRow &row : tables.replays)
                if (row.state == ReplayRow::State::running)
                    row.state = ReplayRow::State::cancelled;
        });
    relay_->tell_of_change();
}

void
Subscription::retry_failed()
{
    world_.trace.say("an operator retries what has failed");
    store_->operate(
        [&](RelayTables &tables)
        {
            for (auto &[seq, row] : tables.change_deliveries())
            {
                if (row.state != DeliveryState::failed || !store_->may_change(seq))
                    continue;
                checker_.settled(row.event);
                if (world_.database.row(row.event).unreadable)
                    discard(row);
                else
                {
                    row.state = DeliveryState::retrying;
                    row.attempts = 0;
                    row.next_attempt_at = world_.clock.wall();
                }
            }
        });
    relay_->tell_of_change();
}

void
Subscription::discard_one(int which)
{
    store_->operate(
        [&](RelayTables &tables)
        {
            int number = 0;
            for (auto &[seq, row] : tables.change_deliveries())
                if (row.state == DeliveryState::failed && number++ == which &&
                    store_->may_change(seq))
                    discard(row);
        });
    relay_->tell_of_change();
}

void
Subscription::discard(Delivery &row)
{
    world_.trace.say("an operator discards event %d", row.event);
    discarded_at_ = world_.clock.at();
    row.state = DeliveryState::discarded;
    row.blocking = false;
    row.next_attempt_at = 0;
    checker_.discarded(row.event);
    checker_.settled(row.event);
}

void
Subscription::put_right()
{
    speak();
    Cluster &cluster = *cluster_;
    cluster.want_no_more(false);
    relay_->set_usable(true);
    for (int broker = 0; broker < kBrokers; broker++)
    {
        cluster.set_broker(broker, true, false);
        cluster.broker(broker).slow_by = 0;
        cluster.broker(broker).answers_to_lose = 0;
    }
    for (const auto &item : cluster.partitions())
    {
        if (item.second.leader < 0)
            cluster.set_leader(item.first, 0);
        cluster.set_replicas(item.first, true, false);
    }
    for (int i = 0; i < world_.history.types; i++)
    {
        const std::string name = "topic" + std::to_string(i);
        cluster.set_topic(name, true, true);
        cluster.topic(name)->max_bytes = 100000;
        cluster.topic(name)->checks_records = false;
    }
    store_->fail_statements(0);
    store_->kill_after(-1);
    store_->release_rows();
    if (!store_->tables().paused)
        return;
    pause(false);
}

void
Subscription::settle()
{
    speak();
    // It had heard so before all was put right.
    if (store_->tables().left)
        pause(false);
    for (const auto &[seq, row] : store_->tables().deliveries())
        if (row.state == DeliveryState::failed)
            return retry_failed();
}

} // namespace outbox::sim
