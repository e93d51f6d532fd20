#include "stream_reports.h"

#include "bgworker/engine/mutant.h"

#include <utility>

namespace outbox
{

void
StreamReports::batch(std::size_t records) noexcept
{
    batch_ = records;
    heard_ = clock_.now();
}

void
StreamReports::delivered(std::uint64_t tag) noexcept
{
    Acknowledged event;
    // One that was set aside in the meantime is published all the same.
    if (progress_.acknowledge(tag, true, &event, heard_.steady) || stuck_.land(tag, true, &event))
    {
        tally_.published(event, heard_);
        if (batch_ > 0)
            tally_.batch(event.memo.topic, std::exchange(batch_, 0));
    }
    published_ = heard_;
    stuck_.note_acknowledged(heard_.steady);
    sink_.end_trouble();
}

void
StreamReports::failed(std::uint64_t tag, const Failure &failure) noexcept
{
    Progress::InFlight flight;
    batch_ = 0;
    sink_.note_given_up();
    if (!progress_.find(tag, flight))
    {
        (void) stuck_.land(tag, false);
        return;
    }
    if (failure.cls == FailureClass::topic)
    {
        progress_.set_unsent(tag, flight.memo.sent_at);
        return refusals_.add_refused(tag, flight.memo.lane, failure);
    }
    if (failure.cls != FailureClass::event)
        return sink_.fail(failure);
    if (OUTBOX_MUTANT(takes_refused_for_sent))
        (void) progress_.acknowledge(tag, true);
    else
        refusals_.add_suspect(tag, failure);
    sink_.halt();
}

} // namespace outbox
