// librdkafka's topic objects, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

struct rd_kafka_s;
struct rd_kafka_topic_s;

namespace outbox::kafka
{

// Keeps a bounded number of topic objects, and makes librdkafka learn quickly what it needs to know
// of a topic. All questions to Kafka are only sent here; librdkafka reads the answers by itself.
class TopicHandles
{
public:
    // Returns the object of a topic, made when first used; nullptr when librdkafka refuses the
    // name. Producing through an object instead of a name makes librdkafka ask for the topic's
    // partitions at once; by name, the first record waits up to a second (its issue 5032). The
    // object stays valid until the next call. May throw std::bad_alloc.
    rd_kafka_topic_s *get(rd_kafka_s *client, std::string_view name);

    // A topic that Kafka creates when first asked is not there yet in its first answer, and
    // librdkafka asks next after a second. So new topics are asked for a few times before that,
    // until their first record is delivered: call ask_for_new() after ms_until_ask(), which is -1
    // when there is nothing to ask.
    void ask_for_new(rd_kafka_s *client) noexcept;
    int ms_until_ask() const noexcept;
    void delivered(const rd_kafka_topic_s *topic) noexcept;

    // Gives all objects back; must come before the client is destroyed.
    void clear() noexcept;

private:
    struct Deleter
    {
        void operator()(rd_kafka_topic_s *topic) const noexcept;
    };
    using Handle = std::unique_ptr<rd_kafka_topic_s, Deleter>;
    struct NewTopic
    {
        rd_kafka_topic_s *topic;
        std::int64_t pause_ms;
        std::int64_t ask_at_ms;
    };
    void make_room() noexcept;
    void forget_new(std::string_view name) noexcept;

    // The keys are the names inside the topic objects.
    std::unordered_map<std::string_view, Handle> handles_;
    std::vector<NewTopic> new_topics_;
};

} // namespace outbox::kafka
