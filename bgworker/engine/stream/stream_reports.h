// What the sink of the stream reports.
#pragma once

#include "refusals.h"
#include "stream_sink.h"
#include "stuck.h"

namespace outbox
{

// An event that was acknowledged is published. One that was given up, for whatever reason, is not:
// its tag stays unacknowledged until it is set aside or handed over again. Asks no database.
class StreamReports final : public SinkListener
{
public:
    StreamReports(const World &world, Progress &progress, StreamSink &sink, Refusals &refusals,
                  Stuck &stuck) noexcept
        : clock_(world.clock), tally_(world.tally), progress_(progress), sink_(sink),
          refusals_(refusals), stuck_(stuck)
    {
    }

    // When something was heard last, and when that was an acknowledgement.
    Steady heard_at() const noexcept { return heard_.steady; }
    const Moment &published_at() const noexcept { return published_; }

    void batch(std::size_t records) noexcept override;
    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const Failure &failure) noexcept override;
    void trouble(const Failure &failure) noexcept override { sink_.trouble().hear(failure); }
    void log(int, const char *facility, const char *text) noexcept override
    {
        sink_.library_log().add(facility, text);
    }

private:
    Clock &clock_;
    Tally &tally_;
    Progress &progress_;
    StreamSink &sink_;
    Refusals &refusals_;
    Stuck &stuck_;
    // One time for each batch: a clock for each event would cost a hundredth of its time.
    Moment heard_;
    Moment published_;
    std::size_t batch_ = 0; // records of the one under way; 0: it is counted
};

} // namespace outbox
