// When the position is written.
#pragma once

#include "bgworker/engine/source.h"

namespace outbox
{

// What is acknowledged and not saved is published again after a crash. A position that only skips
// transactions without events is worth no write, except one without an open window: it says of
// whole partitions of the ring that they are published. One that skips events of other
// subscriptions is, once a second: the ring keeps them until then.
class Saving
{
public:
    Saving(Source &source, Clock &clock) noexcept : source_(source), clock_(clock) {}

    void start(const StoredPosition &stored, bool window_open) noexcept
    {
        published_before_ = stored.published_total;
        saved_open_ = window_open;
    }

    // How far publishing is.
    struct Reached
    {
        std::uint64_t prefix;      // acknowledged in order
        std::uint64_t redelivered; // published besides
        std::int64_t published;    // by this process
        bool caught_up;            // nothing is left
    };
    // Whether more was acknowledged than the position in the table says.
    bool is_behind(const Reached &reached) const noexcept
    {
        return reached.prefix != saved_prefix_ || reached.redelivered != saved_redelivered_;
    }
    // Events acknowledged in order that the position in the table does not have.
    std::uint64_t unsaved(const Reached &reached) const noexcept
    {
        return reached.prefix - saved_prefix_;
    }
    // Writes the position when it is due. Sets *wait_ms to when it will be, -1: not before
    // something happens. A DatabaseError leaves this as it is.
    SaveResult save_if_due(const Progress &progress, const Reached &reached, bool at_once,
                           long *wait_ms);
    // Notes that the saved position is reached, at most once a second. It serves published_at and
    // retention; the position must not wait for it.
    void tick_if_due(const Progress &progress);

private:
    Source &source_;
    Clock &clock_;
    std::int64_t published_before_ = 0; // by earlier relays
    std::uint64_t saved_prefix_ = 0;
    std::uint64_t saved_redelivered_ = 0;
    std::uint64_t saved_skipped_ = 0;
    bool saved_open_ = false; // with a window under way
    Steady saved_at_;
    std::int64_t usual_ms_ = 0; // that writing it takes: the shorter one of the last two
    std::int64_t took_before_ms_ = 0;
    Steady tick_at_;
    bool tick_due_ = false;
};

} // namespace outbox
