#include "lanes.h"

namespace outbox
{

namespace
{

// FNV-1a, 64 bit (Fowler, Noll, Vo), with the finalizer of MurmurHash3 for the high bits.
constexpr std::uint64_t kOffset = 14695981039346656037ULL;
constexpr std::uint64_t kPrime = 1099511628211ULL;

std::uint64_t
add(std::uint64_t hash, std::string_view text) noexcept
{
    for (const char character : text)
        hash = (hash ^ static_cast<unsigned char>(character)) * kPrime;
    return hash;
}

std::uint64_t
finish(std::uint64_t hash) noexcept
{
#ifdef OUTBOX_MUTANTS
    hash ^= lane_salt;
#endif
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    return hash ^ (hash >> 33);
}

} // namespace

// A topic name contains no zero byte, so the byte after it keeps topic and key apart.
Lane
topic_lane(std::string_view topic) noexcept
{
    return finish(add(kOffset, topic));
}

// Nor a byte of one.
Lane
partition_lane(std::string_view topic, std::int32_t partition) noexcept
{
    const std::uint64_t hash = add(add(kOffset, topic), std::string_view("\1", 1));
    return finish((hash ^ static_cast<std::uint32_t>(partition)) * kPrime);
}

Lane
key_lane(std::string_view topic, std::string_view key) noexcept
{
    return finish(add(add(add(kOffset, topic), std::string_view("\0", 1)), key));
}

} // namespace outbox
