// What the engine shows of itself.
#pragma once

#include "clock.h"

#include <cstdint>

namespace outbox
{

struct EngineReport
{
    Time oldest_event_at = 0; // 0: none is known
    std::size_t in_flight_events = 0;
    std::size_t in_flight_bytes = 0;
    std::int64_t published = 0;
    Time last_published_at = 0;
    std::uint32_t consecutive_failures = 0;
    Time next_attempt_at = 0; // 0: none
    Time last_error_at = 0;   // 0: none
    char last_error[512] = "";
};

} // namespace outbox
