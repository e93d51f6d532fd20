#include "extension/core/uuid7.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

namespace outbox::test
{

namespace
{

using Uuid = std::array<std::uint8_t, 16>;

constexpr std::int64_t kSomeTime = 1645557742000 * 1000000; // the time of RFC 9562's example
constexpr std::uint8_t kZeros[8] = {};
constexpr std::uint8_t kOnes[8] = {255, 255, 255, 255, 255, 255, 255, 255};

static_assert(std::is_trivially_destructible_v<Uuid7Generator>);
static_assert(std::is_trivially_copyable_v<Uuid7Generator>);

// The time inside a version 7 UUID, in milliseconds since 1970.
std::int64_t
uuid7_unix_ms(const std::uint8_t uuid[16])
{
    std::int64_t milliseconds = 0;
    for (int i = 0; i < 6; ++i)
        milliseconds = milliseconds << 8 | uuid[i];
    return milliseconds;
}

Uuid
next(Uuid7Generator &generator, std::int64_t time, const std::uint8_t random[8] = kZeros)
{
    Uuid uuid{};
    EXPECT_TRUE(generator.next(time, random, uuid.data()));
    return uuid;
}

TEST(Uuid7, HasTheLayoutOfTheRfc)
{
    // Appendix A.6: 017F22E2-79B0-7CC3-98C4-DC0C0C07398F; its rand_a 0xCC3 is a fraction of 0.7976
    // here.
    Uuid7Generator generator;
    const std::uint8_t random[8] = {0x18, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F};
    const std::int64_t fraction = (0xCC3 * std::int64_t{1000000} + 4095) / 4096;
    const Uuid expected = {0x01, 0x7F, 0x22, 0xE2, 0x79, 0xB0, 0x7C, 0xC3,
                           0x98, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F};
    EXPECT_EQ(next(generator, kSomeTime + fraction, random), expected);
    EXPECT_EQ(uuid7_unix_ms(expected.data()), 1645557742000);
}

TEST(Uuid7, SetsVersionAndVariantWhateverTheRandomBytes)
{
    Uuid7Generator generator;
    const Uuid ones = next(generator, kSomeTime, kOnes);
    const Uuid zeros = next(generator, kSomeTime, kZeros);
    EXPECT_EQ(ones[6] >> 4, 7);
    EXPECT_EQ(zeros[6] >> 4, 7);
    EXPECT_EQ(ones[8], 0xBF);
    EXPECT_EQ(zeros[8], 0x80);
}

TEST(Uuid7, IncreasesWhileTheClockStandsStill)
{
    Uuid7Generator generator;
    Uuid last = next(generator, kSomeTime, kOnes);
    for (int i = 0; i < 100000; ++i)
    {
        // Falling random parts: only the time part can keep the order.
        const Uuid uuid = next(generator, kSomeTime, kZeros);
        ASSERT_LT(last, uuid) << i;
        last = uuid;
        last[8] = 0xBF;
    }
}

TEST(Uuid7, IncreasesWhenTheClockStepsBack)
{
    Uuid7Generator generator;
    const Uuid before = next(generator, kSomeTime, kOnes);
    const Uuid after = next(generator, kSomeTime - std::int64_t{3600} * 1000000000, kZeros);
    EXPECT_LT(before, after);
    EXPECT_EQ(uuid7_unix_ms(after.data()), uuid7_unix_ms(before.data()));
}

TEST(Uuid7, FollowsTheClockWhenItMovesOn)
{
    Uuid7Generator generator;
    (void) next(generator, kSomeTime);
    const Uuid later = next(generator, kSomeTime + std::int64_t{5000} * 1000000);
    EXPECT_EQ(uuid7_unix_ms(later.data()), 1645557747000);
}

TEST(Uuid7, IncreasesUnderAnyClock)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::int64_t> step(-2000000, 2000000);
    Uuid7Generator generator;
    std::int64_t time = kSomeTime;
    Uuid last{};
    for (int i = 0; i < 100000; ++i)
    {
        time += step(random) / (std::int64_t{1} << (random() % 20));
        std::uint8_t bytes[8];
        const std::uint64_t bits = random();
        std::memcpy(bytes, &bits, sizeof bytes);
        const Uuid uuid = next(generator, time, bytes);
        ASSERT_LT(last, uuid) << i;
        last = uuid;
    }
}

TEST(Uuid7, TakesTheWholeRangeOfTheClock)
{
    Uuid7Generator generator;
    EXPECT_EQ(uuid7_unix_ms(next(generator, 0).data()), 0);
    const std::int64_t end = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(uuid7_unix_ms(next(generator, end).data()), end / 1000000);
}

TEST(Uuid7, RefusesATimeThatItCannotOrder)
{
    Uuid untouched{};
    Uuid7Generator generator;
    EXPECT_FALSE(generator.next(-1, kOnes, untouched.data()));
    (void) next(generator, std::numeric_limits<std::int64_t>::max());
    EXPECT_FALSE(generator.next(kSomeTime, kOnes, untouched.data()));
    EXPECT_EQ(untouched, Uuid{});
}

} // namespace

} // namespace outbox::test
