#include "flights.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <utility>

namespace outbox
{

Flights::Flights(Lines &lines, Agenda &agenda)
    : lines_(lines), agenda_(agenda), flights_(kMostRedelivered)
{
    for (std::size_t number = kMostRedelivered; number > 0; number--)
        free_.push_back(static_cast<std::uint16_t>(number - 1));
}

void
Flights::begin(Flight &&flight, bool alone)
{
    const std::size_t number = free_.back();
    free_.pop_back();
    Line *line = lines_.find(flight.row.lane);
    if (line != nullptr)
        line->in_flight++;
    Use &use = uses_[flight.partition];
    use.count++;
    use.exclusive = alone;
    flights_[number] = std::move(flight);
    flights_[number].used = true;
}

void
Flights::end(std::size_t number) noexcept
{
    Flight &flight = flights_[number];
    Line *line = lines_.find(flight.row.lane);
    if (line != nullptr && line->in_flight > 0)
        line->in_flight--;
    const auto use = uses_.find(flight.partition);
    if (use != uses_.end() && --use->second.count == 0)
        uses_.erase(use);
    // Nothing of a line is tried while something of it is on its way: what is due was left out.
    if ((line == nullptr || line->in_flight == 0) && !OUTBOX_MUTANT(forgets_due))
        agenda_.find_due();
    flight.used = false;
    free_.push_back(static_cast<std::uint16_t>(number)); // reserved
    agenda_.stir();
}

void
Flights::end_all() noexcept
{
    for (std::size_t number = 0; number < flights_.size(); number++)
        if (flights_[number].used)
            end(number);
    uses_.clear();
}

bool
Flights::is_late(Lane partition, Steady now) const noexcept
{
    return std::any_of(flights_.begin(), flights_.end(),
                       [&](const Flight &flight) {
                           return flight.used && flight.partition == partition &&
                                  has_passed(flight.at, now, kLateMs);
                       });
}

void
Flights::move(Flight &flight, Lane lane, bool waiting)
{
    Line *before = lines_.find(flight.row.lane);
    if (before != nullptr && before->in_flight > 0)
        before->in_flight--;
    lines_.find(lane)->in_flight++;
    flight.row.lane = lane;
    flight.row.waiting = waiting;
}

void
Flights::add_seqs(const Lane *lane, std::vector<std::int64_t> &seqs) const
{
    for (const Flight &flight : flights_)
        if (flight.used && (lane == nullptr || flight.row.lane == *lane))
            seqs.push_back(flight.row.numbers.seq);
}

} // namespace outbox
