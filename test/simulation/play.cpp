#include "play.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

using Kind = Act::Kind;

constexpr Time kQuiet = 45 * kSecond; // at the end, at most, or behind the last that was discarded

} // namespace

Outcome
Play::run()
{
    Time quiet_at = kBegin + history_.active;
    if (!history_.acts.empty())
        quiet_at = std::max(quiet_at, kBegin + history_.acts.back().at);
    bool quiet = false;
    while (!is_wrong() && !(quiet && is_over(quiet_at)))
    {
        clock_.go_to(next_event_at(quiet ? kNever : quiet_at));
        while (next_act_ < history_.acts.size() &&
               kBegin + history_.acts[next_act_].at <= clock_.at())
        {
            perform(history_.acts[next_act_++]);
            touched_ = true;
        }
        if (!quiet && clock_.at() >= quiet_at)
        {
            quiet = true;
            put_all_right();
        }
        if (quiet)
            settle();
        advance();
    }
    return outcome();
}

// Of several, those for which something is due, or to which something may have been done.
void
Play::advance()
{
    const Time now = clock_.at();
    const bool all = touched_ || subscriptions_.size() == 1;
    const auto is_due = [&](const Subscription &one) { return all || one.next_at <= now; };
    touched_ = false;
    for_each(
        [&](Subscription &one)
        {
            if (is_due(one))
                one.advance_network();
        });
    for_each(
        [&](Subscription &one)
        {
            if (is_due(one))
                one.advance_relay();
        });
    touched_ = changes_.any() || touched_;
    changes_.advance();
    touched_ = maintenance_.advance() || touched_;
    for_each(
        [&](Subscription &one)
        {
            if (!is_due(one) && !one.checker().is_tick_due())
                return;
            one.note_disturbances();
            one.checker().tick();
            one.checker().rounds(one.relay().rounds());
            one.next_at = -1;
        });
}

Time
Play::next_event_at(Time quiet_at)
{
    Time next = std::min(quiet_at, clock_.at() + 100 * kMs);
    for_each(
        [&](Subscription &one)
        {
            if (touched_ || one.next_at < 0)
                one.next_at = one.next_event_at();
            next = std::min(next, one.next_at);
        });
    if (next_act_ < history_.acts.size())
        next = std::min(next, kBegin + history_.acts[next_act_].at);
    return next;
}

bool
Play::is_over(Time quiet_at) const
{
    Time last = quiet_at;
    for (const auto &one : subscriptions_)
        last = std::max(last, one->discarded_at());
    return clock_.at() > last + kQuiet ||
           all_of(
               [&](const Subscription &one)
               { return one.is_done() && !one.is_detached() && one.checker().has_passed_all(); });
}

bool
Play::is_wrong() const
{
    return std::any_of(subscriptions_.begin(), subscriptions_.end(),
                       [](const auto &one) { return !one->checker().failure().empty(); });
}

Outcome
Play::outcome()
{
    Outcome outcome;
    for (auto &one : subscriptions_)
    {
        Checker &checker = one->checker();
        if (one->exists() && outcome.kind.empty() && !is_wrong())
            checker.end();
        if (outcome.kind.empty())
        {
            outcome.kind = checker.kind();
            outcome.text = checker.failure();
        }
        outcome.rounds += one->rounds();
        outcome.built += one->built();
        outcome.published += checker.published();
        outcome.repeats += checker.repeats();
        outcome.refusals += checker.refusals();
        outcome.missed += checker.missed();
    }
    outcome.hash = trace_.hash();
    outcome.lasted = clock_.at() - kBegin;
    outcome.lines = trace_.lines();
    return outcome;
}

// Who was detached is attached again.
void
Play::settle()
{
    if (clock_.at() < settle_at_)
        return;
    settle_at_ = clock_.at() + kSecond;
    touched_ = true;
    for_each([](Subscription &one) { one.settle(); });
    for_each(
        [&](Subscription &one)
        {
            if (!one.is_detached() || changes_.any())
                return;
            Act attach;
            attach.kind = Kind::attach;
            attach.a = 1;
            attach.subscription = one.number();
            changes_.call(attach);
            changes_.end(true);
        });
}

Outcome
simulate(const History &history, bool in_words)
{
    Play play(history, in_words);
    return play.run();
}

} // namespace outbox::sim
