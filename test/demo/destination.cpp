#include "destination.h"

#include <cstdio>
#include <stdexcept>

#include "support/kafka_client.h"
#include "support/wait.h"

namespace outbox::demo
{

namespace
{

constexpr const char *kPlaceholder = "{aggregate_type}";
constexpr const char *kAggregateType = "order";
constexpr auto kTopicLimit = std::chrono::seconds(10);

// Whether any broker answers at all.
bool
answers(rd_kafka_t *client)
{
    const rd_kafka_metadata_t *metadata = nullptr;
    const auto limit = static_cast<int>(test::Milliseconds(kTopicLimit).count());
    if (rd_kafka_metadata(client, 0, nullptr, &metadata, limit) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    rd_kafka_metadata_destroy(metadata);
    return true;
}

// Asks Kafka to delete a topic and waits for its answer. False when it cannot or may not.
bool
delete_topic(const std::string &bootstrap, const std::string &topic)
{
    const test::KafkaHandle client = test::make_kafka_client(RD_KAFKA_PRODUCER, bootstrap);
    const std::unique_ptr<rd_kafka_DeleteTopic_t, decltype(&rd_kafka_DeleteTopic_destroy)> unwanted(
        rd_kafka_DeleteTopic_new(topic.c_str()), &rd_kafka_DeleteTopic_destroy);
    const std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue(
        rd_kafka_queue_new(client.get()), &rd_kafka_queue_destroy);
    rd_kafka_DeleteTopic_t *list[] = {unwanted.get()};
    rd_kafka_DeleteTopics(client.get(), list, 1, nullptr, queue.get());
    const auto limit = static_cast<int>(test::Milliseconds(kTopicLimit).count());
    const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> answer(
        rd_kafka_queue_poll(queue.get(), limit), &rd_kafka_event_destroy);
    if (!answer || rd_kafka_event_error(answer.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    size_t count = 0;
    const rd_kafka_topic_result_t **results = rd_kafka_DeleteTopics_result_topics(
        rd_kafka_event_DeleteTopics_result(answer.get()), &count);
    return count == 1 && rd_kafka_topic_result_error(results[0]) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

} // namespace

Destination::Destination(const std::string &bootstrap)
    : bootstrap_(bootstrap), topic_template_(std::string("outbox-demo.") + kPlaceholder),
      topic_(std::string("outbox-demo.") + kAggregateType)
{
    if (!bootstrap.empty())
    {
        find_or_make_topic();
        return;
    }
    topic_template_ = std::string("outbox.event.") + kPlaceholder;
    topic_ = std::string("outbox.event.") + kAggregateType;
    embedded_ = std::make_unique<test::EmbeddedKafka>();
    embedded_->start();
    embedded_->create_topic(topic_);
    bootstrap_ = embedded_->bootstrap();
}

// A consumer that asks about a topic leaves things as they are; a producer that asks has it made,
// where the brokers allow that.
void
Destination::find_or_make_topic()
{
    const test::KafkaHandle observer = test::make_kafka_client(RD_KAFKA_CONSUMER, bootstrap_);
    if (!answers(observer.get()))
        throw std::runtime_error("no Kafka broker answers at " + bootstrap_);
    if (test::partition_count(observer.get(), topic_) > 0)
        return;
    const test::KafkaHandle maker = test::make_kafka_client(RD_KAFKA_PRODUCER, bootstrap_);
    if (!test::wait_until(kTopicLimit,
                          [&] { return test::partition_count(maker.get(), topic_) > 0; }))
        throw std::runtime_error("Kafka at " + bootstrap_ +
                                 " does not make topics by itself; create the topic " + topic_ +
                                 " first");
    delete_topic_ = true;
}

Destination::~Destination()
{
    try
    {
        if (delete_topic_ && !delete_topic(bootstrap_, topic_))
            (void) std::fprintf(stderr, "The topic %s could not be deleted.\n", topic_.c_str());
    }
    catch (const std::exception &error)
    {
        (void) std::fprintf(stderr, "The topic %s could not be deleted: %s\n", topic_.c_str(),
                            error.what());
    }
}

} // namespace outbox::demo
