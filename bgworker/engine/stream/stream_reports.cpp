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
    const bool alone = !sink_.refuses_batches();
    batch_ = 0;
    if (!alone)
        sink_.note_given_up();
    const bool gone = failure.cls == FailureClass::gone;
    if (gone)
        sink_.leave(failure);
    if (!progress_.find(tag, flight))
    {
        (void) stuck_.land(tag, false);
        return;
    }
    if (gone && OUTBOX_MUTANT(blames_for_gone))
        return refusals_.add_refused(tag, flight.memo.lane, failure);
    if (gone)
        return;
    if (alone && failure.consequence && !sink_.is_halted())
    {
        if (!OUTBOX_MUTANT(takes_followers_for_sent))
            progress_.set_unsent(tag, flight.memo.sent_at);
        return refusals_.add_follower(tag, flight.memo.lane);
    }
    if (failure.cls == FailureClass::topic || (alone && failure.cls == FailureClass::event))
    {
        progress_.set_unsent(tag, flight.memo.sent_at);
        if (OUTBOX_MUTANT(halts_for_refusal) && alone)
            sink_.halt();
        if (OUTBOX_MUTANT(takes_refused_for_sent) && alone)
            return static_cast<void>(progress_.acknowledge(tag, true));
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
