#include "topic_handles.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace outbox::kafka
{

namespace
{

constexpr std::size_t kMaxHandles = 4096;
constexpr std::int64_t kFirstPauseMs = 10;
constexpr std::int64_t kLastPauseMs = 640;

std::int64_t
now_ms() noexcept
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

void
ask(rd_kafka_t *client, rd_kafka_topic_t *topic) noexcept
{
    // With no time to wait for the answer the request is only sent.
    const struct rd_kafka_metadata *metadata = nullptr;
    if (rd_kafka_metadata(client, 0, topic, &metadata, 0) == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
}

} // namespace

void
TopicHandles::Deleter::operator()(rd_kafka_topic_t *topic) const noexcept
{
    rd_kafka_topic_destroy(topic);
}

rd_kafka_topic_t *
TopicHandles::get(rd_kafka_t *client, std::string_view name)
{
    const auto found = handles_.find(name);
    if (found != handles_.end())
        return found->second.get();

    make_room();
    Handle handle(rd_kafka_topic_new(client, std::string(name).c_str(), nullptr));
    rd_kafka_topic_t *topic = handle.get();
    if (topic == nullptr)
        return nullptr;
    new_topics_.reserve(new_topics_.size() + 1);
    handles_.emplace(rd_kafka_topic_name(topic), std::move(handle));
    new_topics_.push_back({topic, kFirstPauseMs, now_ms() + kFirstPauseMs});
    return topic;
}

void
TopicHandles::make_room() noexcept
{
    if (handles_.size() < kMaxHandles)
        return;
    forget_new(handles_.begin()->first);
    handles_.erase(handles_.begin());
}

void
TopicHandles::ask_for_new(rd_kafka_t *client) noexcept
{
    if (new_topics_.empty())
        return;
    const std::int64_t now = now_ms();
    for (NewTopic &item : new_topics_)
    {
        if (item.ask_at_ms > now)
            continue;
        ask(client, item.topic);
        item.pause_ms *= 2;
        item.ask_at_ms = now + item.pause_ms;
    }
    new_topics_.erase(std::remove_if(new_topics_.begin(), new_topics_.end(),
                                     [](const NewTopic &item)
                                     { return item.pause_ms > kLastPauseMs; }),
                      new_topics_.end());
}

int
TopicHandles::ms_until_ask() const noexcept
{
    if (new_topics_.empty())
        return -1;
    std::int64_t first = new_topics_[0].ask_at_ms;
    for (const NewTopic &item : new_topics_)
        first = std::min(first, item.ask_at_ms);
    return static_cast<int>(std::clamp<std::int64_t>(first - now_ms(), 0, kLastPauseMs));
}

void
TopicHandles::delivered(const rd_kafka_topic_t *topic) noexcept
{
    if (!new_topics_.empty())
        forget_new(rd_kafka_topic_name(topic));
}

void
TopicHandles::forget_new(std::string_view name) noexcept
{
    new_topics_.erase(std::remove_if(new_topics_.begin(), new_topics_.end(),
                                     [name](const NewTopic &item)
                                     { return name == rd_kafka_topic_name(item.topic); }),
                      new_topics_.end());
}

void
TopicHandles::clear() noexcept
{
    new_topics_.clear();
    handles_.clear();
}

} // namespace outbox::kafka
