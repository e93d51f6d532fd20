#include "topics.h"

#include <array>
#include <iostream>
#include <stdexcept>

#include "support/wait.h"

namespace outbox::bench
{

namespace
{

constexpr int kLimitMs = 10000;

using Partitions = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                   decltype(&rd_kafka_topic_partition_list_destroy)>;

void
delete_topic(const std::string &bootstrap, const std::string &topic)
{
    const test::KafkaHandle client = test::make_kafka_client(RD_KAFKA_PRODUCER, bootstrap);
    const std::unique_ptr<rd_kafka_DeleteTopic_t, decltype(&rd_kafka_DeleteTopic_destroy)> wanted(
        rd_kafka_DeleteTopic_new(topic.c_str()), &rd_kafka_DeleteTopic_destroy);
    const std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue(
        rd_kafka_queue_new(client.get()), &rd_kafka_queue_destroy);
    std::array<rd_kafka_DeleteTopic_t *, 1> list = {wanted.get()};
    rd_kafka_DeleteTopics(client.get(), list.data(), list.size(), nullptr, queue.get());
    const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> answer(
        rd_kafka_queue_poll(queue.get(), kLimitMs), &rd_kafka_event_destroy);
    if (!answer || rd_kafka_event_error(answer.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error("cannot delete the topic " + topic);
}

} // namespace

TopicWatch::TopicWatch(const std::string &bootstrap, std::vector<std::string> topics)
    : client_(test::make_kafka_client(RD_KAFKA_CONSUMER, bootstrap,
                                      {{"socket.nagle.disable", "true"}})),
      topics_(std::move(topics))
{
    // Right after its creation a topic may have no leader yet.
    int64_t none = 0;
    std::string problem;
    if (!test::wait_until(test::Milliseconds(kLimitMs), [&] { return look(none, problem); }))
        throw std::runtime_error(problem);
}

int64_t
TopicWatch::records()
{
    int64_t sum = 0;
    std::string problem;
    if (!look(sum, problem))
        throw std::runtime_error(problem);
    return sum;
}

bool
TopicWatch::look(int64_t &records, std::string &problem)
{
    const Partitions ends(
        rd_kafka_topic_partition_list_new(kPartitions * static_cast<int>(topics_.size())),
        &rd_kafka_topic_partition_list_destroy);
    // Asked for the offset "at time" RD_KAFKA_OFFSET_END, the broker returns the end.
    for (const std::string &topic : topics_)
        for (int partition = 0; partition < kPartitions; partition++)
            rd_kafka_topic_partition_list_add(ends.get(), topic.c_str(), partition)->offset =
                RD_KAFKA_OFFSET_END;
    rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(client_.get(), ends.get(), kLimitMs);
    records = 0;
    for (int i = 0; i < ends->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
    {
        error = ends->elems[i].err;
        records += ends->elems[i].offset;
    }
    problem = "cannot look at the end of " + topics_.front() + ": " + rd_kafka_err2str(error);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR;
}

Topic::Topic(test::Kafka &kafka, std::string name)
    : bootstrap_(kafka.bootstrap()), name_(std::move(name))
{
    kafka.create_topic(name_, kPartitions);
}

Topic::~Topic()
{
    try
    {
        delete_topic(bootstrap_, name_);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << "\n";
    }
}

} // namespace outbox::bench
