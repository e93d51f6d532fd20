#include "stream_sink.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

void
StreamSink::open(int oversized_batches)
{
    Failure why; // the destination reports it
    if (sink_)
        return;
    sink_ = destination_.open(Destination::Use::stream, oversized_batches, why);
    given_up_ = false;
}

ProduceResult
StreamSink::offer(const Record &record, Offer &offer, Failure &why) noexcept
{
    const ProduceResult result = sink_->offer(record, offer, why);
    full_ = result == ProduceResult::queue_full;
    return result;
}

void
StreamSink::halt() noexcept
{
    if (!halted_)
        halted_since_ = clock_.steady();
    halted_ = true;
}

void
StreamSink::fail(const Failure &why) noexcept
{
    if (!halted_ && !why.consequence)
        trouble_.fail(why);
    halt();
}

void
StreamSink::leave(const Failure &why) noexcept
{
    if (!is_left())
        left_ = why;
    left_.cls = FailureClass::gone;
    halt();
}

void
StreamSink::purge() noexcept
{
    halt();
    dead_ = true;
    sink_->purge();
}

void
StreamSink::watch(Steady now) noexcept
{
    Failure why;
    if (!dead_ && sink_->fatal(why))
    {
        halted_ = dead_ = true;
        halted_since_ = now;
        if (!why.consequence)
            trouble_.fail(why);
    }
    if (is_backing_off())
        sink_->note_away();
    library_log_.flush(source_, destination_.library());
    trouble_.log_news(source_);
}

// One that lives may keep for ever what waits for a partition's leader. What a dead one has not
// reported in time is not waited for.
long
StreamSink::drain(Steady now, long last_reports_ms) noexcept
{
    const bool waited = ms_between(halted_since_, now) >= last_reports_ms;
    if (outstanding() > 0 && !dead_ && waited)
    {
        purge();
        halted_since_ = now;
        return last_reports_ms;
    }
    if (outstanding() > 0 && !waited)
        return std::max(10L, last_reports_ms - ms_between(halted_since_, now)); // they wake us
    return is_backing_off() ? trouble_.ms_until_attempt(now) : 0;
}

void
StreamSink::end_halt(Steady now) noexcept
{
    if (dead_)
    {
        (void) sink_->close(0); // it ends by itself
        sink_.reset();
    }
    last_reports_.note(halted_since_, now);
}

void
StreamSink::run() noexcept
{
    halted_ = dead_ = full_ = false;
    halted_since_ = {};
}

// While something is in flight, the sink tries at intervals like ours, reports only the first
// failure, and a delivery ends the trouble. But what is in flight may all wait for something else
// than the connection, as for a partition's leader: so the destination is asked as well.
long
StreamSink::attempt(Steady now) noexcept
{
    constexpr int kAskMs = 100;
    if (!is_backing_off())
        return -1;
    if (trouble_.may_attempt(now))
    {
        const bool ask = outstanding() == 0 || (trouble_.ends_with_answer() &&
                                                !OUTBOX_MUTANT(trouble_waits_for_delivery));
        if (ask && sink_ && sink_->reachable(kAskMs))
            trouble_.succeed();
        else
            trouble_.fail_again();
    }
    return is_backing_off() ? std::max(10L, trouble_.ms_until_attempt(now)) : -1;
}

void
StreamSink::end_trouble() noexcept
{
    if (is_backing_off() && !halted_)
        trouble_.succeed();
}

} // namespace outbox
