#include "producer.h"

#include "client_config.h"
#include "refused_connection.h"
#include "shutdown.h"
#include "signals_blocked.h"

#include "extension/core/verdict.h"

#include <librdkafka/rdkafka.h>

#include <exception>
#include <fcntl.h>
#include <memory>
#include <utility>
#include <vector>

namespace outbox::kafka
{

static_assert(sizeof(void *) >= sizeof(std::uint64_t), "tags travel in librdkafka's pointers");

namespace
{

// librdkafka 2.8 needs a second for its end now and then, when it loses a wake-up of its own;
// nobody who makes a producer to try a configuration, or makes another in its place, waits for
// that.
constexpr int kCloseMs = 100;
constexpr std::uint64_t kWake = 1;
constexpr const char *kOutOfMemory = "out of memory";

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

// librdkafka quotes values in what it says of properties that do not fit together.
void
mask_values(const Settings &settings, char *text)
{
    Secrets values;
    for (std::size_t i = 0; i < settings.property_count; i++)
        if (settings.properties[i].from_file)
            values.add(settings.properties[i].value);
    values.mask(text);
}

// Configurations that cannot be freed, see has_freed_interceptors(); and whether the last client
// could not be made.
struct LeftBehind
{
    std::vector<rd_kafka_conf_t *> configs;
    bool fails = false;
};

LeftBehind &
left_behind()
{
    static LeftBehind *const all = new LeftBehind; // to the end of the process
    return *all;
}

bool
is_non_blocking(int fd) noexcept
{
    const int flags = fcntl(fd, F_GETFL);
    return flags != -1 && (flags & O_NONBLOCK) != 0;
}

} // namespace

Producer *
Producer::create(const Settings &settings, int wake_fd, Failure &why) noexcept
{
    try
    {
        std::unique_ptr<Producer> producer(new Producer);
        return producer->start(settings, wake_fd, why) ? producer.release() : nullptr;
    }
    catch (const std::exception &)
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, kOutOfMemory);
        return nullptr;
    }
}

bool
Producer::start(const Settings &settings, int wake_fd, Failure &why)
{
    if (wake_fd != -1 && !is_non_blocking(wake_fd))
    {
        describe_config(why, "", "the wake-up descriptor is not a non-blocking one");
        return false;
    }
    wake_fd_ = wake_fd;

    // A second failure leaves nothing behind: without interceptors a configuration can be freed.
    if (settings.gapless && left_behind().fails)
    {
        Settings plain = settings;
        plain.gapless = false;
        if (std::unique_ptr<Producer>(create(plain, -1, why)) == nullptr)
            return false;
    }

    ClientConfig config = make_client_config(settings, secrets_, why);
    if (config == nullptr)
        return false;
    left_behind().configs.reserve(left_behind().configs.size() + 1);
    char text[512] = "";
    const SignalsBlocked blocked;
    client_ = rd_kafka_new(RD_KAFKA_PRODUCER, config.get(), text, sizeof text);
    if (client_ == nullptr)
    {
        mask_values(settings, text);
        secrets_.mask(text);
        describe_config(why, "Correct the Kafka properties.", "%s", text);
        if (settings.gapless && has_freed_interceptors())
        {
            left_behind().configs.push_back(config.release());
            left_behind().fails = true;
        }
        return false;
    }
    // Owned by the client from here on.
    static_cast<void>(config.release());
    if (settings.gapless)
        left_behind().fails = false;
    topics_ = std::make_unique<TopicHandles>(client_);
    if (!flusher_.start(client_) || !topics_->start(wake_fd))
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no thread could be started");
        return false;
    }
    return open_queue(why);
}

bool
Producer::open_queue(Failure &why) noexcept
{
    const rd_kafka_resp_err_t error = rd_kafka_set_log_queue(client_, nullptr);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        describe(why, error, "%s", rd_kafka_err2str(error));
        return false;
    }
    queue_ = rd_kafka_queue_get_main(client_);
    if (wake_fd_ != -1)
        rd_kafka_queue_io_event_enable(queue_, wake_fd_, &kWake, sizeof kWake);
    // What came before that has not set it.
    set_wake_fd();
    return true;
}

Producer::~Producer()
{
    close(kCloseMs);
}

bool
Producer::close(int timeout_ms) noexcept
{
    if (client_ == nullptr)
        return true;
    flusher_.stop();
    if (queue_ != nullptr)
    {
        // The descriptor is the caller's and may be closed before the last thread ends.
        rd_kafka_queue_io_event_enable(queue_, -1, nullptr, 0);
        rd_kafka_queue_destroy(queue_);
        queue_ = nullptr;
    }
    // The client lives on until a question about topics has ended: what was not sent is not.
    purge();
    rd_kafka_t *client = std::exchange(client_, nullptr);
    if (topics_ == nullptr) // no memory
    {
        rd_kafka_destroy(client);
        return true;
    }
    topics_->request_stop();
    return destroy_within(std::move(topics_), timeout_ms);
}

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

void
Producer::purge() noexcept
{
    rd_kafka_purge(client_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                RD_KAFKA_PURGE_F_NON_BLOCKING);
}

bool
Producer::is_dead() const noexcept
{
    return rd_kafka_fatal_error(client_, nullptr, 0) != RD_KAFKA_RESP_ERR_NO_ERROR;
}

bool
Producer::fatal(Failure &why) const noexcept
{
    char text[512];
    const rd_kafka_resp_err_t error = rd_kafka_fatal_error(client_, text, sizeof text);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    secrets_.mask(text);
    describe(why, error, "%s", text);
    why.cls = FailureClass::fatal;
    return true;
}

void
Producer::make_fatal(int code, const char *reason) noexcept
{
    rd_kafka_test_fatal_error(client_, static_cast<rd_kafka_resp_err_t>(code), reason);
}

} // namespace outbox::kafka
