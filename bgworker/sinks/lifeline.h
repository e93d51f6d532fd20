// Ends a connection over which a thread is held up in a library, from another thread.
#pragma once

#include "extension/core/steady.h"

#include <atomic>
#include <cstdint>
#include <fcntl.h>
#include <mutex>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace outbox
{

// A library that waits for the end of what a server has begun, or that reads as long as something
// comes, may never return. Its thread says when it goes there; another one looks now and then.
class Lifeline
{
public:
    // While the thread may be held up. One within another changes nothing.
    class Held
    {
    public:
        explicit Held(Lifeline &line) noexcept : line_(line), is_outer_(line.since_ == 0)
        {
            if (is_outer_)
                line_.since_ = steady_now();
        }
        ~Held()
        {
            if (is_outer_)
                line_.since_ = 0;
        }
        Held(const Held &) = delete;
        Held &operator=(const Held &) = delete;

    private:
        Lifeline &line_;
        const bool is_outer_;
    };

    Lifeline() = default;
    ~Lifeline() { forget(); }
    Lifeline(const Lifeline &) = delete;
    Lifeline &operator=(const Lifeline &) = delete;

    // The connection's descriptor, which the library may close at any time: a copy is kept.
    void watch(int descriptor) noexcept
    {
        forget();
        const std::lock_guard<std::mutex> lock(mutex_);
        copy_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0); // without one it cannot be cut
    }
    // It is closed, or will be.
    void forget() noexcept
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const int copy = std::exchange(copy_, -1);
        if (copy >= 0)
            (void) ::close(copy);
    }

    void cut() noexcept
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (copy_ >= 0)
            (void) ::shutdown(copy_, SHUT_RDWR);
    }
    // If the thread has been held up for so long; again after `again_us` at the soonest. Only one
    // thread may call it.
    bool cut_if_held(std::int64_t limit_us, std::int64_t again_us) noexcept
    {
        const std::int64_t since = since_;
        const std::int64_t now = steady_now();
        if (since == 0 || now - since < limit_us || now - cut_at_ < again_us)
            return false;
        cut_at_ = now;
        cut();
        return true;
    }

private:
    std::atomic<std::int64_t> since_{0};
    std::int64_t cut_at_ = 0;
    std::mutex mutex_;
    int copy_ = -1;
};

} // namespace outbox
