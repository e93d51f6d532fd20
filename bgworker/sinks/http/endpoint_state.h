// How the endpoint fares, for all that is sent to it: the sinks of a destination share one.
#pragma once

#include "bgworker/engine/common/backoff.h"
#include "bgworker/engine/common/token_bucket.h"

#include "answer.h"

#include <cstdint>

namespace outbox::http
{

struct EndpointLimits
{
    std::int64_t backoff_initial_ms = 500;
    std::int64_t backoff_max_ms = 60000;
    int requests = 64;
    std::int64_t rate = 0; // a second; 0: any
};

// While nothing is known of the endpoint, or it was in trouble last, one request at a time goes
// out; with each that is answered one more may be under way. Times are microseconds of the steady
// clock.
class EndpointState
{
public:
    // Retry-After is not followed for longer.
    static constexpr std::int64_t kLongestHoldMs = std::int64_t{60} * 60 * 1000;

    EndpointState(const EndpointLimits &limits, std::int64_t now_us) noexcept;

    // How many requests may begin now.
    int may_start(std::int64_t now_us) noexcept;
    // When time alone lets the next one begin; 0: it may now, or waits for an answer.
    std::int64_t due(std::int64_t now_us) noexcept;

    // A number that tells what was under way when trouble came from what began afterwards.
    std::uint64_t started() noexcept;
    void ended() noexcept { running_--; }

    // An answer that is no trouble. Returns true when only one request at a time went out before.
    bool answered(bool delivered) noexcept;
    // No connection. Returns after how many ms the next request may begin; -1: it is old news.
    std::int64_t unreachable(std::uint64_t started, std::int64_t now_us,
                             std::uint64_t random) noexcept;
    // The endpoint asks all to wait, for this long if it says so; else -1.
    std::int64_t busy(std::uint64_t started, std::int64_t asked_ms, std::int64_t now_us,
                      std::uint64_t random) noexcept;
    // Trouble that may be the event's: `first` says whether it is the first one of this event in a
    // row. One event alone does not stop others.
    std::int64_t trouble(std::uint64_t started, bool first, std::int64_t now_us,
                         std::uint64_t random) noexcept;

    // Deliveries so far: whoever failed looks whether others were served meanwhile.
    std::uint64_t served() const noexcept { return served_; }
    // Whether more of the last answers were good than were trouble.
    bool mostly_well() const noexcept { return well_ >= ill_; }
    bool last_answered() const noexcept { return last_answered_; }

    // Nothing begins while it is closed.
    void close(bool closed) noexcept { closed_ = closed; }

private:
    // So many events in a row, each for the first time, and it is the endpoint.
    static constexpr int kTroubles = 4;

    std::int64_t pause(std::int64_t ms, std::int64_t now_us) noexcept;
    void note(int &counter) noexcept;

    const EndpointLimits limits_;
    Backoff backoff_;
    TokenBucket bucket_;
    bool away_ = true;
    bool closed_ = false;
    bool last_answered_ = true;
    int window_ = 1;
    int running_ = 0;
    int troubles_ = 0;
    int well_ = 0;
    int ill_ = 0;
    std::uint64_t served_ = 0;
    std::uint64_t epoch_ = 1;
    std::int64_t until_us_ = 0; // nothing begins before
};

} // namespace outbox::http
