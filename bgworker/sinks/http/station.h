// What the sinks of one destination share.
#pragma once

#include "cutter.h"
#include "endpoint_state.h"
#include "resolver.h"
#include "setup.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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

    // Events of a socket that make the descriptor readable; none: it is not waited for. From
    // settle() on: libcurl stops to wait for a connection and begins again for each request, and
    // only what is another in the end costs a call of the kernel. False: there is no memory.
    bool want(int fd, std::uint32_t events) noexcept;
    // libcurl has a new socket.
    void add(int fd) noexcept { cutter.add(fd); }
    // It is being closed, and with that no part of the descriptor any more.
    void forget(int fd) noexcept;
    // Nothing is read from any socket, from settle() on, until it is taken back.
    void rest(bool on) noexcept;
    // To be called before anybody waits for the descriptor. False: the kernel has no room.
    bool settle() noexcept;

    Cutter cutter;

private:
    struct Socket
    {
        int fd;
        std::uint32_t wanted;
        std::uint32_t given;
    };

    int epoll_ = -1;
    int timer_ = -1;
    int wake_up_ = -1;
    std::int64_t armed_us_ = 0;
    std::vector<Socket> sockets_; // those that the kernel or libcurl knows of
    bool changed_ = false;
    bool resting_ = false;
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
    Signer signer;
    std::array<Wakes, kUses> wakes;

    // A sink of the use is there from now on, or has ended.
    void add_sink(std::size_t use) noexcept { wake_ups_->add_sink(use); }
    void remove_sink(std::size_t use) noexcept { wake_ups_->remove_sink(use); }

    // How many requests the use may begin: not all that is free, while another one waits that began
    // none since.
    int share(std::size_t use, std::int64_t now_us) noexcept;
    // It has something to send, and waits for others to end; or not.
    void wait(std::size_t use, bool waits) noexcept { waits_[use] = waits; }
    void note_begun(std::size_t use) noexcept { last_begun_ = use; }
    // There is room now for others that wait.
    void wake_others(std::size_t use) noexcept;

private:
    Station(const Setup &the_setup, std::shared_ptr<WakeUps> wake_ups);

    const std::shared_ptr<WakeUps> wake_ups_;
    std::array<bool, kUses> waits_ = {};
    std::size_t last_begun_ = kUses;
};

} // namespace outbox::http
