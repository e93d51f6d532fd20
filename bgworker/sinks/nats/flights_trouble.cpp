// The half of Flights that is about subjects and destinations that take nothing.
#include "flights.h"

#include <algorithm>
#include <string>

namespace outbox::nats
{

namespace
{

// A stream without a leader has a new one in a second or two, mostly.
constexpr std::int64_t kFirstRetryMs = 100;
constexpr std::int64_t kLastRetryMs = 2000;
// Of subjects that refuse everything; of more it is found out again and again.
constexpr std::size_t kMaxSubjects = 1000;
constexpr std::int64_t kForgetMs = 60000;

} // namespace

Flights::Subject *
Flights::trouble_of(std::uint32_t index) noexcept
{
    const auto found = subjects_.find(flights_[index].subject);
    return found != subjects_.end() ? &found->second : nullptr;
}

std::uint32_t
Flights::probe_of_subject(std::int64_t now) noexcept
{
    if (subjects_.empty())
        return kNone;
    for (std::uint32_t i = waiting_.first; i != kNone; i = flights_[i].next)
    {
        Subject *subject = trouble_of(i);
        if (subject == nullptr)
            return i;
        if (subject->probe != 0 || now < subject->retry_at)
            continue;
        subject->probe = flights_[i].parcel.token;
        return i;
    }
    return kNone;
}

void
Flights::release_subject(std::uint64_t subject) noexcept
{
    if (subjects_.erase(subject) == 0)
        return;
    for (std::uint32_t at = waiting_.first; at != kNone;)
    {
        const std::uint32_t after = flights_[at].next;
        if (flights_[at].subject == subject)
            move(at, State::ready);
        at = after;
    }
}

void
Flights::trouble(std::int64_t now, std::uint64_t random) noexcept
{
    in_trouble_ = true;
    probe_ = 0;
    retry_at_ = now + backoff_.fail(random);
}

void
Flights::subject_refuses(std::uint32_t index, const Failure &failure, std::int64_t now,
                         std::uint64_t random)
{
    const std::uint64_t hash = flights_[index].subject;
    const auto [found, is_new] = subjects_.try_emplace(hash);
    Subject &subject = found->second;
    subject.used_at = now;
    if (is_new)
    {
        subject.since = now;
        subject.backoff.configure(std::min(rules_.backoff_initial_ms, kFirstRetryMs),
                                  std::min(rules_.backoff_max_ms, kLastRetryMs));
    }
    if (is_new || subject.probe == flights_[index].parcel.token)
    {
        subject.failure = failure;
        subject.retry_at = now + subject.backoff.fail(random);
        subject.probe = 0;
    }
    move(index, State::waiting);
    if (now - subject.since < rules_.patience_ms)
        return;
    give_up_waiting(hash, failure);
    if (subjects_.size() > kMaxSubjects)
        subjects_.erase(found);
}

void
Flights::give_up_waiting(std::uint64_t subject, const Failure &failure) noexcept
{
    for (std::uint32_t i = waiting_.first; i != kNone;)
    {
        // What is behind an ended one ends with it, and is in no list.
        const std::uint32_t after = flights_[i].next;
        if (flights_[i].subject == subject)
            end_lane(i, failure);
        i = after;
    }
}

void
Flights::not_permitted(std::string_view subject, bool cut, std::int64_t now, std::uint64_t random)
{
    for (std::uint32_t i = sent_.first; i != kNone;)
    {
        const std::uint32_t after = flights_[i].next;
        const std::string_view own = flights_[i].parcel.subject;
        if (cut ? own.substr(0, subject.size()) == subject : own == subject)
        {
            const std::string name(own); // the parcel may end
            refused(flights_[i].parcel.token, judge_not_permitted(name), now, random);
            if (after != kNone && flights_[after].state != State::sent)
                return; // given up together
        }
        i = after;
    }
}

void
Flights::keep_all() noexcept
{
    subjects_.clear();
    while (waiting_.first != kNone)
        move(waiting_.first, State::ready);
}

void
Flights::forget_subjects(std::int64_t now) noexcept
{
    if (now - looked_at_ < kForgetMs)
        return;
    looked_at_ = now;
    for (auto i = subjects_.begin(); i != subjects_.end();)
    {
        if (now - i->second.used_at < kForgetMs)
            ++i;
        else
            i = subjects_.erase(i);
    }
}

void
Flights::isolate() noexcept
{
    isolated_ = std::max(isolated_, under_way_);
}

const Parcel *
Flights::alone() const noexcept
{
    return under_way_ == 1 ? &flights_[sent_.first].parcel : nullptr;
}

} // namespace outbox::nats
