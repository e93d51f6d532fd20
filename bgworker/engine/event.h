// An event as the engine sees it.
#pragma once

#include "clock.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace outbox
{

// A seq may be any number.
constexpr std::int64_t kLowestSeq = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighestSeq = std::numeric_limits<std::int64_t>::max();

// Partitions that the events table has.
constexpr int kRingPartitions = 8;

// What finds an event.
struct EventNumbers
{
    std::int64_t seq = 0; // the order of emission
    std::int64_t xid = 0; // the transaction that emitted it
    int slot = 0;         // the partition of the ring that it was written to
};

// What must stay in order is a line: the events of a key in a topic.
struct Event
{
    EventNumbers numbers;
    std::array<unsigned char, 16> id = {};
    // When it was emitted, for how long it has been waiting: never later than now.
    Time emitted_at = 0;

    // Set by Source::read_line() and Source::build(), as far as it could be read.
    std::string_view topic = "?"; // "?": it has none, or its types cannot be read
    std::string_view key;         // empty: it cannot be read, or be sent
    std::optional<bool> blocks;   // by its route, whether later events of the key wait for it
};

constexpr std::size_t kUuidText = 37; // with its end

// Whether it is known to which topic an event goes. If not it has no line with others.
inline bool
has_topic(const Event &event) noexcept
{
    return event.topic != "?";
}

// The usual text of an id.
inline void
write_uuid(const std::array<unsigned char, 16> &id, char (&text)[kUuidText]) noexcept
{
    constexpr char kDigits[] = "0123456789abcdef";
    char *to = text;
    for (std::size_t i = 0; i < id.size(); i++)
    {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        *to++ = kDigits[id[i] >> 4];
        *to++ = kDigits[id[i] & 15];
    }
    *to = '\0';
}

// Whether later events of the key wait when this one is refused.
inline bool
blocks_key(const Event &event, bool by_default) noexcept
{
    return event.blocks.value_or(by_default);
}

} // namespace outbox
