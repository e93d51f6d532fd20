#include "flights.h"

#include <algorithm>
#include <functional>
#include <string>

namespace outbox::nats
{

namespace
{

Failure
behind_refused(FailureClass cls) noexcept
{
    Failure failure;
    set_failure(failure, cls, "BEHIND_REFUSED", "an earlier event of its key was refused");
    failure.consequence = true;
    return failure;
}

} // namespace

Flights::Flights(const FlightRules &rules, FlightEnd &end) : rules_(rules), end_(end)
{
    backoff_.configure(rules.backoff_initial_ms, rules.backoff_max_ms);
}

Flights::List *
Flights::list_of(State state) noexcept
{
    switch (state)
    {
    case State::ready:
        return &ready_;
    case State::sent:
        return &sent_;
    case State::waiting:
        return &waiting_;
    default:
        return nullptr;
    }
}

void
Flights::push(List &list, std::uint32_t index) noexcept
{
    flights_[index].next = kNone;
    flights_[index].previous = list.last;
    (list.last == kNone ? list.first : flights_[list.last].next) = index;
    list.last = index;
}

void
Flights::unlink(List &list, std::uint32_t index) noexcept
{
    const Flight &flight = flights_[index];
    (flight.previous == kNone ? list.first : flights_[flight.previous].next) = flight.next;
    (flight.next == kNone ? list.last : flights_[flight.next].previous) = flight.previous;
}

void
Flights::move(std::uint32_t index, State state) noexcept
{
    Flight &flight = flights_[index];
    if (List *list = list_of(flight.state))
        unlink(*list, index);
    under_way_ -= flight.state == State::sent ? 1 : 0;
    flight.state = state;
    under_way_ += flight.state == State::sent ? 1 : 0;
    if (List *list = list_of(state))
        push(*list, index);
}

void
Flights::add(const Parcel &parcel)
{
    const auto index = static_cast<std::uint32_t>(place_of(parcel.token));
    if (index >= flights_.size())
        flights_.resize(index + 1);
    Lane &lane = lanes_[parcel.lane];
    if (lane.is_closed)
    {
        const Failure failure = behind_refused(lane.closed_by);
        lane.given_up++;
        return end_.ended(parcel, &failure);
    }
    Flight &flight = flights_[index];
    flight = Flight();
    flight.parcel = parcel;
    flight.subject = std::hash<std::string_view>()(parcel.subject);
    count_++;
    if (lane.last != kNone)
    {
        flight.state = State::behind;
        flights_[lane.last].behind = index;
    }
    else
        move(index, State::ready);
    lane.last = index;
}

const Parcel *
Flights::send(std::uint32_t index, std::int64_t now) noexcept
{
    move(index, State::sent);
    flights_[index].sent_at = now;
    flights_[index].was_sent = true;
    return &flights_[index].parcel;
}

// Puts what waits for its subject aside as it is met. When patience is over, only the one that
// tries goes out, and the others wait for its answer or are given up at once.
std::uint32_t
Flights::next_ready(std::int64_t now) noexcept
{
    while (ready_.first != kNone && !subjects_.empty())
    {
        const std::uint32_t index = ready_.first;
        Subject *subject = trouble_of(index);
        if (subject == nullptr)
            return index;
        subject->used_at = now;
        move(index, State::waiting);
        const bool tries = subject->probe != 0 || now >= subject->retry_at;
        if (now - subject->since >= rules_.patience_ms && !tries)
            end_lane(index, subject->failure);
    }
    return ready_.first;
}

const Parcel *
Flights::next(std::int64_t now) noexcept
{
    if ((in_trouble_ || isolated_ > 0) && under_way_ > 0)
        return nullptr;
    if (in_trouble_ && now < retry_at_)
        return nullptr;
    std::uint32_t index = next_ready(now);
    if (index == kNone)
        index = probe_of_subject(now);
    if (index == kNone && in_trouble_)
        index = waiting_.first;
    if (index == kNone)
        return nullptr;
    if (in_trouble_)
        probe_ = flights_[index].parcel.token;
    return send(index, now);
}

Flights::Flight *
Flights::under_way(std::uint64_t token) noexcept
{
    const std::size_t place = place_of(token);
    if (place >= flights_.size() || flights_[place].parcel.token != token)
        return nullptr;
    Flight &flight = flights_[place];
    // An answer may come late, when the record was to be sent again.
    return flight.state != State::free && flight.was_sent ? &flight : nullptr;
}

const Parcel *
Flights::find(std::uint64_t token) const noexcept
{
    const Flight *flight = const_cast<Flights *>(this)->under_way(token);
    return flight != nullptr ? &flight->parcel : nullptr;
}

void
Flights::end(std::uint32_t index, const Failure *failure) noexcept
{
    const Parcel parcel = flights_[index].parcel;
    move(index, State::free);
    flights_[index] = Flight();
    count_--;
    end_.ended(parcel, failure);
}

void
Flights::end_lane(std::uint32_t index, const Failure &failure) noexcept
{
    Lane &lane = lanes_.find(flights_[index].parcel.lane)->second;
    const Failure consequence = behind_refused(failure.cls);
    lane.is_closed = true;
    lane.closed_by = failure.cls;
    lane.last = kNone;
    std::uint32_t behind = flights_[index].behind;
    end(index, &failure);
    while (behind != kNone)
    {
        const std::uint32_t after = flights_[behind].behind;
        end(behind, &consequence);
        lane.given_up++;
        behind = after;
    }
}

std::size_t
Flights::reopen(std::uint64_t lane) noexcept
{
    const auto found = lanes_.find(lane);
    if (found == lanes_.end() || !found->second.is_closed)
        return 0;
    const std::size_t given_up = found->second.given_up;
    lanes_.erase(found);
    return given_up;
}

void
Flights::stored(std::uint64_t token) noexcept
{
    const Flight *flight = under_way(token);
    if (flight == nullptr)
        return;
    if (!subjects_.empty())
        release_subject(flight->subject);
    in_trouble_ = false;
    probe_ = 0;
    backoff_.succeed();
    isolated_ -= isolated_ > 0 ? 1 : 0;
    // What is behind it in its lane comes to the front.
    if (flight->behind != kNone)
        move(flight->behind, State::ready);
    else
        lanes_.erase(flight->parcel.lane);
    end(static_cast<std::uint32_t>(place_of(token)), nullptr);
}

void
Flights::refused(std::uint64_t token, const Judgement &judgement, std::int64_t now,
                 std::uint64_t random)
{
    Flight *flight = under_way(token);
    if (flight == nullptr)
        return;
    const auto index = static_cast<std::uint32_t>(place_of(token));
    switch (judgement.reach)
    {
    case Reach::none:
        return;
    case Reach::event:
        // It was judged, so the destination and the subject are there.
        release_subject(flight->subject);
        isolated_ -= isolated_ > 0 ? 1 : 0;
        in_trouble_ = false;
        backoff_.succeed();
        return end_lane(index, judgement.failure);
    case Reach::subject:
        if (probe_ == token)
            in_trouble_ = false;
        return subject_refuses(index, judgement.failure, now, random);
    case Reach::destination:
        // The answers to what was sent before the first one was refused say nothing new.
        if (!in_trouble_ || probe_ == token)
            trouble(now, random);
        release_subject(flight->subject); // it is not the subject's
        if (flight->state == State::sent)
            move(index, State::ready);
        return;
    }
}

void
Flights::disconnected() noexcept
{
    const List ready = ready_;
    ready_ = {};
    while (sent_.first != kNone)
        move(sent_.first, State::ready);
    if (ready.first != kNone)
    {
        flights_[ready.first].previous = ready_.last;
        (ready_.last == kNone ? ready_.first : flights_[ready_.last].next) = ready.first;
        ready_.last = ready.last;
    }
    for (auto &subject : subjects_)
        subject.second.probe = 0;
    probe_ = 0;
}

bool
Flights::watch(std::int64_t now, std::uint64_t random)
{
    forget_subjects(now);
    while (sent_.first != kNone)
    {
        const Flight &flight = flights_[sent_.first];
        if (now - flight.sent_at < rules_.timeout_ms)
            return true;
        if (heard_at_ < flight.sent_at)
            return false;
        Judgement judgement = judge_silence(flight.parcel.subject, rules_.timeout_ms);
        judgement.failure.possibly_persisted = true;
        refused(flight.parcel.token, judgement, now, random);
    }
    return true;
}

bool
Flights::is_silent(std::int64_t now, std::int64_t for_ms) const noexcept
{
    if (sent_.first == kNone)
        return false;
    const std::int64_t sent_at = flights_[sent_.first].sent_at;
    return heard_at_ < sent_at && now - sent_at >= for_ms;
}

std::int64_t
Flights::due() const noexcept
{
    std::int64_t due = INT64_MAX;
    if (sent_.first != kNone)
        due = flights_[sent_.first].sent_at + rules_.timeout_ms;
    if (in_trouble_)
        return under_way_ == 0 ? std::min(due, retry_at_) : due;
    if (waiting_.first != kNone)
        for (const auto &subject : subjects_)
            if (subject.second.probe == 0)
                due = std::min(due, subject.second.retry_at);
    return due;
}

void
Flights::give_up_all(const Failure &failure) noexcept
{
    for (Flight &flight : flights_)
    {
        if (flight.state == State::free)
            continue;
        const Parcel parcel = flight.parcel;
        Failure own = failure;
        own.possibly_persisted = flight.was_sent;
        flight = Flight();
        end_.ended(parcel, &own);
    }
    lanes_.clear();
    subjects_.clear();
    ready_ = sent_ = waiting_ = {};
    count_ = under_way_ = isolated_ = 0;
    probe_ = 0;
}

} // namespace outbox::nats
