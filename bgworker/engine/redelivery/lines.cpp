#include "lines.h"

#include <algorithm>

namespace outbox
{

bool
Lines::is_before(Lane lane, std::uint64_t tag) const noexcept
{
    const auto found = lanes_.all().find(lane);
    return found != lanes_.all().end() && found->second.barrier <= tag;
}

bool
Lines::has_unplaced_before(Lane topic, std::uint64_t tag) const noexcept
{
    const auto found = lanes_.all().find(topic);
    return found != lanes_.all().end() && found->second.unplaced < tag &&
           !OUTBOX_MUTANT(forgets_unplaced);
}

Lane
Lines::lane_of(Lane topic, Lane partition, Lane key, std::uint64_t tag) const noexcept
{
    for (const Lane lane : {topic, partition, key})
        if (is_before(lane, tag) || (OUTBOX_MUTANT(places_by_width) && wait_of(lane) != Wait::none))
            return has_unplaced_before(topic, tag) ? topic : lane;
    for (const Lane lane : {key, partition, topic})
        if (wait_of(lane) != Wait::none)
            return lane;
    return 0;
}

void
Lines::release_part(Lane lane, Lane from)
{
    const Line *line = lanes_.find(from);
    lanes_.release(lane, line == nullptr || OUTBOX_MUTANT(parts_anew) ? barrier() : line->barrier);
}

void
Lines::join(Lane lane, std::int64_t seq) noexcept
{
    Line *line = lanes_.find(lane);
    if (line != nullptr)
        line->joined(seq);
    agenda_.stir();
}

void
Lines::note_unplaced(Lane topic, std::uint64_t tag) noexcept
{
    Line *line = lanes_.find(topic);
    if (line != nullptr)
        line->unplaced = std::min(line->unplaced, tag);
}

void
Lines::isolate(Lane lane, std::size_t suspects)
{
    if (is_clear(lane))
        release(lane);
    Line *line = lanes_.find(lane);
    line->isolating = true;
    line->group =
        static_cast<std::uint32_t>(std::clamp<std::size_t>(suspects / 2, 1, Line::kWholeGroup / 2));
    agenda_.stir();
}

void
Lines::begin_again() noexcept
{
    for (auto &lane : lanes_.all())
    {
        lane.second.in_flight = 0;
        lane.second.has_cursor = false;
        lane.second.halved = false;
    }
    agenda_.find_due();
    agenda_.stir();
}

void
Lines::set_afloat(Lane lane)
{
    const std::size_t most = 2 * kMostRedelivered + afloat_ + 1;
    if (recheck_.capacity() < most)
        recheck_.reserve(2 * most);
    block(lane);
    afloat_++;
    lanes_.find(lane)->afloat++;
}

void
Lines::land(Lane lane) noexcept
{
    Line *line = lanes_.find(lane);
    afloat_--;
    if (line != nullptr && line->afloat > 0 && --line->afloat == 0)
        recheck(lane); // reserved in set_afloat()
    agenda_.stir();
}

bool
Lines::is_ready(const Line &line, std::uint64_t first_tag) noexcept
{
    if (line.barrier > first_tag)
        awaited_tag_ = std::min(awaited_tag_, line.barrier);
    return (line.afloat == 0 || OUTBOX_MUTANT(forgets_afloat)) &&
           (line.barrier <= first_tag || OUTBOX_MUTANT(ignores_barrier));
}

void
Lines::recheck_heads()
{
    if (!recheck_.empty())
        agenda_.find_due();
    std::sort(recheck_.begin(), recheck_.end());
    recheck_.erase(std::unique(recheck_.begin(), recheck_.end()), recheck_.end());
    for (const Lane lane : recheck_)
    {
        const Line *line = lanes_.find(lane);
        if (line == nullptr || line->state != Lanes::State::blocked || line->afloat > 0)
            continue;
        if (!deliveries_.is_lane_blocked(lane))
            release(lane);
    }
    recheck_.clear();
}

void
Lines::keep_back(Lane lane)
{
    block(lane);
    if (!OUTBOX_MUTANT(blocks_for_held))
        kept_back_.push_back(lane);
}

void
Lines::recheck_kept_back(Steady now)
{
    constexpr int kLaterMs = 100;
    if (!kept_back_.empty() && has_passed(rechecked_at_, now, kLaterMs))
    {
        recheck_.insert(recheck_.end(), kept_back_.begin(), kept_back_.end());
        kept_back_.clear();
        rechecked_at_ = now;
    }
}

// A lane stays known until its line is empty; what changes here is whether something blocks it.
void
Lines::load_blocked()
{
    loaded_.clear();
    deliveries_.blocked_lanes(loaded_);
    std::vector<Lane> known;
    for (const auto &lane : lanes_.all())
        if (lane.second.state == Lanes::State::blocked && lane.second.afloat == 0)
            known.push_back(lane.first);
    for (const Lane lane : known)
        release(lane);
    for (const Lane lane : loaded_)
        block(lane);
    recheck_.clear();
}

void
Lines::load_waiting()
{
    loaded_.clear();
    deliveries_.waiting_lanes(loaded_);
    for (const Lane lane : loaded_)
    {
        if (is_clear(lane))
            release(lane);
        lanes_.find(lane)->has_cursor = false;
    }
}

} // namespace outbox
