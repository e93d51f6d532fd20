// The window of events that is being handed over.
#pragma once

#include "bgworker/engine/source.h"

namespace outbox
{

// A window is what one snapshot sees and the one before it did not.
//
//     closed ── open(): something new is seen ──▶ open, to be scanned ── scan() ──▶ open, with keys
//        ▲                                                 ▲                              │
//        │                                                 └──── a large one: more ───────┤
//        └──────────────────────── close(): no key is left ───────────────────────────────┘
class Window
{
public:
    Window(); // throws std::bad_alloc

    // Continues in the window that the position is in.
    void start(const Position &position, Progress &progress);

    // In a step. Returns false when nothing new is seen.
    bool open(Source &source, Progress &progress);
    // In a step. Returns false when the process is asked to end.
    bool scan(Source &source);
    void close(Progress &progress) noexcept;

    bool is_open() const noexcept { return open_; }
    bool needs_scan() const noexcept { return open_ && keys_.need_scan(); }
    // The next key; null: none is left, of what was scanned.
    const EventKey *next() const noexcept { return open_ ? keys_.next() : nullptr; }
    void drop_next() noexcept { keys_.drop_next(); }
    bool is_through() const noexcept { return keys_.next() == nullptr && !keys_.need_scan(); }
    std::size_t remaining() const noexcept { return keys_.remaining(); }

    // How many snapshots were taken by this process.
    int looks() const noexcept { return looks_; }

private:
    WindowKeys keys_;
    XidSnapshot read_up_to_; // end of the last one that was opened
    bool open_ = false;
    int looks_ = 0;
};

} // namespace outbox
