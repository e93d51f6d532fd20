#include "refusals.h"

#include "bgworker/engine/mutant.h"

#include "in_flight.h"

#include <algorithm>

namespace outbox
{

Refusals::Refusals(const World &world, Progress &progress, Lines &lines, SettingAside &aside,
                   std::size_t max_events)
    : source_(world.source), clock_(world.clock), progress_(progress), lines_(lines), aside_(aside)
{
    refused_.reserve(max_events);
    reasons_.reserve(most_reasons_);
    suspects_.reserve(max_events);
}

void
Refusals::add_refused(std::uint64_t tag, Lane partition, const Failure &failure) noexcept
{
    if (reasons_.size() < most_reasons_)
        reasons_.push_back(failure); // reserved
    else
        reasons_.back() = failure;
    refused_.push_back({tag, partition, reasons_.size() - 1}); // reserved
}

void
Refusals::expect_reasons()
{
    reasons_.reserve(kMostReasons);
    followers_.reserve(refused_.capacity());
    most_reasons_ = kMostReasons;
}

void
Refusals::add_follower(std::uint64_t tag, Lane partition) noexcept
{
    if (!OUTBOX_MUTANT(loses_followers))
        followers_.push_back({tag, partition, 0}); // reserved
}

void
Refusals::add_suspect(std::uint64_t tag, const Failure &failure) noexcept
{
    suspects_.push_back(tag); // reserved
    suspicion_ = failure;
}

void
Refusals::set_aside(std::uint64_t tag, Lane partition, const Failure &failure,
                    const FailurePolicy &policy)
{
    Event event;
    Progress::InFlight flight;
    if (!fetch_in_flight(source_, progress_, tag, event, flight))
        return;
    Failure unreadable;
    const bool readable = source_.read_line(event, unreadable);
    SettingAside::Refusal refusal = {readable ? failure : unreadable, 0, true};
    refusal.partition = partition;
    refusal.tag = tag;
    (void) aside_.refuse(event, refusal, policy);
    if (OUTBOX_MUTANT(counts_before_end))
        (void) progress_.acknowledge(tag, false);
    progress_.set_aside(tag);
}

bool
Refusals::is_over(Steady begun) const noexcept
{
    constexpr int kStepMs = 10;
    return has_passed(begun, clock_.steady(), kStepMs) && !OUTBOX_MUTANT(refusals_at_once);
}

bool
Refusals::is_waiting(Lane partition) const noexcept
{
    return has_refused() && !OUTBOX_MUTANT(passes_refused) &&
           std::binary_search(partitions_.begin(), partitions_.end(), partition);
}

void
Refusals::set_refused_aside(const FailurePolicy &policy, Steady begun)
{
    if (partitions_of_ != refused_.size())
    {
        partitions_.clear();
        for (const Refused &refused : refused_)
            partitions_.push_back(refused.partition);
        std::sort(partitions_.begin(), partitions_.end());
        partitions_.erase(std::unique(partitions_.begin(), partitions_.end()), partitions_.end());
        partitions_of_ = refused_.size();
    }
    for (bool over = false; has_refused() && !over; over = is_over(begun))
    {
        const Refused &next = refused_[refused_done_];
        set_aside(next.tag, next.partition, reasons_[next.reason], policy);
        refused_done_++;
    }
}

// Behind the last suspect that follows this one and is of its partition.
std::size_t
Refusals::end_of_partition(std::size_t begin, Progress::InFlight &flight) const noexcept
{
    std::size_t end = begin + 1;
    Progress::InFlight other;
    if (progress_.find(suspects_[begin], flight))
        while (end < suspects_.size() && progress_.find(suspects_[end], other) &&
               other.memo.lane == flight.memo.lane)
            end++;
    return end;
}

// A batch is refused as a whole, so an event that was refused alone is the culprit. For the others
// redelivery finds it; until then their partition waits. It does so from before the first is set
// aside, and redelivery for the last one.
void
Refusals::begin_suspects()
{
    Progress::InFlight flight;
    const std::size_t end = end_of_partition(suspects_done_, flight);
    group_left_now_ = end - suspects_done_;
    group_now_ = flight.memo.lane;
    if (group_left_now_ == 1)
        return;
    lines_.isolate(group_now_, group_left_now_);
    if (suspicion_.too_large)
        oversized_done_++;
}

void
Refusals::set_suspects_aside(const FailurePolicy &policy, Steady begun)
{
    for (bool over = false; has_suspects() && !over; over = is_over(begun))
    {
        const std::uint64_t tag = suspects_[suspects_done_];
        const bool first = group_left_now_ == 0;
        if (first)
            begin_suspects();
        const bool alone = first && group_left_now_ == 1;
        group_left_now_--;
        suspects_done_++;
        if (alone)
        {
            set_aside(tag, group_now_, suspicion_, policy);
            continue;
        }
        Event event;
        Progress::InFlight flight;
        if (!fetch_in_flight(source_, progress_, tag, event, flight))
            continue;
        Failure unreadable; // redelivery finds it again
        (void) source_.read_line(event, unreadable);
        aside_.set_aside_suspect(event, group_now_, tag);
        progress_.set_aside(tag);
    }
}

void
Refusals::committed() noexcept
{
    refused_.erase(refused_.begin(), refused_.begin() + static_cast<std::ptrdiff_t>(refused_done_));
    if (refused_.empty())
        reasons_.clear();
    suspects_.erase(suspects_.begin(),
                    suspects_.begin() + static_cast<std::ptrdiff_t>(suspects_done_));
    oversized_batches_ += oversized_done_;
    group_ = group_now_;
    group_left_ = group_left_now_;
    rolled_back();
}

void
Refusals::rolled_back() noexcept
{
    refused_done_ = suspects_done_ = 0;
    partitions_of_ = SIZE_MAX; // to be found again
    group_now_ = group_;
    group_left_now_ = group_left_;
    oversized_done_ = 0;
}

} // namespace outbox
