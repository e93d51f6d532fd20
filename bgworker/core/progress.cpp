#include "progress.h"

#include <cassert>
#include <utility>

namespace outbox
{

Progress::Progress(std::size_t max_events) : ring_(max_events == 0 ? 1 : max_events) {}

void
Progress::reset(const Position &position)
{
    XidSnapshot from = position.from;
    std::deque<Window> windows;
    if (!(position.to == position.from))
        windows.push_back({position.to, tail_, false});
    from_ = std::move(from);
    windows_ = std::move(windows);
    last_seq_ = windows_.empty() ? 0 : position.last_seq;
    forgotten_ += tail_ - head_;
    head_ = tail_;
    in_flight_ = 0;
    bytes_ = 0;
}

void
Progress::open_window(const XidSnapshot &to)
{
    // A window without events is only a longer way to the next one.
    if (!windows_.empty() && windows_.back().closed && windows_.back().first == tail_)
    {
        XidSnapshot copy = to;
        windows_.back().to = std::move(copy);
        windows_.back().closed = false;
        return;
    }
    windows_.push_back({to, tail_, false});
}

void
Progress::close_window() noexcept
{
    assert(!windows_.empty());
    windows_.back().closed = true;
    retire_windows();
}

bool
Progress::has_room(std::size_t bytes, std::size_t max_bytes) const noexcept
{
    if (behind_prefix() == 0)
        return true;
    return behind_prefix() < ring_.size() && bytes_ + bytes <= max_bytes;
}

bool
Progress::has_ample_room(std::size_t max_bytes) const noexcept
{
    return behind_prefix() <= ring_.size() / 4 * 3 && bytes_ <= max_bytes / 4 * 3;
}

std::uint64_t
Progress::add(std::int64_t seq, std::size_t bytes, std::int64_t created_at, std::uint64_t locator,
              const Memo &memo, std::uint64_t xid) noexcept
{
    assert(behind_prefix() < ring_.size());
    assert(!windows_.empty() && !windows_.back().closed);
    at(tail_) = {seq,   created_at, locator, xid, static_cast<std::uint32_t>(bytes),
                 false, false,      memo};
    in_flight_++;
    bytes_ += bytes;
    return tail_++;
}

void
Progress::remove_last() noexcept
{
    assert(tail_ > head_ && !at(tail_ - 1).acknowledged);
    tail_--;
    in_flight_--;
    bytes_ -= at(tail_).bytes;
}

bool
Progress::find(std::uint64_t tag, InFlight &event) const noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged)
        return false;
    event = {at(tag).seq, at(tag).locator, at(tag).xid, static_cast<std::size_t>(tag - head_) + 1};
    return true;
}

bool
Progress::acknowledge(std::uint64_t tag, bool published, Acknowledged *event) noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged)
        return false;
    if (event != nullptr)
        *event = {at(tag).created_at, at(tag).memo};
    at(tag).acknowledged = true;
    at(tag).published = published;
    in_flight_--;
    bytes_ -= at(tag).bytes;
    if (tag == head_)
        advance();
    return true;
}

void
Progress::advance() noexcept
{
    while (head_ < tail_ && at(head_).acknowledged)
    {
        // The first window ends where the second begins.
        while (windows_.size() > 1 && windows_[1].first <= head_)
            retire_windows();
        last_seq_ = at(head_).seq;
        published_ += at(head_).published ? 1 : 0;
        head_++;
    }
    retire_windows();
}

// Drops windows of which everything is acknowledged.
void
Progress::retire_windows() noexcept
{
    while (!windows_.empty() && windows_.front().closed)
    {
        const std::uint64_t end = windows_.size() > 1 ? windows_[1].first : tail_;
        if (head_ < end)
            return;
        from_ = std::move(windows_.front().to);
        windows_.pop_front();
        last_seq_ = 0;
    }
}

Position
Progress::position() const
{
    if (windows_.empty())
        return {from_, from_, 0};
    return {from_, windows_.front().to, last_seq_};
}

std::int64_t
Progress::oldest_created_at() const noexcept
{
    return head_ == tail_ ? 0 : at(head_).created_at;
}

} // namespace outbox
