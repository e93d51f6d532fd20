// Kafka as a reader sees it, by librdkafka.
#pragma once

#include "interrupts.h"
#include "kafka_source.h"

#include <librdkafka/rdkafka.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace outbox::ctl
{

struct TopicView
{
    std::string name;
    std::string error; // Kafka's name for it, empty when there is none
    int partitions = 0;
    int without_leader = 0;
    int fewest_replicas = 0;
    int fewest_in_sync = 0;
};

struct ClusterView
{
    int brokers = 0;
    std::map<std::string, TopicView> topics;
};

struct KafkaRecord
{
    std::string topic;
    int partition = 0;
    long long offset = 0;
    std::optional<long long> timestamp_ms;
    std::optional<std::string> key;
    std::optional<std::string> value;
    std::vector<std::pair<std::string, std::optional<std::string>>> headers;

    // The first header of that name; nothing when its value is null.
    std::optional<std::string> header(const std::string &name) const;
};

// Texts of errors never hold a secret.
class KafkaClient
{
public:
    explicit KafkaClient(const KafkaSource &source);
    ~KafkaClient();
    KafkaClient(const KafkaClient &) = delete;
    KafkaClient &operator=(const KafkaClient &) = delete;

    // Asks for the brokers and all topics. Nothing when there is no answer in time, or when
    // librdkafka has tried all brokers in vain; last_trouble() may say why.
    std::optional<ClusterView> look(Milliseconds limit);

    // Why the brokers cannot be reached, as far as librdkafka said; empty when it did not.
    const std::string &last_trouble();
    void forget_trouble() { trouble_.clear(); }

    // Begins to read a topic's partitions, up to `partitions` of them; those read already continue.
    // From the beginning, or behind what is there now. False when Kafka does not answer in time.
    bool follow(const TopicView &topic, bool from_beginning, Milliseconds limit);

    // Reads one record, or says what is wrong with a topic. False when nothing came in time.
    bool read(Milliseconds limit, const std::function<void(const KafkaRecord &)> &record,
              const std::function<void(const std::string &topic, const std::string &error)> &error);

    // A client could not be ended within a second: threads of librdkafka still run, so the program
    // must end without its exit handlers.
    static bool lingers();

private:
    static void note_error(rd_kafka_t *client, int error, const char *reason, void *self);

    const KafkaSource &source_;
    rd_kafka_t *client_ = nullptr;
    rd_kafka_queue_t *queue_ = nullptr;
    std::map<std::string, rd_kafka_topic_t *> topics_;
    std::map<std::string, int> followed_; // how many partitions
    std::string trouble_;
    bool all_down_ = false;
};

} // namespace outbox::ctl
