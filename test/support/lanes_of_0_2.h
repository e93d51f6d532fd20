// The lanes that version 0.2 has stored in outbox.deliveries, apart from the code that reads them.
#pragma once

#include <cstdint>
#include <string_view>

namespace outbox::test
{

// Of a topic; or of a topic, a zero byte, and a key.
inline std::uint64_t
lane_of_0_2(std::string_view text)
{
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char character : text)
        hash = (hash ^ static_cast<unsigned char>(character)) * 1099511628211ULL;
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    return hash ^ (hash >> 33);
}

} // namespace outbox::test
