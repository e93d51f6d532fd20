// Ends connections over which libcurl does not come to an end.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace outbox::http
{

// libcurl reads HTTP/2 as long as something comes, so one call lasts as long as an endpoint sends
// frames that mean nothing, if that is fast enough: no time-out counts meanwhile, and nobody can
// stop the relay. A timer of the thread's own work interrupts it then, and the connections end.
class Cutter
{
public:
    Cutter() noexcept;
    Cutter(const Cutter &) = delete;
    Cutter &operator=(const Cutter &) = delete;

    // A connection of libcurl's, until it is closed. More than there is room for are never cut.
    void add(int fd) noexcept;
    void remove(int fd) noexcept;

    // While the thread is in libcurl. One at a time.
    class Watch
    {
    public:
        explicit Watch(Cutter &cutter) noexcept;
        ~Watch();
        Watch(const Watch &) = delete;
        Watch &operator=(const Watch &) = delete;
        bool was_cut() const noexcept { return cutter_.was_cut_ != 0; }

    private:
        Cutter &cutter_;
    };
    // The call has done something that takes its time: the time begins anew.
    static void begin_anew() noexcept;

private:
    static void interrupted(int) noexcept;

    std::array<std::atomic<int>, 512> fds_; // -1: free
    volatile std::sig_atomic_t was_cut_ = 0;
};

} // namespace outbox::http
