#include "lanes.h"

#include <algorithm>

namespace outbox::http
{

void
Lanes::add(std::string_view topic, std::string_view key, Queue queue)
{
    std::string name;
    name.reserve(topic.size() + key.size() + 1);
    name.append(topic).append(1, '\0').append(key);
    const std::size_t bytes = queue.front().bytes;
    const auto [found, is_new] = all_.try_emplace(std::move(name));
    Lane &lane = found->second;
    if (is_new)
    {
        lane.name = &found->first;
        try
        {
            ready_.push_back(&lane);
        }
        catch (...)
        {
            all_.erase(found);
            throw;
        }
    }
    lane.queue.splice(lane.queue.end(), queue);
    count_++;
    bytes_ += bytes;
}

Lane *
Lanes::take() noexcept
{
    if (ready_.empty())
        return nullptr;
    Lane *lane = ready_.front();
    ready_.pop_front();
    return lane;
}

void
Lanes::put_first(Lane &lane)
{
    ready_.push_front(&lane);
}

void
Lanes::put_off(Lane &lane, std::int64_t due_us)
{
    lane.due_us = due_us;
    waiting_.emplace(due_us, &lane);
}

void
Lanes::settle_first(Lane &lane)
{
    if (lane.queue.size() == 1)
    {
        (void) end(lane);
        return;
    }
    ready_.push_back(&lane);
    count_--;
    bytes_ -= lane.first().bytes;
    lane.queue.pop_front();
}

Queue
Lanes::end(Lane &lane) noexcept
{
    Queue queue;
    queue.swap(lane.queue);
    count_ -= queue.size();
    for (const Pending &pending : queue)
        bytes_ -= pending.bytes;
    all_.erase(all_.find(*lane.name));
    return queue;
}

Queue
Lanes::end_all()
{
    Queue all;
    for (auto &[name, lane] : all_)
        all.splice(all.end(), lane.queue);
    ready_.clear();
    waiting_.clear();
    all_.clear();
    count_ = 0;
    bytes_ = 0;
    return all;
}

void
Lanes::wake(std::int64_t now_us)
{
    while (!waiting_.empty() && waiting_.begin()->first <= now_us)
    {
        ready_.push_back(waiting_.begin()->second);
        waiting_.erase(waiting_.begin());
    }
}

void
Lanes::wake_all()
{
    while (!waiting_.empty())
    {
        ready_.push_back(waiting_.begin()->second);
        waiting_.erase(waiting_.begin());
    }
}

} // namespace outbox::http
