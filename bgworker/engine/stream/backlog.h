// How many committed events are not published.
#pragma once

#include "bgworker/engine/mutant.h"
#include "bgworker/engine/source.h"

namespace outbox
{

// They are those emitted since the server started, less base(); events that were set aside, or are
// there from before, included. They are counted anew with each window. While a window of the
// process before is gone through, its acknowledgements are added instead, as not all windows behind
// it are known. Rows of transactions that rolled back count until they are met.
//
//     going back ── open() ──▶ looking: not known ── looked() ──▶ known
//                                     ▲                             │
//                                     └────────── open() ───────────┘
class Backlog
{
public:
    void start(const StoredBacklog &stored) noexcept
    {
        counted_ = known_ = goes_back_ = stored.counted;
        base_before_ = stored.base;
    }

    // A window is opened; `mark` is the count of emitted events from before its snapshot.
    void open(std::uint64_t mark, bool empty) noexcept
    {
        mark_ = mark;
        goes_back_ = false;
        own_window_ = true;
        known_ = empty;
        counted_ = counted_ || empty;
    }
    void look() noexcept { known_ = false; }
    // All of the window is known.
    void looked() noexcept
    {
        known_ = true;
        counted_ = counted_ || own_window_;
    }

    // `acknowledged` since the start of the process; of the window `remaining` events are not
    // handed over, and of what was `behind` are not acknowledged in order.
    std::uint64_t base(std::uint64_t acknowledged, std::size_t remaining,
                       std::size_t behind) const noexcept
    {
        if (goes_back_)
            return base_before_ + acknowledged;
        return mark_ - remaining - (OUTBOX_MUTANT(shows_less_waiting) ? 0 : behind);
    }
    bool is_known() const noexcept { return known_; }
    // Whether what was there before the server started is included.
    bool is_counted() const noexcept { return counted_; }

private:
    std::uint64_t mark_ = 0;
    std::uint64_t base_before_ = 0;
    bool goes_back_ = false;
    bool own_window_ = false; // one was opened by this process
    bool known_ = false;
    bool counted_ = false;
};

} // namespace outbox
