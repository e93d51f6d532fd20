#include "replay_flight.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

void
ReplayFlight::start(const Counts &counts, std::int64_t size) noexcept
{
    *this = ReplayFlight();
    counts_ = counts;
    size_ = size;
    next_ = end_ = first();
}

std::int64_t
ReplayFlight::next() const noexcept
{
    if (next_ >= size_ || next_ - first() >= static_cast<std::int64_t>(kMost))
        return -1;
    const bool alone = next_ <= one_by_one_until_; // the one behind them waits for the last
    return alone && on_their_way_ > 0 ? -1 : next_;
}

bool
ReplayFlight::has_room(std::size_t bytes) const noexcept
{
    return on_their_way_ == 0 || bytes_ + bytes <= kMostBytes;
}

// The next place is the first behind it that is unsent; others there were heard of before a rewind.
void
ReplayFlight::go_on() noexcept
{
    next_++;
    end_ = std::max(end_, next_);
    while (next_ < end_ && at(next_).fate != Fate::unsent)
        next_++;
}

void
ReplayFlight::sent(std::size_t bytes) noexcept
{
    at(next_) = {Fate::sent, bytes};
    on_their_way_++;
    bytes_ += bytes;
    go_on();
}

void
ReplayFlight::left_out(bool missing) noexcept
{
    at(next_) = {missing ? Fate::missing : Fate::refused, 0};
    go_on();
}

bool
ReplayFlight::is_on_its_way(std::int64_t place) noexcept
{
    return place >= first() && place < end_ && at(place).fate == Fate::sent;
}

bool
ReplayFlight::arrive(std::int64_t place, Fate fate) noexcept
{
    if (!is_on_its_way(place))
        return false;
    at(place).fate = fate;
    on_their_way_--;
    bytes_ -= at(place).bytes;
    return true;
}

bool
ReplayFlight::published(std::int64_t place) noexcept
{
    return arrive(place, Fate::published);
}

bool
ReplayFlight::refused(std::int64_t place) noexcept
{
    return arrive(place, Fate::refused);
}

bool
ReplayFlight::suspected(std::int64_t place) noexcept
{
    if (!arrive(place, Fate::suspected))
        return false;
    suspects_++;
    last_suspect_ = std::max(last_suspect_, place);
    return true;
}

bool
ReplayFlight::returned(std::int64_t place) noexcept
{
    if (!arrive(place, Fate::unsent))
        return false;
    if (!OUTBOX_MUTANT(replays_past_returned) || on_their_way_ == 0)
        next_ = std::min(next_, place);
    return true;
}

std::int64_t
ReplayFlight::take_back() noexcept
{
    const bool known = suspects_ == 1 || (suspects_ > 1 && OUTBOX_MUTANT(blames_last_of_replay));
    const std::int64_t culprit = known ? last_suspect_ : -1;
    if (suspects_ > 1 && !known)
        one_by_one_until_ = std::max(one_by_one_until_, last_suspect_ + 1);
    for (std::int64_t place = first(); place < end_; place++)
    {
        Event &event = at(place);
        if (event.fate == Fate::sent || event.fate == Fate::suspected)
            event.fate = place == culprit              ? Fate::refused
                         : OUTBOX_MUTANT(replays_less) ? Fate::published
                                                       : Fate::unsent;
    }
    on_their_way_ = 0;
    bytes_ = 0;
    suspects_ = 0;
    last_suspect_ = -1;
    next_ = first();
    while (next_ < end_ && at(next_).fate != Fate::unsent)
        next_++;
    return culprit;
}

bool
ReplayFlight::settle() noexcept
{
    const std::int64_t before = first();
    for (bool known = true; known && first() < end_;)
        switch (at(first()).fate)
        {
        case Fate::published:
            counts_.published++;
            refused_in_a_row_ = 0;
            break;
        case Fate::refused:
            counts_.refused++;
            refused_in_a_row_++;
            break;
        case Fate::missing:
            counts_.missing++;
            break;
        default:
            known = false;
        }
    return first() > before;
}

} // namespace outbox
