#include "topic_handles.h"

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <string>

namespace outbox::kafka
{

namespace
{

constexpr std::size_t kMaxHandles = 4096;
constexpr std::int64_t kAskEveryMs = 1000;

std::int64_t
now_ms() noexcept
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

} // namespace

rd_kafka_topic_t *
TopicHandles::get(rd_kafka_t *client, std::string_view name)
{
    const auto found = handles_.find(name);
    if (found != handles_.end())
        return found->second.topic;

    if (handles_.size() >= kMaxHandles)
    {
        rd_kafka_topic_t *victim = handles_.begin()->second.topic;
        handles_.erase(handles_.begin());
        rd_kafka_topic_destroy(victim);
    }
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, std::string(name).c_str(), nullptr);
    if (topic == nullptr)
        return nullptr;
    try
    {
        handles_.emplace(rd_kafka_topic_name(topic), Handle{topic, now_ms()});
    }
    catch (...)
    {
        rd_kafka_topic_destroy(topic);
        throw;
    }
    return topic;
}

void
TopicHandles::ask_again(rd_kafka_t *client, std::string_view name) noexcept
{
    const auto found = handles_.find(name);
    if (found == handles_.end())
        return;
    Handle &handle = found->second;
    const std::int64_t now = now_ms();
    if (now - handle.asked_ms < kAskEveryMs)
        return;
    handle.asked_ms = now;

    // With no time to wait the request is only sent; the answer updates the topic when it comes.
    const struct rd_kafka_metadata *metadata = nullptr;
    if (rd_kafka_metadata(client, 0, handle.topic, &metadata, 0) == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
}

void
TopicHandles::clear() noexcept
{
    for (const auto &[name, handle] : handles_)
        rd_kafka_topic_destroy(handle.topic);
    handles_.clear();
}

} // namespace outbox::kafka
