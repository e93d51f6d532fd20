#include "window_keys.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <new>
#include <utility>

namespace outbox
{

namespace
{

constexpr std::int64_t kLowestSeq = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighestSeq = std::numeric_limits<std::int64_t>::max();

} // namespace

WindowKeys::WindowKeys(std::size_t capacity, std::size_t zone_size)
    : capacity_(capacity), zone_size_(std::min(zone_size, capacity))
{
    keys_.reserve(capacity_);
}

void
WindowKeys::open(const XidSnapshot &from, const XidSnapshot &to, std::int64_t after, int slots)
{
    from_ = from;
    to_ = to;
    after_ = after;
    keys_.clear();
    next_ = 0;
    zones_.clear();
    in_zones_ = 0;
    surveyed_ = 0;
    surveying_ = true;
    zone_open_ = false;

    ranges_.clear();
    for (int slot = 0; slot < slots; slot++)
    {
        for (const std::uint64_t xid : from_.running())
            if (to_.visible(xid) && !OUTBOX_MUTANT(forgets_running))
                ranges_.push_back({slot, {xid, kLowestSeq}, {xid, kHighestSeq}});
        const std::uint64_t first = from_.xmax() + (OUTBOX_MUTANT(window_begins_late) ? 1 : 0);
        const std::uint64_t last = to_.xmax() - (OUTBOX_MUTANT(window_ends_early) ? 2 : 1);
        if (from_.xmax() < to_.xmax())
            ranges_.push_back({slot, {first, kLowestSeq}, {last, kHighestSeq}});
    }
}

void
WindowKeys::begin_range(std::size_t index) noexcept
{
    range_ = index;
    zone_open_ = false;
    if (index == 0)
    {
        keys_.clear();
        next_ = 0;
    }
    if (!surveying_)
    {
        zones_[index].lowest = kHighestSeq;
        zones_[index].count = 0;
    }
}

bool
WindowKeys::offer(std::uint64_t xid, std::int64_t seq, Locator locator) noexcept
{
    if (seq <= after_ || from_.visible(xid) || !to_.visible(xid))
        return true;
#ifdef OUTBOX_MUTANTS
    if (OUTBOX_MUTANT(reads_by_number) && seq <= mutant_last)
        return true;
    mutant_last = std::max(mutant_last, seq);
#endif
    try
    {
        return surveying_ ? offer_to_survey(xid, seq, locator) : offer_to_batch(xid, seq, locator);
    }
    catch (const std::bad_alloc &)
    {
        return false;
    }
}

bool
WindowKeys::offer_to_survey(std::uint64_t xid, std::int64_t seq, Locator locator)
{
    surveyed_++;
    if (keys_.size() < capacity_)
        keys_.push_back({seq, locator, xid});
    extend_zone(xid, seq);
    return true;
}

// A zone that begins inside a transaction's run of entries holds nothing else: then its first end
// names a place in the index that a scan can go to at once.
void
WindowKeys::extend_zone(std::uint64_t xid, std::int64_t seq)
{
    if (zone_open_)
    {
        Zone &zone = zones_.back();
        const bool begins_inside = zones_.size() > 1 &&
                                   zones_[zones_.size() - 2].range.slot == zone.range.slot &&
                                   zones_[zones_.size() - 2].range.last.xid == zone.range.first.xid;
        if (zone.count < zone_size_ && !(begins_inside && xid != zone.range.first.xid))
        {
            zone.range.last = {xid, seq};
            zone.lowest = std::min(zone.lowest, seq);
            zone.count++;
            return;
        }
    }
    zones_.push_back({{ranges_[range_].slot, {xid, seq}, {xid, seq}}, seq, 1});
    zone_open_ = true;
}

bool
WindowKeys::offer_to_batch(std::uint64_t xid, std::int64_t seq, Locator locator)
{
    Zone &zone = zones_[range_];
    if (seq >= limit_)
    {
        zone.lowest = std::min(zone.lowest, seq);
        zone.count++;
        return true;
    }
    if (keys_.size() == capacity_)
        return false;
    keys_.push_back({seq, locator, xid});
    return true;
}

void
WindowKeys::finish_scan()
{
    if (surveying_)
        finish_survey();
    else
        finish_batch();
    std::sort(keys_.begin(), keys_.end(),
              [](const EventKey &a, const EventKey &b) { return a.seq < b.seq; });
}

void
WindowKeys::finish_survey()
{
    surveying_ = false;
    if (surveyed_ <= capacity_)
    {
        zones_.clear();
        ranges_.clear();
        return;
    }
    keys_.clear();
    in_zones_ = surveyed_;
    plan_batch();
}

void
WindowKeys::finish_batch()
{
    after_ = limit_ == kHighestSeq ? kHighestSeq : limit_ - 1;
    zones_.erase(std::remove_if(zones_.begin(), zones_.end(),
                                [](const Zone &zone) { return zone.count == 0; }),
                 zones_.end());
    in_zones_ = 0;
    for (const Zone &zone : zones_)
        in_zones_ += zone.count;
    plan_batch();
}

// Takes the zones with the lowest seqs as far as their keys fit, and of those zones the keys below
// the lowest seq of all other zones. When that is the lowest of all, several zones share it, and
// its keys come from all of them. Leaves no range when no zone is left.
void
WindowKeys::plan_batch()
{
    std::sort(zones_.begin(), zones_.end(),
              [](const Zone &a, const Zone &b) { return a.lowest < b.lowest; });
    ranges_.clear();
    std::size_t keys = 0;
    batch_zones_ = 0;
    while (batch_zones_ < zones_.size() && keys + zones_[batch_zones_].count <= capacity_)
    {
        keys += zones_[batch_zones_].count;
        ranges_.push_back(zones_[batch_zones_].range);
        batch_zones_++;
    }
    limit_ = batch_zones_ < zones_.size() ? zones_[batch_zones_].lowest : kHighestSeq;
    if (zones_.empty() || limit_ > zones_.front().lowest)
        return;
    limit_ = zones_.front().lowest + 1;
    for (; batch_zones_ < zones_.size() && zones_[batch_zones_].lowest < limit_; batch_zones_++)
        ranges_.push_back(zones_[batch_zones_].range);
}

} // namespace outbox
