// Kafka topics as the broker sees them, no matter who fills them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "support/kafka_client.h"
#include "support/kafka_cluster.h"

namespace outbox::bench
{

constexpr int kPartitions = 8;

// Counts the records of topics by asking the broker for the ends of its partitions: one small
// request a look, and the same for every contender. Records count once they are acknowledged.
class TopicWatch
{
public:
    TopicWatch(const std::string &bootstrap, const std::string &topic)
        : TopicWatch(bootstrap, std::vector<std::string>{topic})
    {
    }
    TopicWatch(const std::string &bootstrap, std::vector<std::string> topics);

    // Records that were ever written to them. Throws when the broker does not answer.
    int64_t records();

private:
    bool look(int64_t &records, std::string &problem);

    test::KafkaHandle client_;
    std::vector<std::string> topics_;
};

// A topic with kPartitions partitions. The destructor deletes it, which frees its disk space.
class Topic
{
public:
    Topic(test::Kafka &kafka, std::string name);
    ~Topic();
    Topic(const Topic &) = delete;
    Topic &operator=(const Topic &) = delete;

    const std::string &name() const { return name_; }

private:
    std::string bootstrap_;
    std::string name_;
};

} // namespace outbox::bench
