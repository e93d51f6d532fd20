#include "simulation.h"

#include "relay.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

using Kind = Act::Kind;

constexpr Time kQuiet = 45 * kSecond; // at the end, at most, or behind the last that was discarded

// Who allows for fewer events in flight has them wait for each other.
bool
allows_many(const History &history)
{
    constexpr int kMany = 100;
    constexpr int kManyBytes = 20000;
    return history.max_events >= kMany && history.max_bytes >= kManyBytes;
}

class Simulation
{
public:
    Simulation(const History &history, bool in_words)
        : history_(history), clock_(history.seed), random_(history.seed), trace_(clock_, in_words),
          checker_(clock_, trace_), database_(clock_, random_, trace_, checker_, history.types),
          cluster_(clock_, random_, trace_, checker_, history.types),
          network_(clock_, random_, trace_, cluster_),
          relay_({clock_, random_, trace_, database_, cluster_, network_, checker_},
                 {{static_cast<std::size_t>(history.max_events),
                   static_cast<std::size_t>(history.max_bytes)},
                  {history.max_attempts, history.block, history.backoff_initial_ms,
                   history.backoff_max_ms},
                  {history.max_in_flight, static_cast<std::size_t>(history.batch_records),
                   2 * static_cast<std::size_t>(history.max_events) + 100,
                   2 * static_cast<std::size_t>(history.max_bytes), history.sends_ready},
                  {history.endpoint, 2 * static_cast<std::size_t>(history.max_events) + 100,
                   static_cast<std::size_t>(history.batch_records), history.backoff_initial_ms,
                   history.backoff_max_ms, history.sink_dies},
                  {history.lanes, 0},
                  history.new_lanes})
    {
        most_rows_looked_at = history.rows_at_once;
        checker_.watch(database_, cluster_);
        if (history.max_in_flight > 1)
        {
            checker_.excuse_order();
            cluster_.begin_at_zero();
        }
        if (history.endpoint)
        {
            cluster_.be_endpoint();
            checker_.refuses_alone();
        }
        const bool many = allows_many(history);
        // What has no answer is tried again after a pause, whatever was wrong.
        const Time pause = history.endpoint ? history.backoff_max_ms * kMs : 0;
        checker_.set_patience(history.backoff_max_ms * kMs * 3 + 20 * kSecond,
                              (many ? 2 : 8) * kSecond + pause, !many);
    }

    Outcome run()
    {
        Time quiet_at = kBegin + history_.active;
        if (!history_.acts.empty())
            quiet_at = std::max(quiet_at, kBegin + history_.acts.back().at);
        bool quiet = false;
        while (checker_.failure().empty() && !(quiet && is_over(quiet_at)))
        {
            clock_.go_to(next_event_at(quiet ? kNever : quiet_at));
            while (next_act_ < history_.acts.size() &&
                   kBegin + history_.acts[next_act_].at <= clock_.at())
                perform(history_.acts[next_act_++]);
            if (!quiet && clock_.at() >= quiet_at)
            {
                quiet = true;
                put_all_right();
            }
            if (quiet)
                settle();
            network_.advance();
            relay_.advance();
            note_disturbances();
            checker_.tick();
            checker_.rounds(relay_.rounds());
        }
        checker_.end();
        Outcome outcome;
        outcome.kind = checker_.kind();
        outcome.text = checker_.failure();
        outcome.hash = trace_.hash();
        outcome.lasted = clock_.at() - kBegin;
        outcome.rounds = relay_.rounds();
        outcome.published = checker_.published();
        outcome.repeats = checker_.repeats();
        outcome.refusals = checker_.refusals();
        outcome.lines = trace_.lines();
        return outcome;
    }

private:
    Time next_event_at(Time quiet_at) const
    {
        Time next = std::min(
            {network_.next_event_at(), relay_.next_event_at(), quiet_at, clock_.at() + 100 * kMs});
        if (next_act_ < history_.acts.size())
            next = std::min(next, kBegin + history_.acts[next_act_].at);
        return next;
    }

    bool is_over(Time quiet_at) const
    {
        return clock_.at() > std::max(quiet_at, discarded_at_) + kQuiet ||
               (checker_.all_done() && relay_.is_idle() && network_.on_its_way() == 0);
    }

    // Whether a clock that was set back has put off an attempt: the relay's maintenance finds it.
    bool is_any_put_off() const
    {
        const Time latest = clock_.wall() + history_.backoff_max_ms * kMs + 60 * kSecond;
        const auto &rows = database_.tables().deliveries;
        return std::any_of(rows.begin(), rows.end(),
                           [&](const auto &item) {
                               return item.second.state == DeliveryState::retrying &&
                                      item.second.next_attempt_at > latest;
                           });
    }

    // Nobody can be blamed for what does not go out now.
    void note_disturbances()
    {
        const bool locked = database_.is_locked(Table::events) ||
                            database_.is_locked(Table::position) ||
                            database_.is_locked(Table::routes);
        if (!relay_.is_running() || locked || database_.tables().paused || database_.standby_lags())
            checker_.disturbed(0);
        // What could not be set aside is tried again after up to five seconds.
        if (database_.take_failed())
            checker_.disturbed(8 * kSecond);
        if (is_any_put_off())
            checker_.disturbed(0);
        if (!cluster_.any_broker_answers())
            checker_.disturbed(history_.backoff_max_ms * kMs);
    }

    void put_all_right()
    {
        trace_.say("all is put right");
        for (int broker = 0; broker < kBrokers; broker++)
        {
            cluster_.set_broker(broker, true, false);
            cluster_.broker(broker).slow_by = 0;
            cluster_.broker(broker).answers_to_lose = 0;
        }
        for (const auto &item : cluster_.partitions())
        {
            if (item.second.leader < 0)
                cluster_.set_leader(item.first, 0);
            cluster_.set_replicas(item.first, true, false);
        }
        for (int i = 0; i < history_.types; i++)
        {
            const std::string name = "topic" + std::to_string(i);
            cluster_.set_topic(name, true, true);
            cluster_.topic(name)->max_bytes = 100000;
            cluster_.topic(name)->checks_records = false;
        }
        for (int table = 0; table < kTables; table++)
            database_.lock(static_cast<Table>(table), 0);
        database_.fail_statements(0);
        database_.kill_after(-1);
        database_.set_standby_lag(false);
        database_.release_rows();
        clock_.set_cost_of_a_look(1);
        database_.set_cost_of_a_row(0);
        if (database_.tables().paused)
        {
            database_.operate([](RelayTables &tables) { tables.paused = false; });
            relay_.tell_of_change();
        }
        for (int session = 0; session < 1000; session++)
            if (database_.has_transaction(session))
                database_.commit(session, true);
        relay_.wake();
        checker_.disturbed(0);
    }

    // What has failed is retried, and discarded if it can never be sent.
    void settle()
    {
        if (clock_.at() < settle_at_)
            return;
        settle_at_ = clock_.at() + kSecond;
        bool any = false;
        for (const auto &[seq, row] : database_.tables().deliveries)
            any = any || row.state == DeliveryState::failed;
        if (!any)
            return;
        retry_failed();
    }

    void retry_failed()
    {
        trace_.say("an operator retries what has failed");
        database_.operate(
            [&](RelayTables &tables)
            {
                for (auto &[seq, row] : tables.deliveries)
                {
                    if (row.state != DeliveryState::failed || !database_.may_change(seq))
                        continue;
                    checker_.settled(row.event);
                    if (database_.row(row.event).unreadable)
                        discard(row);
                    else
                    {
                        row.state = DeliveryState::retrying;
                        row.attempts = 0;
                        row.next_attempt_at = clock_.wall();
                    }
                }
            });
        relay_.tell_of_change();
    }

    void discard(Delivery &row)
    {
        trace_.say("an operator discards event %d", row.event);
        discarded_at_ = clock_.at();
        row.state = DeliveryState::discarded;
        row.blocking = false;
        row.next_attempt_at = 0;
        checker_.discarded(row.event);
        checker_.settled(row.event);
    }

    void perform(const Act &act)
    {
        if (act.kind <= Kind::rollback)
            session(act);
        else if (act.kind <= Kind::topic_strict)
            kafka(act);
        else if (act.kind <= Kind::slow_machine)
            server(act);
        else
            operate(act);
    }

    void session(const Act &act)
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
            return relay_.wake();
        default:
            return database_.rollback(act.a);
        }
    }

    void kafka(const Act &act)
    {
        const std::string topic = "topic" + std::to_string(act.a);
        const int broker = history_.endpoint ? 0 : act.a;
        if (history_.endpoint && (act.kind == Kind::lead || act.kind == Kind::short_replicas))
            return;
        switch (act.kind)
        {
        case Kind::broker_down:
            return cluster_.set_broker(broker, false, false);
        case Kind::broker_up:
            return cluster_.set_broker(broker, true, false);
        case Kind::broker_hangs:
            return cluster_.set_broker(broker, true, true);
        case Kind::broker_slow:
            trace_.say("broker %d is slower by %d ms", broker, act.b);
            cluster_.broker(broker).slow_by = act.b * kMs;
            cluster_.broker(broker).well_since = clock_.at();
            return;
        case Kind::lose_answers:
            cluster_.broker(broker).answers_to_lose = act.b;
            return;
        case Kind::lead:
            return cluster_.set_leader({topic, act.b}, act.c);
        case Kind::short_replicas:
            return cluster_.set_replicas({topic, act.b}, act.c == 2, act.c == 1);
        case Kind::topic_missing:
            return cluster_.set_topic(topic, false, true);
        case Kind::topic_forbidden:
            return cluster_.set_topic(topic, true, false, act.b != 0);
        case Kind::topic_fine:
            return cluster_.set_topic(topic, true, true);
        case Kind::topic_limit:
            checker_.limits(topic);
            cluster_.topic(topic)->max_bytes = act.b;
            return;
        default:
            cluster_.topic(topic)->checks_records = act.b != 0;
            return;
        }
    }

    void server(const Act &act)
    {
        switch (act.kind)
        {
        case Kind::lock:
            trace_.say("a session locks table %d for %d ms", act.a, act.b);
            return database_.lock(static_cast<Table>(act.a), clock_.at() + act.b * kMs);
        case Kind::no_space:
            return database_.fail_statements(act.a);
        case Kind::crash:
            relay_.die();
            database_.crash();
            return checker_.tables_changed();
        case Kind::kill:
            return database_.kill_after(act.a);
        case Kind::restart:
            return relay_.restart();
        case Kind::flush_log:
            return database_.flush_log(database_.end_of_log());
        case Kind::standby:
            trace_.say("the standby %s", act.a != 0 ? "lags" : "is there");
            return database_.set_standby_lag(act.a != 0);
        case Kind::rotate:
            return database_.rotate();
        case Kind::empty_slot:
            (void) database_.empty_one_slot();
            return;
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

    void operate(const Act &act)
    {
        const auto type = static_cast<std::size_t>(act.a);
        switch (act.kind)
        {
        case Kind::pause:
        case Kind::resume:
            trace_.say("an operator %s", act.kind == Kind::pause ? "pauses" : "resumes");
            database_.operate([&](RelayTables &tables)
                              { tables.paused = act.kind == Kind::pause; });
            return relay_.tell_of_change();
        case Kind::retry:
            return retry_failed();
        case Kind::discard:
            database_.operate(
                [&](RelayTables &tables)
                {
                    int number = 0;
                    for (auto &[seq, row] : tables.deliveries)
                        if (row.state == DeliveryState::failed && number++ == act.a % 3 &&
                            database_.may_change(seq))
                            discard(row);
                });
            return relay_.tell_of_change();
        case Kind::hold:
        {
            int number = 0;
            for (const auto &[seq, row] : database_.tables().deliveries)
                if (act.a < 0 || number++ == act.a % 5)
                {
                    trace_.say("a session holds the row of event %d", row.event);
                    database_.hold_row(seq);
                }
            return;
        }
        case Kind::release:
            // Rolled back, which tells nobody.
            database_.release_rows();
            return;
        case Kind::route:
            trace_.say("type %d goes to topic%d from now on", act.a, act.b);
            database_.operate([&](RelayTables &tables)
                              { tables.topics.at(type) = "topic" + std::to_string(act.b); });
            database_.routes_have_changed();
            checker_.routed(act.a);
            return relay_.wake();
        case Kind::blocking:
            database_.operate([&](RelayTables &tables) { tables.blocks.at(type) = act.b != 0; });
            database_.routes_have_changed();
            return relay_.wake();
        case Kind::repair:
            trace_.say("a person repairs what cannot be read");
            checker_.repaired();
            database_.repair();
            return relay_.tell_of_change();
        default:
            return relay_.set_policy(
                {act.a, act.b != 0, history_.backoff_initial_ms, history_.backoff_max_ms});
        }
    }

    const History &history_;
    SimClock clock_;
    Random random_;
    Trace trace_;
    Checker checker_;
    Database database_;
    Cluster cluster_;
    Network network_;
    Relay relay_;
    std::size_t next_act_ = 0;
    Time settle_at_ = 0;
    Time discarded_at_ = 0;
};

// The history without some acts, or with smaller ones.
bool
fails_so(const History &history, const std::string &kind)
{
    return simulate(history).kind == kind;
}

} // namespace

Outcome
simulate(const History &history, bool in_words)
{
    Simulation simulation(history, in_words);
    return simulation.run();
}

// Runs of acts are left out, long ones first, until none can be.
History
shorten(const History &history, const std::string &kind)
{
    History best = history;
    int tries = 3000;
    for (std::size_t run = best.acts.size() / 2; run > 0 && tries > 0;)
    {
        bool any = false;
        for (std::size_t at = 0; at < best.acts.size() && tries > 0;)
        {
            History shorter = best;
            const auto first = shorter.acts.begin() + static_cast<std::ptrdiff_t>(at);
            const std::size_t count = std::min(run, best.acts.size() - at);
            shorter.acts.erase(first, first + static_cast<std::ptrdiff_t>(count));
            tries--;
            if (fails_so(shorter, kind))
            {
                best = std::move(shorter);
                any = true;
            }
            else
                at += run;
        }
        if (!any || run > 1)
            run = run == 1 ? (any ? 1 : 0) : run / 2;
    }
    return best;
}

std::string
tell(const History &history)
{
    const Outcome outcome = simulate(history, true);
    std::string text;
    for (const std::string &line : outcome.lines)
        text += line + '\n';
    return text;
}

} // namespace outbox::sim
