// What waits to be sent: in order for each topic and key, and side by side for others.
#pragma once

#include "bgworker/engine/common/backoff.h"

#include "message.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace outbox::http
{

struct Pending
{
    std::uint64_t tag = 0;
    std::size_t bytes = 0; // as the engine counts them
    Message message;
    std::int64_t begun_us = 0; // its first attempt; 0: there was none
    // Counts trouble that may be the event's own. `blames`: how often others were served between
    // two of them; `served_before`: how many at the last one.
    Backoff backoff;
    int blames = 0;
    std::uint64_t served_before = 0;
};

using Queue = std::list<Pending>;

// The first of its queue is the one that is sent, and stays there until its fate is known.
struct Lane
{
    const std::string *name = nullptr;
    Queue queue;
    std::int64_t due_us = 0; // while it waits for a time

    const Pending &first() const { return queue.front(); }
    Pending &first() { return queue.front(); }
};

// A lane is ready, waits for a time, or is out: taken by whoever sends its first one. It lasts
// until its queue is empty. Functions that add may throw std::bad_alloc, and have done nothing
// then.
class Lanes
{
public:
    // What is added is the only one of `queue`.
    void add(std::string_view topic, std::string_view key, Queue queue);

    bool has_ready() const noexcept { return !ready_.empty(); }
    // The lane that has been ready for longest is out from then on; null: none is ready.
    Lane *take() noexcept;
    // A lane that is out is ready again, as the first of all.
    void put_first(Lane &lane);
    // It waits until then.
    void put_off(Lane &lane, std::int64_t due_us);
    // What it held is settled: the next one is ready, or the lane ends.
    void settle_first(Lane &lane);
    // The lane ends; what it held is the caller's.
    Queue end(Lane &lane) noexcept;
    // All lanes end, those that are out too.
    Queue end_all();

    // Those whose time has come are ready; or all that wait.
    void wake(std::int64_t now_us);
    void wake_all();
    // 0: none waits.
    std::int64_t next_due() const noexcept
    {
        return waiting_.empty() ? 0 : waiting_.begin()->first;
    }

    // f(lane) for those that wait for a time.
    template <typename F> void visit_waiting(F f) const
    {
        for (const auto &item : waiting_)
            f(static_cast<const Lane &>(*item.second));
    }

    std::size_t count() const noexcept { return count_; }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    std::unordered_map<std::string, Lane> all_;
    std::deque<Lane *> ready_;
    std::set<std::pair<std::int64_t, Lane *>> waiting_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

} // namespace outbox::http
