#include "lanes.h"

namespace outbox
{

namespace
{

// In the lowest two bits of a lane, so that lanes go out in no order of kinds.
enum Kind : std::uint64_t
{
    kKey = 1,
    kPartition = 2,
    kTopic = 3
};
constexpr int kKindBits = 2;

// No client of Kafka's knows as many of a topic.
constexpr std::uint64_t kPartitions = 1 << 20;
// Partitions of a topic lie far apart (the golden ratio), and can be told from their lanes.
constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15U;
constexpr std::uint64_t kGather = 0xf1de83e19937733dU;
static_assert(kSpread * kGather == 1);

SipKey secret;

Lane
make(std::uint64_t hash, Kind kind) noexcept
{
    return hash << kKindBits | kind;
}

bool
is(Lane lane, Kind kind) noexcept
{
    constexpr std::uint64_t kMask = (1 << kKindBits) - 1;
    return (lane & kMask) == kind;
}

std::uint64_t
hash_topic(std::string_view topic) noexcept
{
    return SipHash(secret).finish(topic);
}

Lane
key_lane(std::uint64_t topic, std::string_view key) noexcept
{
    SipHash hash(secret);
    hash.add(topic);
    return make(hash.finish(key), kKey);
}

bool
is_partition_of(std::uint64_t topic, Lane lane) noexcept
{
    constexpr std::uint64_t kMask = ~std::uint64_t{0} >> kKindBits;
    return is(lane, kPartition) && (((lane >> kKindBits) - topic) * kGather & kMask) < kPartitions;
}

// The lanes of 0.2: FNV-1a, 64 bit (Fowler, Noll, Vo), with the finalizer of MurmurHash3.
namespace before
{

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
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    return hash ^ (hash >> 33);
}

Lane
topic_lane(std::string_view topic) noexcept
{
    return finish(add(kOffset, topic));
}

Lane
key_lane(std::string_view topic, std::string_view key) noexcept
{
    return finish(add(add(add(kOffset, topic), std::string_view("\0", 1)), key));
}

} // namespace before

} // namespace

void
set_lane_key(const SipKey &key) noexcept
{
    secret = key;
}

Lane
topic_lane(std::string_view topic) noexcept
{
    return make(hash_topic(topic), kTopic);
}

Lane
partition_lane(Lane topic, std::int32_t partition) noexcept
{
    return make((topic >> kKindBits) + static_cast<std::uint32_t>(partition) * kSpread, kPartition);
}

Lane
key_lane(std::string_view topic, std::string_view key) noexcept
{
    return key_lane(hash_topic(topic), key);
}

Lane
present_lane(Lane stored, std::string_view topic, std::string_view key) noexcept
{
    const std::uint64_t hash = hash_topic(topic);
    const Lane keys = key_lane(hash, key);
    if (stored == keys || is_partition_of(hash, stored))
        return stored;
    const bool topics = stored == before::topic_lane(topic) ||
                        (is(stored, kTopic) && stored != before::key_lane(topic, key));
    return topics ? make(hash, kTopic) : keys;
}

} // namespace outbox
