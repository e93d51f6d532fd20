#include "late_partitions.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

void
LatePartitions::find(Steady now)
{
    constexpr int kLookMs = 100;
    const int part_ms = OUTBOX_MUTANT(parts_late) ? 2 * Flights::kLateMs : Flights::kLateMs;
    if (flights_.size() == 0 || !has_passed(looked_at_, now, kLookMs) ||
        OUTBOX_MUTANT(topic_waits_for_partition))
        return;
    looked_at_ = now;
    late_.clear();
    for (const Flights::Flight &flight : flights_.all())
        if (flight.used && flight.whole && has_passed(flight.at, now, part_ms) &&
            std::find(late_.begin(), late_.end(), flight.partition) == late_.end())
            late_.push_back(flight.partition);
    if (!late_.empty())
        agenda_.stir();
}

// However many they are, new events wait for no more than a slice of it.
void
LatePartitions::part()
{
    for (const Lane partition : std::exchange(late_, {}))
        if (lines_.is_clear(partition))
            parting_.push_back(partition);
    const Steady begun = clock_.steady();
    while (!parting_.empty() && part(parting_.back(), begun))
        parting_.pop_back();
    if (!parting_.empty())
        agenda_.stir();
}

// Returns false when there is more of it. What is left meanwhile is later, and nothing joins it: it
// would join the partition's line.
bool
LatePartitions::part(Lane partition, Steady begun)
{
    constexpr int kStepMs = 10;
    const std::vector<Flights::Flight> &all = flights_.all();
    std::vector<std::size_t> numbers;
    for (std::size_t number = 0; number < all.size(); number++)
        if (all[number].used && all[number].whole && all[number].partition == partition)
            numbers.push_back(number);
    std::sort(numbers.begin(), numbers.end(),
              [&](std::size_t a, std::size_t b)
              { return all[a].row.numbers.seq < all[b].row.numbers.seq; });
    for (const std::size_t number : numbers)
    {
        Flights::Flight &flight = *flights_.find(number);
        if (has_passed(begun, clock_.steady(), kStepMs) && !OUTBOX_MUTANT(parts_at_once))
            return false;
        if (!deliveries_.move_to_lane(flight.row.numbers.seq, partition))
            return true; // a person holds it, and so it and what is behind it stays
        parted_.push_back({number, flight.row.lane, flight.row.waiting});
        lines_.release_part(partition, flight.row.lane);
        if (!flight.row.waiting)
            lines_.recheck(flight.row.lane); // it was its head
        flights_.move(flight, partition, true);
        flight.whole = false;
        agenda_.find_due();
        agenda_.stir();
    }
    return true;
}

void
LatePartitions::rolled_back()
{
    for (const Parted &parted : parted_)
    {
        Flights::Flight *flight = flights_.find(parted.flight);
        if (flight == nullptr)
            continue; // it has landed since: an error that ends the relay is dealt with last
        if (lines_.is_clear(parted.lane))
            lines_.release(parted.lane);
        flights_.move(*flight, parted.lane, parted.waiting);
        flight->whole = true;
    }
    parted_.clear();
}

} // namespace outbox
