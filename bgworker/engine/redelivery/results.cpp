#include "results.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <utility>

namespace outbox
{

Results::Results(const World &world, Lines &lines, Agenda &agenda, SettingAside &aside)
    : source_(world.source), deliveries_(world.deliveries), clock_(world.clock), lines_(lines),
      agenda_(agenda), aside_(aside)
{
    published_.reserve(kMostRedelivered);
    refused_.reserve(kMostRedelivered);
    revived_.reserve(kMostRedelivered);
}

void
Results::add_late(const DeliveryRow &row, const Failure &failure, Lane partition)
{
    const auto first =
        std::find_if(refused_.begin(), refused_.end(),
                     [&](const Refused &other)
                     { return other.row.lane == row.lane && other.partition == partition; });
    if (first == refused_.end())
        add_refused(row, failure, partition);
    else if (first->row.numbers.seq > row.numbers.seq)
        *first = {row, failure, partition};
}

void
Results::reserve()
{
    published_.reserve(published_.size() + 2 * (kMostRedelivered + lines_.afloat()) + 1);
    refused_.reserve(refused_.size() + kMostRedelivered);
    revived_.reserve(revived_.size() + kMostRedelivered);
}

void
Results::reserve_afloat()
{
    const std::size_t most = 2 * kMostRedelivered + lines_.afloat() + 1;
    if (published_.capacity() < most)
        published_.reserve(2 * most);
}

bool
Results::is_published(std::int64_t seq) const noexcept
{
    return std::find(published_.begin(), published_.end(), seq) != published_.end();
}

// An event counts once, with its row: what a crash takes back is sent and counted again, and what
// it does not is not.
void
Results::count_removed(std::size_t removed)
{
    const auto never = std::count_if(gone_.begin(), gone_.end(),
                                     [this](std::int64_t seq) { return !is_published(seq); });
    removed -= std::min(removed, static_cast<std::size_t>(never));
    counting_ += removed;
    if (removed > 0 && !OUTBOX_MUTANT(counts_apart))
        deliveries_.count_published(removed);
}

// Rows that a person holds go as soon as they can. They may be all that still blocks a lane.
void
Results::remove_published()
{
    removing_.insert(removing_.end(), published_.begin(), published_.end());
    if (!published_.empty())
        count_removed(deliveries_.remove_delivered(published_));
    if (OUTBOX_MUTANT(forgets_held))
        return;
    if (std::any_of(held_.begin(), held_.end(),
                    [this](std::int64_t seq) { return !is_published(seq); }))
        agenda_.reload();
    held_ = published_;
}

// Of a line the first is its head; the others wait on.
void
Results::refuse(const Refused &refused, const FailurePolicy &policy)
{
    Event event;
    Failure unreadable;
    const DeliveryRow &row = refused.row;
    DeliveryRow head;
    if (row.waiting && deliveries_.first_before(row.lane, row.numbers.seq, published_, head) &&
        !head.waiting)
        return;
    bool written = true;
    if (source_.find(row.numbers, event))
    {
        const bool readable = source_.read_line(event, unreadable);
        written = aside_.refuse(event,
                                {readable ? refused.failure : unreadable, refused.partition, false,
                                 row.attempts, row.lane, row.waiting || row.blocking},
                                policy);
    }
    // It may have been the head of another lane than that in which it waits now.
    if (written || OUTBOX_MUTANT(tries_held_at_once))
        lines_.recheck(row.lane);
}

// Until all are written nothing is sent: what is left may be due.
bool
Results::write_refused(const FailurePolicy &policy, Steady begun)
{
    constexpr int kStepMs = 10;
    std::sort(refused_.begin(), refused_.end(),
              [](const Refused &a, const Refused &b)
              { return a.row.numbers.seq < b.row.numbers.seq; });
    // Each is in one of the two, whichever cannot be written.
    std::size_t done = writing_.size();
    writing_.insert(writing_.end(), refused_.begin(), refused_.end());
    refused_.clear();
    for (bool over = false; done < writing_.size() && !over;
         over = has_passed(begun, clock_.steady(), kStepMs) && !OUTBOX_MUTANT(refusals_at_once))
        refuse(writing_[done++], policy);
    const auto rest = writing_.begin() + static_cast<std::ptrdiff_t>(done);
    refused_.insert(refused_.end(), rest, writing_.end());
    writing_.erase(rest, writing_.end());
    if (!refused_.empty())
        agenda_.stir();
    return refused_.empty();
}

void
Results::make_revived_due()
{
    if (!revived_.empty())
        agenda_.find_due();
    for (const std::string &topic : revived_)
        deliveries_.make_heads_due(topic, clock_.time_of_day());
    revived_.clear();
}

bool
Results::write(const FailurePolicy &policy, Steady begun)
{
    remove_published();
    const bool all = write_refused(policy, begun);
    make_revived_due();
    lines_.recheck_heads();
    return all;
}

bool
Results::committed() noexcept
{
    const bool any = !removing_.empty() || !writing_.empty();
    removing_.clear();
    writing_.clear();
    counted_ += std::exchange(counting_, 0);
    gone_.erase(std::remove_if(gone_.begin(), gone_.end(),
                               [this](std::int64_t seq) { return !is_published(seq); }),
                gone_.end());
    return any;
}

void
Results::rolled_back()
{
    for (const std::int64_t seq : removing_)
        if (!is_published(seq))
            published_.push_back(seq);
    refused_.insert(refused_.end(), writing_.begin(), writing_.end());
    counting_ = 0;
    (void) committed();
    reserve();
}

} // namespace outbox
