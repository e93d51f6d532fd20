#include "relay_destination.h"

namespace outbox
{

std::unique_ptr<Sink>
RelayDestination::open(Use use, int oversized_batches, Failure &why)
{
    if (!enabled_)
        return nullptr;
    std::unique_ptr<Sink> sink = destination_->open(use, oversized_batches, why);
    if (use == Use::stream && !sink)
    {
        // The caller decides when it is tried again.
        enabled_ = false;
        stream_failed_ = true;
        stream_failure_ = why;
    }
    return sink;
}

bool
RelayDestination::take_stream_failure(Failure &why) noexcept
{
    if (!stream_failed_)
        return false;
    stream_failed_ = false;
    why = stream_failure_;
    return true;
}

} // namespace outbox
