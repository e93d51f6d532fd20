// What the sinks of one destination share.
#pragma once

#include "endpoint_state.h"
#include "resolver.h"
#include "setup.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace outbox::http
{

std::int64_t steady_us() noexcept;

// The descriptor of one use, which stays the same for all its sinks: an epoll descriptor that holds
// a timer, the descriptor by which others wake it, and the sockets of libcurl.
class Wakes
{
public:
    Wakes() = default;
    ~Wakes();
    Wakes(const Wakes &) = delete;
    Wakes &operator=(const Wakes &) = delete;

    bool open(int wake_up) noexcept;
    int epoll() const noexcept { return epoll_; }
    int timer() const noexcept { return timer_; }
    int wake_up() const noexcept { return wake_up_; }
    // The epoll descriptor becomes readable then; 0: at no time.
    void arm(std::int64_t due_us) noexcept;
    // Takes back what made the timer or the wake-up readable.
    void reset(int fd) noexcept;

private:
    int epoll_ = -1;
    int timer_ = -1;
    int wake_up_ = -1;
    std::int64_t armed_us_ = 0;
};

// Requests of all uses together keep within the endpoint's limits.
class Station
{
public:
    static constexpr std::size_t kUses = 3;

    // Null: no descriptor is left. May throw std::bad_alloc.
    static std::unique_ptr<Station> make(const Setup &setup);

    const Setup &setup;
    EndpointState endpoint;
    Resolver resolver;
    std::array<Wakes, kUses> wakes;

    // How many requests the use may begin: not all that is free, while another one waits that began
    // none since.
    int share(std::size_t use, std::int64_t now_us) noexcept;
    // It has something to send, and waits for others to end; or not.
    void wait(std::size_t use, bool waits) noexcept { waits_[use] = waits; }
    void note_begun(std::size_t use) noexcept { last_begun_ = use; }
    // There is room now for others that wait.
    void wake_others(std::size_t use) noexcept;

private:
    Station(const Setup &the_setup, std::shared_ptr<const WakeUps> wake_ups);

    std::array<bool, kUses> waits_ = {};
    std::size_t last_begun_ = kUses;
};

} // namespace outbox::http
