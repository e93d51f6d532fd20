// The server's clocks, for the engine.
#pragma once

#include "bgworker/engine/clock.h"

#include "extension/core/steady.h"

#include "extension/server/pg.h"

namespace outbox
{

class ServerClock final : public Clock
{
public:
    Time time_of_day() noexcept override { return GetCurrentTimestamp(); }
    Steady steady() noexcept override { return {steady_now()}; }
    std::uint64_t random() noexcept override { return random_bits(); }
};

} // namespace outbox
