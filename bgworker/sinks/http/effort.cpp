#include "effort.h"

#include <algorithm>
#include <ctime>

namespace outbox::http
{

namespace
{

constexpr std::int64_t kOneOf = 5; // parts of the time that passes
constexpr std::int64_t kRequestUs = 10000;
constexpr std::size_t kBytesOfUs = 64;

} // namespace

void
Effort::add_request(std::size_t body) noexcept
{
    const std::int64_t more = kRequestUs + static_cast<std::int64_t>(body / kBytesOfUs);
    left_us_ = std::min(left_us_ + more, std::max(kMostUs, more));
}

std::int64_t
Effort::rest_until(std::int64_t now_us) noexcept
{
    const std::int64_t passed = std::clamp<std::int64_t>(now_us - since_us_, 0, kMostUs * kOneOf);
    since_us_ = now_us - passed % kOneOf;
    left_us_ = std::min(left_us_ + passed / kOneOf, std::max(kMostUs, left_us_));
    return left_us_ >= 0 ? 0 : now_us - left_us_ * kOneOf;
}

std::int64_t
worked_us() noexcept
{
    timespec time = {};
    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1000000 + time.tv_nsec / 1000;
}

} // namespace outbox::http
