// What the relay of a history asks of a simulated sink besides what the engine does.
#pragma once

#include "clock.h"

namespace outbox::sim
{

class SimSink
{
public:
    virtual ~SimSink() = default;
    // Does what is due by now.
    virtual void advance() = 0;
    virtual Time next_event_at() const = 0;
    // There is something for serve().
    virtual bool has_news() const noexcept = 0;
};

} // namespace outbox::sim
