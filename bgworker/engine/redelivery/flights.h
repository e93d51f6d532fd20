// The events that redelivery has on their way.
#pragma once

#include "lines.h"

#include "bgworker/engine/common/progress.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace outbox
{

// Each has a number, the tag of its record. A line's `in_flight` is the number of flights of its
// rows; all of them are of one partition each, which several share, or one has for itself.
class Flights
{
public:
    // The line may have waited for its topic, or for others, before.
    static constexpr int kLateMs = 500;

    struct Flight
    {
        DeliveryRow row = {};
        Acknowledged event;
        Lane partition = 0;
        bool used = false;
        bool whole = false; // it goes out with its topic's line
        Steady at;
        std::string topic; // of an attempt
    };

    // Throws std::bad_alloc.
    Flights(Lines &lines, Agenda &agenda);

    std::size_t size() const noexcept { return kMostRedelivered - free_.size(); }
    std::size_t room() const noexcept { return free_.size(); }
    // The number that begin() gives next; needs room().
    std::size_t next() const noexcept { return free_.back(); }
    // Throws std::bad_alloc.
    void begin(Flight &&flight, bool alone);
    // Null: there is none of this number.
    Flight *find(std::uint64_t tag) noexcept
    {
        return tag < flights_.size() && flights_[tag].used ? &flights_[tag] : nullptr;
    }
    void end(std::size_t number) noexcept;
    // All of them, with their producer.
    void end_all() noexcept;
    // It is a row of another line now.
    void move(Flight &flight, Lane lane, bool waiting);

    // Whether one more may go to the partition now, `alone` or not.
    bool has_room_in(Lane partition, bool alone) const noexcept
    {
        const auto use = uses_.find(partition);
        return use == uses_.end() || (!alone && !use->second.exclusive);
    }
    // Whether something has been on its way to it for so long that a topic's line, which goes out
    // in order, waits for it no longer.
    bool is_late(Lane partition, Steady now) const noexcept;
    // Whether this one has its partition for itself.
    bool is_alone(const Flight &flight) const noexcept
    {
        const auto use = uses_.find(flight.partition);
        return use == uses_.end() || use->second.count == 1;
    }
    // Adds the events' numbers; those of one lane, if given.
    void add_seqs(const Lane *lane, std::vector<std::int64_t> &seqs) const;

    // By number, with those that are not used.
    const std::vector<Flight> &all() const noexcept { return flights_; }

private:
    struct Use
    {
        std::uint32_t count = 0;
        bool exclusive = false;
    };

    Lines &lines_;
    Agenda &agenda_;
    std::vector<Flight> flights_;
    std::vector<std::uint16_t> free_;
    std::unordered_map<Lane, Use> uses_; // of partitions
};

} // namespace outbox
