// Events of the stream that were handed over, read again.
#pragma once

#include "bgworker/engine/source.h"

namespace outbox
{

// In a step. False for an event that is not in flight, or whose row is gone: that counts as done.
inline bool
fetch_in_flight(Source &source, Progress &progress, std::uint64_t tag, Event &event,
                Progress::InFlight &flight)
{
    if (!progress.find(tag, flight))
        return false;
    if (source.fetch({flight.seq, flight.locator, flight.xid}, event))
        return true;
    (void) progress.acknowledge(tag, false);
    return false;
}

} // namespace outbox
