// What waits to be sent: in order for each topic and key, and side by side for others.
#pragma once

#include "bgworker/engine/common/backoff.h"

#include "message.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
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
    // Counts trouble that may be the event's own. `blames`: how often others were served between
    // two of them; `served_before`: how many at the last one.
    Backoff backoff;
    int blames = 0;
    std::uint64_t served_before = 0;
};

using Queue = std::deque<std::unique_ptr<Pending>>;

// The first of its queue is the one that is sent, and stays there until its fate is known.
struct Lane
{
    std::string name;
    Queue queue;
    std::int64_t due_us = 0; // while it waits for a time

    Pending &first() const { return *queue.front(); }
};

// A lane is ready, waits for a time, or is out: taken by whoever sends its first one. It lasts
// until its queue is empty. Functions that add may throw std::bad_alloc, and have done nothing
// then.
class Lanes
{
public:
    void add(std::string_view topic, std::string_view key, std::unique_ptr<Pending> pending);

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

    std::size_t count() const noexcept { return count_; }
    std::size_t bytes() const noexcept { return bytes_; }

private:
    std::unordered_map<std::string, std::unique_ptr<Lane>> all_;
    std::deque<Lane *> ready_;
    std::set<std::pair<std::int64_t, Lane *>> waiting_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

} // namespace outbox::http
