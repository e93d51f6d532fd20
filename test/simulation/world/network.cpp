#include "network.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

constexpr Time kSocketTimeout = 60 * kSecond;

} // namespace

std::uint64_t
Network::send(Sender &sender, int broker, const Batch &batch, Time later)
{
    Time arrives = clock_.at() + random_.between(50, 600);
    Time answers = arrives + random_.between(100, 1500) + cluster_.broker(broker).slow_by + later;
    for (const Flight &other : flights_)
        if (other.sender == &sender && other.broker == broker)
        {
            arrives = std::max(arrives, other.arrives + 1);
            answers = std::max(answers, other.answers + 1);
        }
    flights_.push_back(
        {next_number_, &sender, broker, batch, clock_.at(), arrives, false, Answer::lost, answers});
    return next_number_++;
}

// Half of what nobody waits for had left this machine.
void
Network::let_go(Flight &flight)
{
    flight.sender = nullptr;
    if (!flight.arrived && random_.percent(50))
        flight.broker = -1;
}

void
Network::forget(Sender &sender, std::uint64_t request)
{
    for (Flight &flight : flights_)
        if (flight.sender == &sender && flight.number == request)
            let_go(flight);
}

void
Network::forget_all(Sender &sender)
{
    for (Flight &flight : flights_)
        if (flight.sender == &sender)
            let_go(flight);
}

void
Network::lose_connection(Sender &sender, int broker)
{
    std::vector<std::uint64_t> lost;
    for (Flight &flight : flights_)
        if (flight.sender == &sender && flight.broker == broker)
        {
            lost.push_back(flight.number);
            let_go(flight);
        }
    for (const std::uint64_t number : lost)
        sender.answered(number, Answer::lost);
    sender.disconnected(broker);
}

void
Network::arrive(Flight &flight)
{
    flight.arrived = true;
    flight.answer = cluster_.append(flight.broker, flight.batch);
    const Place &place = flight.batch.place;
    trace_.say("broker %d: %zu records for partition %d of %s from producer %llu: %s%s",
               flight.broker, flight.batch.messages.size(), place.partition, place.topic.c_str(),
               static_cast<unsigned long long>(flight.batch.producer), name_of(flight.answer),
               flight.sender == nullptr ? " (nobody waits for this answer)" : "");
    Broker &broker = cluster_.broker(flight.broker);
    flight.answers = std::max(flight.answers, clock_.at() + 50);
    if (flight.answer == Answer::not_leader && flight.sender != nullptr && broker.slow_by > 0)
        cluster_.misdirected(place, flight.answers);
    if (broker.answers_to_lose > 0)
    {
        broker.answers_to_lose--;
        broker.well_since = clock_.at();
        trace_.say("broker %d: the connection breaks before the answer", flight.broker);
        flight.answer = Answer::lost;
    }
}

// Returns true when the flight is over.
bool
Network::step(Flight &flight)
{
    const Time now = clock_.at();
    if (flight.broker < 0)
        return true;
    const Broker &broker = cluster_.broker(flight.broker);
    if (flight.sender != nullptr && (!broker.up || now - flight.sent > kSocketTimeout))
    {
        lose_connection(*flight.sender, flight.broker);
        return flight.arrived || flight.broker < 0;
    }
    if (!broker.up)
        return true;
    if (broker.hangs)
        return false;
    if (!flight.arrived && flight.arrives <= now)
        arrive(flight);
    if (!flight.arrived)
        return false;
    if (flight.sender == nullptr)
        return true;
    if (flight.answers > now)
        return false;
    if (flight.answer == Answer::lost)
        lose_connection(*flight.sender, flight.broker);
    else
        flight.sender->answered(flight.number, flight.answer);
    return true;
}

void
Network::advance()
{
    for (auto flight = flights_.begin(); flight != flights_.end();)
        if (step(*flight))
            flight = flights_.erase(flight);
        else
            ++flight;
}

Time
Network::next_event_at() const
{
    Time next = kNever;
    for (const Flight &flight : flights_)
    {
        if (flight.broker < 0)
            return clock_.at();
        const Broker &broker = cluster_.broker(flight.broker);
        if (!broker.up)
            return clock_.at();
        if (broker.hangs)
        {
            if (flight.sender != nullptr)
                next = std::min(next, flight.sent + kSocketTimeout + 1);
            continue;
        }
        next = std::min(next, flight.arrived ? flight.answers : flight.arrives);
    }
    return std::max(next, clock_.at());
}

std::size_t
Network::stray() const noexcept
{
    return static_cast<std::size_t>(std::count_if(flights_.begin(), flights_.end(),
                                                  [](const Flight &flight)
                                                  { return flight.sender == nullptr; }));
}

} // namespace outbox::sim
