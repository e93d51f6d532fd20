// librdkafka's topic objects, by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

struct rd_kafka_s;
struct rd_kafka_topic_s;

namespace outbox::kafka
{

// Keeps a bounded number of topic objects. Producing through an object instead of a name makes
// librdkafka ask for the topic's partitions at once; by name, the first record of a topic waits up
// to a second (librdkafka issue 5032).
class TopicHandles
{
public:
    TopicHandles() = default;
    ~TopicHandles() { clear(); }
    TopicHandles(const TopicHandles &) = delete;
    TopicHandles &operator=(const TopicHandles &) = delete;

    // Returns the object of a topic, made when first used; nullptr when librdkafka refuses the
    // name. It stays valid until the next call. May throw std::bad_alloc.
    rd_kafka_topic_s *get(rd_kafka_s *client, std::string_view name);

    // Asks Kafka anew what it knows of the topic, without waiting, at most once a second a topic.
    // librdkafka fails records of a missing topic at once and would look again only minutes later.
    void ask_again(rd_kafka_s *client, std::string_view name) noexcept;

    // Gives all objects back; must come before the client is destroyed.
    void clear() noexcept;

private:
    struct Handle
    {
        rd_kafka_topic_s *topic;
        std::int64_t asked_ms;
    };
    // The keys are the names inside the topic objects.
    std::unordered_map<std::string_view, Handle> handles_;
};

} // namespace outbox::kafka
