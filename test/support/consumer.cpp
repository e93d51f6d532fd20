#include "consumer.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace outbox::test
{

namespace
{

constexpr auto kLookInterval = Milliseconds(250);

std::optional<std::string>
bytes(const void *data, size_t size)
{
    if (data == nullptr)
        return std::nullopt;
    return std::string(static_cast<const char *>(data), size);
}

KafkaProperties
consumer_properties(const KafkaProperties &wanted)
{
    // The embedded broker answers a fetch that found nothing only when its time is over.
    KafkaProperties all = {{"fetch.wait.max.ms", "10"}, {"fetch.error.backoff.ms", "50"}};
    all.insert(all.end(), wanted.begin(), wanted.end());
    return all;
}

Record
to_record(const rd_kafka_message_t &message)
{
    Record record;
    record.received = std::chrono::system_clock::now();
    record.topic = rd_kafka_topic_name(message.rkt);
    record.partition = message.partition;
    record.offset = message.offset;
    record.key = bytes(message.key, message.key_len);
    record.value = bytes(message.payload, message.len);
    record.timestamp_ms = rd_kafka_message_timestamp(&message, nullptr);

    rd_kafka_headers_t *headers = nullptr;
    if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        const char *name = nullptr;
        const void *value = nullptr;
        size_t size = 0;
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) ==
                           RD_KAFKA_RESP_ERR_NO_ERROR;
             ++i)
            record.headers.emplace_back(name, bytes(value, size));
    }
    return record;
}

} // namespace

std::optional<std::string>
Record::header(const std::string &name) const
{
    for (const auto &header : headers)
        if (header.first == name)
            return header.second;
    return std::nullopt;
}

Consumer::Consumer(const std::string &bootstrap, const std::vector<std::string> &topics,
                   const KafkaProperties &properties)
    : client_(make_kafka_client(RD_KAFKA_CONSUMER, bootstrap, consumer_properties(properties))),
      queue_(rd_kafka_queue_new(client_.get()), &rd_kafka_queue_destroy), next_look_(Clock::now())
{
    for (const std::string &topic : topics)
        reading_[topic] = 0;
}

Consumer::~Consumer()
{
    for (const auto &[name, topic] : topics_)
    {
        for (int partition = 0; partition < reading_[name]; ++partition)
            rd_kafka_consume_stop(topic, partition);
        rd_kafka_topic_destroy(topic);
    }
}

// librdkafka's simple consumer lets partitions be added while others are being read, and asks no
// group coordinator, which a broker that has just been restarted would take seconds to elect.
void
Consumer::look_for_partitions()
{
    if (Clock::now() < next_look_)
        return;
    next_look_ = Clock::now() + kLookInterval;
    for (auto &[name, reading] : reading_)
    {
        if (reading > 0)
            continue;
        const int count = partition_count(client_.get(), name);
        if (count == 0)
            continue;
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client_.get(), name.c_str(), nullptr);
        topics_[name] = topic;
        for (; reading < count; ++reading)
            if (rd_kafka_consume_start_queue(topic, reading, RD_KAFKA_OFFSET_BEGINNING,
                                             queue_.get()) != 0)
                throw std::runtime_error("cannot read " + name + ": " +
                                         rd_kafka_err2str(rd_kafka_last_error()));
    }
}

void
Consumer::take(rd_kafka_message_t *message)
{
    // Errors here are connections lost and the like, from which librdkafka recovers; a reader that
    // stays without records fails its test by its deadline.
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && sink_)
        sink_(to_record(*message));
    else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        records_.push_back(to_record(*message));
    rd_kafka_message_destroy(message);
}

// Waits for one record, then takes what else is there. (A batch call that waits would hold the
// first record back until its time is over, and spoil every latency that is measured with it.)
void
Consumer::read_some(Milliseconds limit)
{
    look_for_partitions();
    rd_kafka_message_t *first =
        rd_kafka_consume_queue(queue_.get(), static_cast<int>(limit.count()));
    if (first == nullptr)
        return;
    take(first);
    std::array<rd_kafka_message_t *, 1000> batch = {};
    const ssize_t count = rd_kafka_consume_batch_queue(queue_.get(), 0, batch.data(), batch.size());
    for (ssize_t i = 0; i < count; ++i)
        take(batch[static_cast<size_t>(i)]);
}

bool
Consumer::read_until(Milliseconds limit,
                     const std::function<bool(const std::vector<Record> &)> &enough)
{
    const auto deadline = Clock::now() + limit;
    while (!enough(records_))
    {
        if (Clock::now() >= deadline)
            return false;
        read_some(Milliseconds(50));
    }
    return true;
}

bool
Consumer::read_count(size_t count, Milliseconds limit)
{
    return read_until(limit, [count](const std::vector<Record> &records)
                      { return records.size() >= count; });
}

void
Consumer::read_for(Milliseconds duration)
{
    read_until(duration, [](const std::vector<Record> &) { return false; });
}

} // namespace outbox::test
