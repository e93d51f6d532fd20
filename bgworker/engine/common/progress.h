// What is acknowledged, and which position that makes.
#pragma once

#include "xid_snapshot.h"

#include "bgworker/engine/clock.h"
#include "bgworker/engine/mutant.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace outbox
{

// How far publishing has got: every event visible in `from` is published, and of those visible only
// in `to`, the ones with a seq up to `last_seq`.
struct Position
{
    XidSnapshot from;
    XidSnapshot to;
    std::int64_t last_seq = 0;

    bool operator==(const Position &other) const noexcept
    {
        return from == other.from && to == other.to && last_seq == other.last_seq;
    }
};

// What the caller wants back with an event's acknowledgement.
struct Memo
{
    Steady sent_at;
    std::uint32_t bytes = 0; // of the record
    std::uint16_t topic = 0; // its number
    bool queued = false;     // it is in the producer's queue
    std::uint64_t lane = 0;  // of the partition that it was queued for last; 0: it never was
    std::uint64_t whole = 0; // of that's topic
};

struct Acknowledged
{
    std::int64_t created_at = 0;
    Memo memo;
};

// The events in flight between the relay and Kafka, in the order they were handed over, and the
// windows they come from. Acknowledgements arrive in any order; only the prefix without a gap
// becomes position. Bounded: the ring's size is fixed when it is made.
class Progress
{
public:
    // Allocates everything it will need for events. Throws std::bad_alloc.
    explicit Progress(std::size_t max_events);

    // Forgets all events and windows; publishing continues from `position`.
    void reset(const Position &position);

    // The events handed over from now on are those of the window between the end of the window
    // before and `to`. Throws std::bad_alloc, and then nothing has changed.
    void open_window(const XidSnapshot &to);

    // No further events come from the open window.
    void close_window() noexcept;

    // Whether an event of this size may be handed over: neither bound is passed, or it is alone.
    bool has_room(std::size_t bytes, std::size_t max_bytes) const noexcept;

    // Whether a quarter of both bounds is free again: once there was no room, to go on for each
    // single event would cost a transaction for each.
    bool has_ample_room(std::size_t max_bytes) const noexcept;

    // Notes an event that goes to Kafka next, and returns its tag. Needs has_room(). Locator and
    // transaction id are the caller's, for find(), and so is the memo, for acknowledge().
    std::uint64_t add(std::int64_t seq, std::size_t bytes, std::int64_t created_at,
                      std::uint64_t locator = 0, const Memo &memo = {},
                      std::uint64_t xid = 0) noexcept;

    struct InFlight
    {
        std::int64_t seq;
        std::uint64_t locator;
        std::uint64_t xid;
        Memo memo;
    };

    // Returns false for a tag that is not in flight, or being set aside.
    bool find(std::uint64_t tag, InFlight &event) const noexcept;

    // Takes back the event that add() noted last: it was not handed over after all.
    void remove_last() noexcept;

    // Notes an acknowledgement. Returns false for a tag that is not in flight: it was acknowledged
    // before, or belongs to the time before reset(). An event that was set aside instead of
    // published counts as done too. Tells of it in *event, if given. `time` takes the place of
    // that when it was sent.
    bool acknowledge(std::uint64_t tag, bool published = true, Acknowledged *event = nullptr,
                     Steady time = {}) noexcept;

    // Notes that an event in flight is set aside in the step under way. It counts as acknowledged,
    // not as published, when that has ended: settle_aside(), which returns whether there was any.
    // What a step has not kept is as it was.
    void set_aside(std::uint64_t tag) noexcept;
    bool settle_aside() noexcept;
    // It was rolled back: they are in flight again.
    void drop_aside() noexcept;

    // Notes that an event in flight was handed over, and where it goes; or that it is not any more.
    void set_sent(std::uint64_t tag, Steady time, std::uint64_t lane,
                  std::uint64_t whole = 0) noexcept;
    void set_unsent(std::uint64_t tag, Steady time) noexcept;

    // As described at Position. Valid until the next call that is not const.
    Position position() const;

    // Events handed over and not acknowledged, and the bytes they take.
    std::size_t in_flight() const noexcept { return in_flight_; }
    std::size_t in_flight_bytes() const noexcept { return bytes_; }

    // Events acknowledged since the beginning, all of the prefix, and those of them that were
    // published.
    std::uint64_t acknowledged_prefix() const noexcept { return head_ - forgotten_; }
    std::uint64_t published_prefix() const noexcept { return published_; }

    // Events that stand behind the prefix: in flight, or acknowledged out of order.
    std::size_t behind_prefix() const noexcept { return static_cast<std::size_t>(tail_ - head_); }

    // Tag of the first event behind the prefix, if there is one.
    std::uint64_t first_tag() const noexcept { return head_; }
    // The tag that the next event gets.
    std::uint64_t next_tag() const noexcept { return tail_; }

    // Calls visit(tag, memo, done) for every event behind the prefix: done if it is acknowledged,
    // or being set aside.
    template <class Visit> void visit(Visit &&visit) const
    {
        for (std::uint64_t tag = head_; tag < tail_; tag++)
            visit(tag, at(tag).memo, at(tag).acknowledged || at(tag).aside);
    }

    // Calls visit(memo) for those that were published.
    template <class Visit> void visit_published(Visit &&visit) const
    {
        for (std::uint64_t tag = head_; tag < tail_; tag++)
            if (at(tag).acknowledged && (at(tag).published || OUTBOX_MUTANT(takes_row_for_answer)))
                visit(at(tag).memo);
    }

    // When the oldest event behind the prefix was created; 0 when there is none.
    std::int64_t oldest_created_at() const noexcept;

    std::size_t windows() const noexcept { return windows_.size(); }

private:
    struct Event
    {
        std::int64_t seq;
        std::int64_t created_at;
        std::uint64_t locator;
        std::uint64_t xid;
        std::uint32_t bytes;
        bool acknowledged;
        bool published;
        bool aside; // in the step under way
        Memo memo;
    };

    struct Window
    {
        XidSnapshot to;
        std::uint64_t first; // tag of its first event, or of the next window's
        bool closed;
    };

    Event &at(std::uint64_t tag) noexcept { return ring_[tag % ring_.size()]; }
    const Event &at(std::uint64_t tag) const noexcept { return ring_[tag % ring_.size()]; }
    void advance() noexcept;
    void retire_windows() noexcept;

    std::vector<Event> ring_;
    std::vector<std::uint64_t> aside_; // tags
    std::uint64_t head_ = 0;           // first tag behind the prefix
    std::uint64_t tail_ = 0;           // tag of the next event
    std::uint64_t forgotten_ = 0;
    std::uint64_t published_ = 0;
    std::size_t in_flight_ = 0;
    std::size_t bytes_ = 0;

    XidSnapshot from_;           // beginning of windows_.front()
    std::deque<Window> windows_; // the last one may be open
    std::int64_t last_seq_ = 0;  // of the prefix, in windows_.front()
};

} // namespace outbox
