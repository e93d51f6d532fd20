// Looks the endpoint's name up without keeping anybody waiting.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace outbox::http
{

// The descriptors that wake the sinks of a destination, one of each use. They stay open as long as
// a thread may write to them.
class WakeUps
{
public:
    WakeUps() = default;
    ~WakeUps();
    WakeUps(const WakeUps &) = delete;
    WakeUps &operator=(const WakeUps &) = delete;

    bool open() noexcept;
    int fd(std::size_t use) const noexcept { return fds_[use]; }
    // A sink of the use is there from now on, or has ended.
    void add_sink(std::size_t use) noexcept;
    void remove_sink(std::size_t use) noexcept;
    // Also from a thread. A use without a sink is left alone: nobody would take that back, and
    // whoever waits for its descriptor would not sleep any more.
    void wake_all() noexcept;

private:
    std::mutex mutex_;
    std::array<int, 3> sinks_ = {};
    std::array<int, 3> fds_ = {-1, -1, -1};
};

// libcurl would start a thread for each request that has to look a name up, with signals that it
// does not block, and wait for it when the request is given up. Here one thread at most asks the
// system's resolver, and libcurl is told the answer.
class Resolver
{
public:
    enum class State : unsigned char
    {
        known,
        asking,
        failed,
    };

    Resolver(std::string host, int port, std::shared_ptr<WakeUps> wake_ups);
    ~Resolver();
    Resolver(const Resolver &) = delete;
    Resolver &operator=(const Resolver &) = delete;

    // Begins a look-up when nothing is known, or what is known is old; what is old stays in use
    // meanwhile. `failed` is said once, error() has the reason then. May throw std::bad_alloc.
    State look(std::int64_t now_us);
    // "host:port:address,address", as CURLOPT_RESOLVE wants it; empty for a host that is an
    // address.
    const std::string &addresses() const noexcept { return addresses_; }
    const std::string &error() const noexcept { return error_; }
    // What is known has led nowhere.
    void forget() noexcept { known_until_us_ = 0; }

private:
    struct LookUp;

    bool begin(std::int64_t now_us);
    bool take(std::int64_t now_us);
    State failed(std::int64_t now_us) noexcept;
    // Old addresses do until there are new ones; those that led nowhere were forgotten.
    bool is_known() const noexcept { return known_until_us_ > 0; }

    const std::string host_;
    const int port_;
    const std::shared_ptr<WakeUps> wake_ups_;
    std::shared_ptr<LookUp> under_way_;
    std::int64_t asked_us_ = 0;
    bool literal_ = false;
    std::string addresses_;
    std::string error_;
    std::int64_t known_until_us_ = 0;
};

} // namespace outbox::http
