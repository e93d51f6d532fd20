// How much of a processor an endpoint may take.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outbox::http
{

// An endpoint may send what is neither header nor body, as much as the network carries: extensions
// of chunks, frames of HTTP/2 without a content, renegotiations. libcurl reads it all and says
// nothing of it. So what is counted is the time that the thread has worked. Each request may cost
// some; without any it is a fifth of what passes.
class Effort
{
public:
    explicit Effort(std::int64_t now_us) noexcept : since_us_(now_us) {}

    // A request with so large a body begins.
    void add_request(std::size_t body) noexcept;
    // The thread has worked for so long.
    void take(std::int64_t worked_us) noexcept { left_us_ -= worked_us; }
    // Until when it has to rest; 0: it has not.
    std::int64_t rest_until(std::int64_t now_us) noexcept;

private:
    static constexpr std::int64_t kMostUs = 500000; // at once

    std::int64_t left_us_ = kMostUs;
    std::int64_t since_us_;
};

// What the calling thread has worked in all.
std::int64_t worked_us() noexcept;

} // namespace outbox::http
