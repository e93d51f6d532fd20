// The events of a replay that are on their way.
#pragma once

#include "bgworker/engine/replays.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace outbox
{

// A replay is a list of events; each is known by its place in it, from 0. This keeps what became of
// those that are not yet behind the place up to which all is known: that place is what is written
// down. Bounded, so that nothing of a replay stands long before anything else. Allocates nothing.
class ReplayFlight
{
public:
    static constexpr std::size_t kMost = 256;
    static constexpr std::size_t kMostBytes = static_cast<std::size_t>(4) * 1024 * 1024;

    using Counts = ReplayCounts;

    // Begins behind the events that are counted, of `size` in all.
    void start(const Counts &counts, std::int64_t size) noexcept;

    // The next place to hand over, in order; -1 when nothing is left, there is no room, or events
    // go one by one and the one before is not through. What was taken back comes again.
    std::int64_t next() const noexcept;
    // Whether an event of these bytes may go; one larger than the limit goes alone.
    bool has_room(std::size_t bytes) const noexcept;

    // What became of the next place.
    void sent(std::size_t bytes) noexcept;
    void left_out(bool missing) noexcept;

    // Hear of a place that was sent; anything else is ignored, and gives false.
    bool published(std::int64_t place) noexcept;
    bool refused(std::int64_t place) noexcept;
    // It was refused, alone or with others that were sent together.
    bool suspected(std::int64_t place) noexcept;

    // It was given back without having been sent: it is to be sent again, before what comes later.
    bool returned(std::int64_t place) noexcept;

    // Nothing more will be heard of what is on its way. It is to be sent again, but for an event
    // that was refused alone; up to the last of several that were refused they go one by one.
    // Returns the place of the one that was refused, or -1.
    std::int64_t take_back() noexcept;

    // Counts what is known up to the first that is not. Returns whether that was anything.
    bool settle() noexcept;

    const Counts &counts() const noexcept { return counts_; }
    std::int64_t first() const noexcept { return counts_.total(); }
    bool done() const noexcept { return first() == size_; }
    std::size_t on_their_way() const noexcept { return on_their_way_; }
    // Refused ones since the last that was published.
    int refused_in_a_row() const noexcept { return refused_in_a_row_; }

private:
    enum class Fate : std::uint8_t
    {
        unsent,
        sent,
        suspected,
        published,
        refused,
        missing
    };
    struct Event
    {
        Fate fate = Fate::unsent;
        std::size_t bytes = 0;
    };

    Event &at(std::int64_t place) noexcept
    {
        return ring_[static_cast<std::size_t>(place) % kMost];
    }
    bool is_on_its_way(std::int64_t place) noexcept;
    bool arrive(std::int64_t place, Fate fate) noexcept;
    void go_on() noexcept;

    std::array<Event, kMost> ring_;
    Counts counts_;
    std::int64_t size_ = 0;
    std::int64_t next_ = 0; // to be handed over
    std::int64_t end_ = 0;  // all from here on are unsent, and not in the ring
    std::int64_t one_by_one_until_ = 0;
    std::size_t on_their_way_ = 0;
    std::size_t bytes_ = 0;
    std::size_t suspects_ = 0;
    std::int64_t last_suspect_ = -1;
    int refused_in_a_row_ = 0;
};

} // namespace outbox
