// Who counts what the engine does.
#pragma once

#include "bgworker/engine/common/progress.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox
{

// Nothing here fails or waits. Topics are known by short numbers.
class Tally
{
public:
    virtual ~Tally() = default;

    virtual std::uint16_t topic(std::string_view name) noexcept = 0;

    // An event was acknowledged. It was created at a time of day, and handed over at a moment.
    virtual void published(const Acknowledged &event, const Moment &now) noexcept = 0;
    // A batch of this many events was acknowledged.
    virtual void batch(std::uint16_t topic, std::size_t events) noexcept = 0;
    // An event was refused, or its topic.
    virtual void refused(std::uint16_t topic) noexcept = 0;
    // An event was given up.
    virtual void failed(std::uint16_t topic) noexcept = 0;
    // An event is handed over once more.
    virtual void retried(std::uint16_t topic) noexcept = 0;

    // Shows what was counted since. `idle`: no event that carries a topic's number is on its way.
    virtual void flush(bool idle) noexcept = 0;
};

} // namespace outbox
