#include "bgworker/engine/stream/trouble.h"

#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

class SetClock final : public Clock
{
public:
    Time time_of_day() noexcept override { return now.us; }
    Steady steady() noexcept override { return now; }
    std::uint64_t random() noexcept override { return 0; }

    Steady now = {1000000};
};

constexpr long kLongestMs = 400;

Failure
asks_for(int ms)
{
    Failure failure;
    set_failure(failure, FailureClass::retriable, "BUSY", "busy");
    failure.retry_after_ms = ms;
    return failure;
}

struct TroubleTest : testing::Test
{
    TroubleTest()
    {
        FailurePolicy policy;
        policy.backoff_initial_ms = 100;
        policy.backoff_max_ms = kLongestMs;
        trouble.configure(policy);
    }
    void pass(long ms) { clock.now = plus_ms(clock.now, ms); }
    long left() { return trouble.ms_until_attempt(clock.now); }

    SetClock clock;
    Trouble trouble{clock};
};

// The engine would count a failed attempt in each of its rounds, and show a time that never comes.
TEST_F(TroubleTest, WhatTheDestinationAsksForIsWaitedForHoweverLong)
{
    for (const int asked : {1, 399, 401, 60001, 3600000, 1 << 30})
    {
        trouble.fail(asks_for(asked));
        EXPECT_EQ(left(), asked);
        pass(asked - 1);
        EXPECT_FALSE(trouble.may_attempt(clock.now)) << asked;
        pass(1);
        EXPECT_TRUE(trouble.may_attempt(clock.now)) << asked;
    }
}

TEST_F(TroubleTest, WhatWasAskedForHoldsForOneAttempt)
{
    trouble.fail(asks_for(3600000));
    pass(3600000);
    trouble.fail_again();
    EXPECT_GE(left(), 1);
    EXPECT_LE(left(), kLongestMs);
}

TEST_F(TroubleTest, APauseEndsWhenTheLongestWasMadeShorter)
{
    trouble.fail(asks_for(-1));
    trouble.fail(asks_for(-1));
    trouble.fail(asks_for(-1));
    EXPECT_GT(left(), 100);
    FailurePolicy policy;
    policy.backoff_initial_ms = 10;
    policy.backoff_max_ms = 50;
    trouble.configure(policy);
    EXPECT_EQ(left(), 0);
}

} // namespace

} // namespace outbox::test
