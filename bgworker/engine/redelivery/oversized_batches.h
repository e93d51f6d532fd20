// How often a batch was too large for its topic although no event of it was.
#pragma once

#include <cstdint>
#include <utility>

namespace outbox
{

// Of a batch of several that is too large one event alone may be at fault, which shows when that is
// refused by itself: then the batches that were suspected since do not count. What is left makes
// the next sink's batches smaller.
class OversizedBatches
{
public:
    void add_batch() noexcept
    {
        batches_++;
        suspected_++;
    }
    void add_event() noexcept
    {
        events_++;
        batches_ -= std::exchange(suspected_, 0);
    }

    int batches() const noexcept { return batches_; }
    // That were too large alone.
    std::uint64_t events() const noexcept { return events_; }

private:
    int batches_ = 0;
    int suspected_ = 0; // of these, since the last event
    std::uint64_t events_ = 0;
};

} // namespace outbox
