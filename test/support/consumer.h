#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kafka_client.h"
#include "wait.h"

namespace outbox::test
{

// A Kafka record as a consumer sees it. Null keys, values and header values are not empty ones.
struct Record
{
    std::string topic;
    int32_t partition = 0;
    int64_t offset = 0;
    std::optional<std::string> key;
    std::optional<std::string> value;
    std::vector<std::pair<std::string, std::optional<std::string>>> headers; // in their order
    int64_t timestamp_ms = 0;
    std::chrono::system_clock::time_point received;

    // The first header of that name; nothing when it is missing or null.
    std::optional<std::string> header(const std::string &name) const;
};

// Reads whole topics from their beginning, without a consumer group. A topic may come into being
// later.
class Consumer
{
public:
    // `properties` are librdkafka's and win over the harness's own.
    Consumer(const std::string &bootstrap, const std::vector<std::string> &topics,
             const KafkaProperties &properties = {});
    ~Consumer();
    Consumer(const Consumer &) = delete;
    Consumer &operator=(const Consumer &) = delete;

    // Reads until `enough` says so about everything read so far, and returns what it said last.
    bool read_until(Milliseconds limit,
                    const std::function<bool(const std::vector<Record> &)> &enough);
    bool read_count(size_t count, Milliseconds limit);

    // From now on every record goes to `sink` and is not kept: for more of them than memory takes.
    void pass_to(std::function<void(const Record &)> sink) { sink_ = std::move(sink); }

    // Reads on for a while that should bring nothing, to see that really nothing comes.
    void read_for(Milliseconds duration);

    // Everything read so far; records of one partition are in its order.
    const std::vector<Record> &records() const { return records_; }

private:
    void look_for_partitions();
    void read_some(Milliseconds limit);
    void take(rd_kafka_message_t *message);

    KafkaHandle client_;
    std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue_;
    std::map<std::string, rd_kafka_topic_t *> topics_;
    std::map<std::string, int> reading_; // topic -> how many of its partitions are being read
    Clock::time_point next_look_;
    std::vector<Record> records_;
    std::function<void(const Record &)> sink_;
};

} // namespace outbox::test
