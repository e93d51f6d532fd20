// What the sink of redelivery reports.
#pragma once

#include "culprits.h"
#include "flights.h"
#include "oversized_batches.h"
#include "results.h"

#include <utility>

namespace outbox
{

// Each report ends a flight and becomes a result. Of events that a broker has refused together any
// may be the culprit: their line goes out in smaller groups until one is refused alone.
class RedeliveryReports final : public SinkListener
{
public:
    RedeliveryReports(const World &world, Lines &lines, Flights &flights, Results &results,
                      Culprits &culprits) noexcept
        : clock_(world.clock), tally_(world.tally), lines_(lines), flights_(flights),
          results_(results), culprits_(culprits)
    {
    }

    // Events published, and when the last one was.
    std::uint64_t published() const noexcept { return published_; }
    const Moment &last_published() const noexcept { return last_published_; }
    const OversizedBatches &oversized() const noexcept { return oversized_; }

    // How its sink refuses, before it is heard: see Sink.
    void set_refuses_batches(bool refuses_batches) noexcept { refuses_batches_ = refuses_batches; }
    // The last trouble of one that refuses records one by one; class none: there was none since.
    Failure take_trouble() noexcept { return std::exchange(trouble_, {}); }
    // Class gone: the destination asks never to be called again.
    const Failure &left() const noexcept { return left_; }

    void batch(std::size_t records) noexcept override { batch_ = records; }
    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const Failure &failure) noexcept override;
    void trouble(const Failure &failure) noexcept override
    {
        if (!refuses_batches_ && failure.summary)
            trouble_ = failure;
    }
    void log(int, const char *, const char *) noexcept override {}

private:
    Clock &clock_;
    Tally &tally_;
    Lines &lines_;
    Flights &flights_;
    Results &results_;
    Culprits &culprits_;
    OversizedBatches oversized_;
    bool refuses_batches_ = true;
    Failure trouble_;
    Failure left_;
    std::size_t batch_ = 0; // records of the one under way; 0: it is counted
    std::uint64_t published_ = 0;
    Moment last_published_;
};

} // namespace outbox
