#include "kafka_mock_cluster.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <stdexcept>
#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::test
{

MockCluster::MockCluster(int brokers)
    : client_(make_kafka_client(RD_KAFKA_PRODUCER, "")),
      cluster_(rd_kafka_mock_cluster_new(client_.get(), brokers), &rd_kafka_mock_cluster_destroy)
{
    if (cluster_ == nullptr)
        throw std::runtime_error("cannot start the mock cluster");
}

void
MockCluster::create_topic(const std::string &topic, int partitions)
{
    if (rd_kafka_mock_topic_create(cluster_.get(), topic.c_str(), partitions, 1) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error("cannot create topic " + topic);
}

void
MockCluster::fail_produce(rd_kafka_resp_err_t error, std::size_t count)
{
    constexpr std::int16_t kProduce = 0;
    const std::vector<rd_kafka_resp_err_t> errors(count, error);
    rd_kafka_mock_push_request_errors_array(cluster_.get(), kProduce, count, errors.data());
}

void
MockCluster::set_topic_error(const std::string &topic, rd_kafka_resp_err_t error)
{
    rd_kafka_mock_topic_set_error(cluster_.get(), topic.c_str(), error);
}

MockCluster &
shared_cluster()
{
    static MockCluster cluster;
    return cluster;
}

kafka::Settings
test_settings(const std::string &bootstrap)
{
    kafka::Settings settings;
    settings.bootstrap_servers = bootstrap;
    settings.backoff_initial_ms = 20;
    settings.backoff_max_ms = 100;
    return settings;
}

Driver::Driver(const std::string &bootstrap, const std::vector<Property> &properties,
               const std::function<void(kafka::Settings &)> &adjust)
    : wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{
    kafka::Settings settings = test_settings(bootstrap);
    settings.properties = properties.data();
    settings.property_count = properties.size();
    if (adjust)
        adjust(settings);
    Failure why;
    producer_.reset(kafka::Producer::create(settings, wake_fd_, why));
    if (producer_ == nullptr)
        throw std::runtime_error(why.text);
}

Driver::~Driver()
{
    producer_.reset();
    close(wake_fd_);
}

void
Driver::produce(const std::string &topic, const std::string &key, const std::string &value,
                std::uint64_t tag)
{
    outbox::Record record;
    record.topic = topic;
    record.key = key;
    record.value = value.data();
    record.value_size = value.size();
    record.tag = tag;
    Failure why;
    ASSERT_EQ(producer_->produce(record, why), ProduceResult::queued) << why.text;
}

bool
Driver::serve_until(const std::function<bool()> &condition, Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    while (!condition())
    {
        const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()).count();
        if (left <= 0)
            return false;
        const int within = producer_->serve_within_ms();
        pollfd wanted = {wake_fd_, POLLIN, 0};
        const int woken = poll(&wanted, 1, within == -1 ? static_cast<int>(left) : within);
        if (woken > 0 || within != -1)
            producer_->serve(sink_, 1000);
    }
    return true;
}

bool
Driver::serve_until_settled(Milliseconds limit)
{
    return serve_until([this] { return producer_->outstanding() == 0; }, limit);
}

Milliseconds
Driver::destroy()
{
    const auto start = Clock::now();
    producer_.reset();
    return since(start);
}

std::vector<Record>
read_topic(const std::string &bootstrap, const std::string &topic, std::size_t count)
{
    Consumer consumer(bootstrap, {topic});
    EXPECT_TRUE(consumer.read_count(count, kLimit)) << consumer.records().size() << " records";
    return consumer.records();
}

std::vector<std::string>
values_of(const std::vector<Record> &records, const std::string &key)
{
    std::vector<std::string> values;
    for (const Record &record : records)
        if (record.key == key)
            values.push_back(record.value.value_or("(null)"));
    return values;
}

std::vector<std::string>
numbers(std::size_t count)
{
    std::vector<std::string> texts;
    texts.reserve(count);
    for (std::size_t i = 0; i < count; i++)
        texts.push_back(std::to_string(i));
    return texts;
}

} // namespace outbox::test
