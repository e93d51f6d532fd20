#include "redelivery_reports.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <utility>

namespace outbox
{

void
RedeliveryReports::delivered(std::uint64_t tag) noexcept
{
    Flights::Flight *flight = flights_.find(tag);
    if (flight == nullptr)
        return;
    const DeliveryRow &row = flight->row;
    published_++;
    last_published_ = clock_.now();
    tally_.published(flight->event, last_published_);
    if (batch_ > 0)
        tally_.batch(flight->event.memo.topic, std::exchange(batch_, 0));
    results_.add_published(row.numbers.seq); // never more than are in flight
    Line *line = lines_.find(row.lane);
    if (line != nullptr && !row.waiting)
        lines_.recheck(row.lane);
    if (!row.waiting)
        culprits_.forget(row.numbers.seq);
    if (!flight->topic.empty())
        results_.add_revived(std::move(flight->topic));
    flights_.end(static_cast<std::size_t>(tag));
    // All of a group was accepted: more may go together.
    if (line != nullptr && line->in_flight == 0 && row.waiting)
    {
        line->group = std::min(line->group * 2, Line::kWholeGroup);
        line->isolating = line->isolating && line->group < Line::kWholeGroup;
    }
}

// What is refused with its topic overtakes nothing: it was given up before it was sent. Of events
// that a broker refused together any may be the culprit; one that was refused alone is it. What
// comes back with that was not sent.
void
RedeliveryReports::failed(std::uint64_t tag, const Failure &failure) noexcept
{
    const std::size_t together = std::exchange(batch_, 0);
    Flights::Flight *flight = flights_.find(tag);
    if (flight == nullptr)
        return;
    const DeliveryRow &row = flight->row;
    const bool alone = !refuses_batches_;
    const bool unsent = alone && failure.consequence && !OUTBOX_MUTANT(blames_followers);
    const bool of_event = failure.cls == FailureClass::event && !unsent;
    if (failure.cls == FailureClass::gone)
        left_ = failure;
    Line *line = lines_.find(row.lane);
    const bool came_back = line != nullptr && line->halved && !OUTBOX_MUTANT(blames_the_last);
    // Earlier ones of the partition may still be on their way, or have come back with it, or just
    // before it: then the group is tried again first.
    const bool culprit =
        of_event && (alone || (together == 1 && !came_back && flights_.is_alone(*flight)));
    if (culprit || (failure.cls == FailureClass::topic && !unsent))
        results_.add_refused(row, failure, 0);
    if (culprit && OUTBOX_MUTANT(refuses_twice))
        results_.add_refused(row, failure, 0);
    if (culprit && !alone)
        culprits_.note(row.numbers.seq);
    if (culprit && failure.too_large)
        oversized_.add_event();
    if (of_event && !culprit && together > 1 && failure.too_large)
        oversized_.add_batch();
    if (line != nullptr)
    {
        if (of_event && !culprit && !line->halved)
        {
            line->isolating = line->halved = true;
            line->group = std::max<std::uint32_t>(std::min(line->group, line->in_flight) / 2, 1);
        }
        line->has_cursor = false; // what was not accepted goes out again
    }
    flights_.end(static_cast<std::size_t>(tag));
    if (line != nullptr && line->in_flight == 0)
        line->halved = false;
}

} // namespace outbox
