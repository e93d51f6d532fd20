// The list of a replay's events, as much of it as is needed at a time.
#pragma once

#include "bgworker/engine/replays.h"

#include <vector>

namespace outbox
{

// Holds one row of the list; reads another one when a place of that is asked for.
class ReplayList
{
public:
    // Of another replay from now on.
    void forget() noexcept { number_ = -1; }

    // The event at this place; null: the list has none there. In a step of the replay's.
    const EventNumbers *read(Replays &replays, const ReplayRequest &request, std::int64_t place)
    {
        const std::int64_t number = place / Replays::kChunk;
        if (number != number_)
        {
            number_ = -1;
            places_.clear();
            replays.read_chunk(request, number, places_);
            number_ = number;
        }
        return known(place);
    }

    // The same without asking the database; null too if another row is held.
    const EventNumbers *known(std::int64_t place) const noexcept
    {
        const std::int64_t index = place - number_ * Replays::kChunk;
        if (number_ < 0 || index < 0 || index >= static_cast<std::int64_t>(places_.size()))
            return nullptr;
        return &places_[static_cast<std::size_t>(index)];
    }

private:
    std::vector<EventNumbers> places_;
    std::int64_t number_ = -1; // of the row; -1: none is held
};

} // namespace outbox
