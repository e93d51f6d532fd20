// The half of the producer that takes records.
#include "producer.h"

#include "extension/core/verdict.h"

#include <librdkafka/rdkafka.h>

#include <exception>
#include <memory>

namespace outbox::kafka
{

static_assert(sizeof(void *) >= sizeof(std::uint64_t), "tags travel in librdkafka's pointers");

namespace
{

struct HeadersDeleter
{
    void operator()(rd_kafka_headers_t *headers) const noexcept
    {
        rd_kafka_headers_destroy(headers);
    }
};
using Headers = std::unique_ptr<rd_kafka_headers_t, HeadersDeleter>;

Headers
make_headers(const Record &record) noexcept
{
    if (record.header_count == 0)
        return nullptr;
    Headers headers(rd_kafka_headers_new(record.header_count));
    for (std::size_t i = 0; i < record.header_count; i++)
    {
        const Header &header = record.headers[i];
        const char *value = header.value.data() != nullptr ? header.value.data() : "";
        rd_kafka_header_add(
            headers.get(), header.name.data(), static_cast<ssize_t>(header.name.size()),
            header.is_null ? nullptr : value, static_cast<ssize_t>(header.value.size()));
    }
    return headers;
}

// librdkafka takes a null pointer for "no value" and any other for a value, however long.
void *
value_pointer(const Record &record) noexcept
{
    if (record.tombstone)
        return nullptr;
    return const_cast<void *>(record.value != nullptr ? record.value : "");
}

// librdkafka only carries the pointer and gives it back.
void *
to_opaque(std::uint64_t tag) noexcept
{
    return reinterpret_cast<void *>(tag); // NOLINT(performance-no-int-to-ptr)
}

} // namespace

ProduceResult
Producer::produce(const Record &record, Failure &why) noexcept
{
    try
    {
        return try_produce(record, why);
    }
    catch (const std::exception &)
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, kOutOfMemory);
        return ProduceResult::failed;
    }
}

ProduceResult
Producer::try_produce(const Record &record, Failure &why)
{
    rd_kafka_topic_t *topic = topics_->get(record.topic);
    if (topic == nullptr)
        return refused(rd_kafka_last_error(), record, why);
    return queue(topic, record, why);
}

ProduceResult
Producer::offer(const Record &record, Offer &offer, Failure &why) noexcept
{
    try
    {
        return try_offer(record, offer, why);
    }
    catch (const std::exception &)
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, kOutOfMemory);
        return ProduceResult::failed;
    }
}

ProduceResult
Producer::place(std::string_view topic, std::string_view key, Offer &offer, Failure &why) noexcept
{
    try
    {
        rd_kafka_topic_t *object = nullptr;
        int error = 0;
        switch (topics_->look(topic, &object, &error))
        {
        case TopicHandles::State::unknown:
            return ProduceResult::not_yet;
        case TopicHandles::State::refused:
        {
            Record record;
            record.topic = topic;
            static_cast<void>(refused(error, record, why));
            why.cls = FailureClass::topic;
            return ProduceResult::failed;
        }
        case TopicHandles::State::usable:
            break;
        }
    }
    catch (const std::exception &)
    {
        return ProduceResult::not_yet;
    }
    return may_pass(topic, key, offer) ? ProduceResult::queued : ProduceResult::stopped;
}

bool
Producer::may_pass(std::string_view topic, std::string_view key, Offer &offer) noexcept
{
    offer.partition = topics_->partition_of(topic, key);
    return offer.partition < 0 || offer.gate.may_pass(offer.partition);
}

ProduceResult
Producer::try_offer(const Record &record, Offer &offer, Failure &why)
{
    rd_kafka_topic_t *topic = nullptr;
    int error = 0;
    const TopicHandles::State state = topics_->look(record.topic, &topic, &error);
    if (state == TopicHandles::State::unknown)
        return ProduceResult::not_yet;
    if (state == TopicHandles::State::refused)
    {
        static_cast<void>(refused(error, record, why));
        why.cls = FailureClass::topic;
        return ProduceResult::failed;
    }
    // librdkafka refuses some records before it asks for their partition, and keeps others without
    // one while what it knows of the topic is out of date.
    if (!may_pass(record.topic, record.key, offer))
        return ProduceResult::stopped;
    const Choice choice(offer.gate);
    const ProduceResult result = queue(topic, record, why);
    if (choice.partition >= 0)
        offer.partition = choice.partition;
    if (result == ProduceResult::queued)
    {
        topics_->has_leader(record.topic, offer.partition);
        return result;
    }
    if (why.code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
        why.code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        topics_->lost(record.topic, why.code);
    if (result != ProduceResult::failed || why.code != RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        return result;
    if (!choice.no_leader)
        return ProduceResult::stopped;
    offer.no_leader = true;
    if (!topics_->lacks_leader(record.topic, offer.partition))
        return ProduceResult::not_yet;
    const std::string_view name = clip(record.topic, 249);
    describe(why, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, "topic \"%.*s\", partition %d: %s",
             static_cast<int>(name.size()), name.data(), offer.partition,
             rd_kafka_err2str(RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE));
    why.cls = FailureClass::topic;
    return ProduceResult::failed;
}

ProduceResult
Producer::queue(rd_kafka_topic_t *topic, const Record &record, Failure &why)
{
    Headers headers = make_headers(record);
    const char *key = record.key.data() != nullptr ? record.key.data() : "";
    const rd_kafka_resp_err_t error = rd_kafka_producev(
        client_, RD_KAFKA_VTYPE_RKT, topic, RD_KAFKA_VTYPE_KEY, key, record.key.size(),
        RD_KAFKA_VTYPE_VALUE, value_pointer(record),
        record.tombstone ? std::size_t{0} : record.value_size, RD_KAFKA_VTYPE_MSGFLAGS,
        RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_TIMESTAMP, record.timestamp_ms, RD_KAFKA_VTYPE_OPAQUE,
        to_opaque(record.tag), RD_KAFKA_VTYPE_HEADERS, headers.get(), RD_KAFKA_VTYPE_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return refused(error, record, why);

    // Owned by the queued record from here on.
    static_cast<void>(headers.release());
    outstanding_++;
    lingering_ = true;
    return ProduceResult::queued;
}

void
Producer::send_now() noexcept
{
    if (lingering_)
        flusher_.send_now();
    lingering_ = false;
}

ProduceResult
Producer::refused(int code, const Record &record, Failure &why) noexcept
{
    // With nothing outstanding there is no room to wait for: the record alone exceeds the queue.
    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && outstanding_ > 0)
        return ProduceResult::queue_full;
    if (code == RD_KAFKA_RESP_ERR__FATAL && fatal(why))
        return ProduceResult::failed;

    const bool too_large = code == RD_KAFKA_RESP_ERR__QUEUE_FULL;
    const auto error =
        too_large ? RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE : static_cast<rd_kafka_resp_err_t>(code);
    const std::string_view topic = clip(record.topic, 249);
    describe(why, error, "topic \"%.*s\": %s", static_cast<int>(topic.size()), topic.data(),
             too_large ? "the event is larger than queue.buffering.max.kbytes allows"
                       : rd_kafka_err2str(error));
    return ProduceResult::failed;
}

} // namespace outbox::kafka
