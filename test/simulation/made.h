// Histories that a test makes, act by act.
#pragma once

#include "mutated.h"

#include <algorithm>
#include <string>

namespace outbox::sim
{

using Kind = Act::Kind;

class Made
{
public:
    Made()
    {
        history_.seed = 5;
        history_.max_events = 100;
        history_.active = 60 * kSecond;
    }

    Made &act(double at, Kind kind, int a = 0, int b = 0, int c = 0)
    {
        history_.acts.push_back({static_cast<Time>(at * kSecond), kind, a, b, c, 0, 0});
        return *this;
    }
    // Events of a type, one transaction.
    Made &emit(double at, int type, int events = 1, int bytes = 50)
    {
        session_++;
        act(at, Kind::begin, session_);
        for (int i = 0; i < events; i++)
        {
            act(at, Kind::emit, session_, type, i % 7);
            history_.acts.back().e = bytes;
        }
        return act(at, Kind::commit, session_, 1);
    }
    // One event of a key.
    Made &one(double at, int type, int key, int fault = Act::fine)
    {
        session_++;
        act(at, Kind::begin, session_).act(at, Kind::emit, session_, type, key);
        history_.acts.back().d = fault;
        history_.acts.back().e = 50;
        return act(at, Kind::commit, session_, 1);
    }
    // Those that were added last come in their turn.
    Made &in_order()
    {
        std::stable_sort(history_.acts.begin(), history_.acts.end(),
                         [](const Act &a, const Act &b) { return a.at < b.at; });
        return *this;
    }
    Made &brokers(double at, Kind kind, int b = 0)
    {
        for (int broker = 0; broker < kBrokers; broker++)
            act(at, kind, broker, b);
        return *this;
    }
    // All partitions of a topic are led by this broker.
    Made &lead(int topic, int broker, double at = 0.1)
    {
        for (int partition = 0; partition < kPartitions; partition++)
            act(at, Kind::lead, topic, partition, broker);
        return *this;
    }

    // A subscription besides `default`, with the same settings; created at once.
    Made &subscription(double at, unsigned types, bool retained = false)
    {
        history_.others.push_back(history_);
        number_ = static_cast<int>(history_.others.size());
        return of(at, Kind::create, static_cast<int>(types), retained ? 1 : 0)
            .of(at, Kind::end_change, 1);
    }
    // Done to the subscription that was added last.
    Made &of(double at, Kind kind, int a = 0, int b = 0)
    {
        act(at, kind, a, b);
        history_.acts.back().subscription = number_;
        return *this;
    }

    History &history() { return history_; }
    const History &history() const { return history_; }

    std::string outcome(Mutant mutated = Mutant::none) const
    {
        const Outcome outcome = simulate_with(mutated, history_);
        return outcome.kind.empty() ? "" : outcome.kind + ": " + outcome.text;
    }

    // How often the relay has looked what there is to do.
    std::size_t rounds(Mutant mutated = Mutant::none) const
    {
        return simulate_with(mutated, history_).rounds;
    }

private:
    History history_;
    int session_ = 0;
    int number_ = 0;
};

} // namespace outbox::sim
