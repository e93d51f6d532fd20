// Partitions that do not acknowledge what redelivery sends there, while others of their topic do.
#pragma once

#include "flights.h"

#include "bgworker/engine/world.h"

#include <utility>
#include <vector>

namespace outbox
{

// A topic's line goes out in order, so one partition of it would hold up all. After half a second
// what is on its way to that one makes the partition's own line, in its order, and what comes later
// of the topic's joins it.
//
//     together ── no acknowledgement for half a second: find() ──▶ late ── part(), in steps ──▶
//     parted ── rolled_back() ──▶ together
class LatePartitions
{
public:
    LatePartitions(const World &world, Lines &lines, Flights &flights, Agenda &agenda) noexcept
        : deliveries_(world.deliveries), clock_(world.clock), lines_(lines), flights_(flights),
          agenda_(agenda)
    {
    }

    // Not in a step.
    void find(Steady now);
    // In a step: some of it.
    void part();
    // Returns whether the step has parted any.
    bool committed() noexcept { return std::exchange(parted_, {}).size() > 0; }
    void rolled_back();

private:
    struct Parted
    {
        std::size_t flight;
        Lane lane; // from which it came
        bool waiting;
    };

    bool part(Lane partition, Steady begun);

    Deliveries &deliveries_;
    Clock &clock_;
    Lines &lines_;
    Flights &flights_;
    Agenda &agenda_;
    Steady looked_at_;
    std::vector<Lane> late_;
    std::vector<Lane> parting_;  // some of them have parted
    std::vector<Parted> parted_; // in the step under way
};

} // namespace outbox
