#include "replay_sink.h"

namespace outbox
{

void
ReplaySink::begin(const FailurePolicy &policy) noexcept
{
    backoff_ = Backoff();
    backoff_.configure(policy.backoff_initial_ms, policy.backoff_max_ms);
    halted_ = false;
    next_attempt_at_ = {};
    oversized_batches_ = 0;
    batch_too_large_ = false;
    published_at_ = {};
}

bool
ReplaySink::open()
{
    if (sink_)
        return true;
    Failure why;
    sink_ = destination_.open(Destination::Use::replay, oversized_batches_, why);
    if (!sink_)
        note_failure(why);
    return sink_ != nullptr;
}

void
ReplaySink::hear() noexcept
{
    constexpr std::size_t kEventsPerServe = 1000;
    if (!sink_)
        return;
    (void) sink_->serve(*this, kEventsPerServe);
    Failure why;
    if (halted_ || !sink_->fatal(why))
        return;
    if (!why.consequence)
        note_failure(why);
    halt();
}

void
ReplaySink::close(int wait_ms) noexcept
{
    if (sink_)
        (void) sink_->close(wait_ms);
    sink_.reset();
}

void
ReplaySink::abandon() noexcept
{
    if (is_waiting())
        sink_->purge();
    close(0);
}

void
ReplaySink::note_not_queued(const Failure &why) noexcept
{
    if (!why.consequence)
        note_failure(why);
    halt();
}

void
ReplaySink::note_refusal(std::int64_t place, const Failure &failure) noexcept
{
    if (const EventNumbers *numbers = list_.known(place))
        row_.note_refusal(*numbers, failure);
    else
        row_.note_error(failure.name, failure.text);
}

void
ReplaySink::halt() noexcept
{
    if (!halted_)
        halted_since_ = clock_.steady();
    halted_ = true;
}

// Something that is no event's fault: everything waits, and is tried again.
void
ReplaySink::note_failure(const Failure &failure) noexcept
{
    const std::int64_t wait = backoff_.fail(clock_.random());
    next_attempt_at_ = plus_ms(clock_.steady(), wait);
    row_.note_error(failure.name, failure.text);
}

long
ReplaySink::recover(Steady now) noexcept
{
    constexpr int kLastReportsMs = 2000;
    constexpr long kPollMs = 20;
    if (is_waiting() && !has_passed(halted_since_, now, kLastReportsMs))
        return kPollMs;
    if (row_.flight().take_back() < 0 && batch_too_large_)
        oversized_batches_++;
    batch_too_large_ = false;
    close(0); // new events wait for none of its threads
    halted_ = false;
    return 0;
}

void
ReplaySink::delivered(std::uint64_t tag) noexcept
{
    if (!row_.flight().published(static_cast<std::int64_t>(tag)))
        return;
    published_at_ = clock_.steady();
    backoff_.succeed();
}

// What was refused with its topic overtakes nothing: it was given up before it was sent. Of events
// that a broker refused together any may be the culprit. A sink that refuses records one by one
// lives on.
void
ReplaySink::failed(std::uint64_t tag, const Failure &failure) noexcept
{
    const std::int64_t place = static_cast<std::int64_t>(tag);
    const bool alone = !sink_->refuses_batches();
    if (failure.cls == FailureClass::gone)
        left_ = failure;
    if (alone && failure.consequence && !halted_)
    {
        (void) row_.flight().returned(place);
        return;
    }
    if (failure.cls == FailureClass::topic || (alone && failure.cls == FailureClass::event))
    {
        if (row_.flight().refused(place))
            note_refusal(place, failure);
        return;
    }
    if (failure.cls == FailureClass::event)
    {
        if (row_.flight().suspected(place))
            note_refusal(place, failure);
        batch_too_large_ = failure.too_large;
    }
    else if (!halted_ && !failure.consequence && failure.cls != FailureClass::gone)
        note_failure(failure);
    halt();
}

// The sink continues by itself; what is in its queue goes out when the destination is back.
void
ReplaySink::trouble(const Failure &failure) noexcept
{
    if (!failure.consequence)
        row_.note_error(failure.name, failure.text);
}

void
ReplaySink::log(int, const char *, const char *) noexcept
{
    // What matters comes as trouble too, and the stream's sink logs the same.
}

} // namespace outbox
