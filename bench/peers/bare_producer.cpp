#include "bare_producer.h"

#include <chrono>
#include <iostream>
#include <stdexcept>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "bench/support/topics.h"
#include "bgworker/sinks/kafka/client_config.h"
#include "support/wait.h"

namespace outbox::bench
{

namespace
{

// The relay's defaults: outbox.max_in_flight and outbox.max_in_flight_size.
constexpr uint64_t kMaxInFlight = 20000;
constexpr size_t kMaxInFlightBytes = 32UL * 1024 * 1024;
constexpr uint64_t kServeInterval = 256;
constexpr int kServeMs = 100;
constexpr int kFinishMs = 60000;

rd_kafka_conf_t *
relay_config(const std::string &bootstrap, const test::KafkaProperties &properties)
{
    std::vector<Property> added;
    for (const auto &[name, value] : properties)
        added.push_back({name, value});
    kafka::Settings settings;
    settings.bootstrap_servers = bootstrap;
    settings.properties = added.data();
    settings.property_count = added.size();
    settings.max_messages = kMaxInFlight;
    settings.max_bytes = kMaxInFlightBytes;
    Secrets secrets;
    Failure why;
    kafka::ClientConfig config = kafka::make_client_config(settings, secrets, why);
    if (config == nullptr)
        throw std::runtime_error(why.text);
    return config.release();
}

test::KafkaHandle
make_client(const std::string &bootstrap, const test::KafkaProperties &properties)
{
    char text[512] = "";
    test::KafkaHandle client(
        rd_kafka_new(RD_KAFKA_PRODUCER, relay_config(bootstrap, properties), text, sizeof(text)),
        &rd_kafka_destroy);
    if (!client)
        throw std::runtime_error(text);
    return client;
}

// The relay's headers, with an id that differs from record to record.
rd_kafka_headers_t *
make_headers(const std::string &topic, uint64_t number)
{
    constexpr const char *kHexDigits = "0123456789abcdef";
    char id[] = "01900000-0000-7000-8000-000000000000";
    char *digit = id + sizeof(id) - 1;
    for (int i = 0; i < 12; i++, number >>= 4)
        *--digit = kHexDigits[number & 15];
    const std::string_view type = std::string_view(topic).substr(topic.rfind('.') + 1);
    static const std::string_view event_type = kEventType;

    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    const auto add = [headers](std::string_view name, std::string_view value)
    {
        rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                            static_cast<ssize_t>(value.size()));
    };
    add("id", {id, sizeof(id) - 1});
    add("event_type", event_type);
    add("aggregate_type", type);
    add("created_at", "2026-01-31T09:05:00.000123Z");
    return headers;
}

} // namespace

BareProducer::BareProducer(const std::string &bootstrap, const std::string &topic,
                           const test::KafkaProperties &properties)
    : client_(make_client(bootstrap, properties)),
      queue_(rd_kafka_queue_get_main(client_.get()), &rd_kafka_queue_destroy),
      topic_(rd_kafka_topic_new(client_.get(), topic.c_str(), nullptr))
{
    rd_kafka_set_log_queue(client_.get(), nullptr);
    if (test::partition_count(client_.get(), topic) != kPartitions)
        throw std::runtime_error("the bare producer does not find " + topic);
}

BareProducer::~BareProducer()
{
    if (wake_fd_ != -1)
    {
        rd_kafka_queue_io_event_enable(queue_.get(), -1, nullptr, 0);
        close(wake_fd_);
    }
    rd_kafka_topic_destroy(topic_);
}

void
BareProducer::produce(const std::string &key, const std::string &value, uint64_t number)
{
    while (in_flight_ >= kMaxInFlight)
        serve(kServeMs);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    rd_kafka_headers_t *headers = make_headers(rd_kafka_topic_name(topic_), number);
    const rd_kafka_resp_err_t error =
        rd_kafka_producev(client_.get(), RD_KAFKA_VTYPE_RKT, topic_, RD_KAFKA_VTYPE_KEY, key.data(),
                          key.size(), RD_KAFKA_VTYPE_VALUE, value.data(), value.size(),
                          RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_TIMESTAMP,
                          now_ms, RD_KAFKA_VTYPE_HEADERS, headers, RD_KAFKA_VTYPE_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        rd_kafka_headers_destroy(headers);
        throw std::runtime_error(std::string("the bare producer: ") + rd_kafka_err2str(error));
    }
    in_flight_++;
    if (number % kServeInterval == 0)
        serve(0);
}

void
BareProducer::serve(int wait_ms)
{
    while (rd_kafka_event_t *event = rd_kafka_queue_poll(queue_.get(), wait_ms))
    {
        while (const rd_kafka_message_t *message = rd_kafka_event_message_next(event))
        {
            if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
                throw std::runtime_error(rd_kafka_err2str(message->err));
            in_flight_--;
        }
        rd_kafka_event_destroy(event);
        wait_ms = 0;
    }
}

void
BareProducer::open_wake_fd()
{
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ == -1)
        throw std::runtime_error("eventfd failed");
    const uint64_t one = 1;
    rd_kafka_queue_io_event_enable(queue_.get(), wake_fd_, &one, sizeof(one));
}

void
BareProducer::serve_until(test::Clock::time_point end)
{
    if (wake_fd_ == -1)
        open_wake_fd();
    for (auto left = end - test::Clock::now(); left.count() > 0; left = end - test::Clock::now())
    {
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
        const timespec timeout = {ns / 1000000000, ns % 1000000000};
        pollfd wake = {wake_fd_, POLLIN, 0};
        if (ppoll(&wake, 1, &timeout, nullptr) <= 0)
            continue;
        eventfd_t count = 0;
        static_cast<void>(eventfd_read(wake_fd_, &count));
        serve(0);
    }
}

void
BareProducer::finish()
{
    const auto deadline = test::Clock::now() + test::Milliseconds(kFinishMs);
    while (in_flight_ > 0)
    {
        serve(kServeMs);
        if (test::Clock::now() > deadline)
            throw std::runtime_error("the bare producer does not get its records acknowledged");
    }
}

test::Command
bare_producer_command(const std::string &bootstrap, const std::string &topic, int64_t count,
                      const Pace &pace)
{
    test::Command command({"/proc/self/exe", "bare-producer", "--bootstrap", bootstrap, "--topic",
                           topic, "--events", std::to_string(count), "--rate",
                           std::to_string(pace.rate), "--each", std::to_string(pace.each)});
    command.keep_stdin_open = true;
    return command;
}

void
run_bare_producer(const std::string &bootstrap, const std::string &topic, int64_t count,
                  const Pace &pace)
{
    const std::vector<Input> &all = inputs();
    const bool paced = pace.rate > 0;
    BareProducer producer(bootstrap, topic,
                          paced ? test::KafkaProperties{{"linger.ms", "0"}}
                                : test::KafkaProperties());
    const auto began = test::Clock::now();
    for (int64_t i = 0; i < count; i++)
    {
        if (paced && i % pace.each == 0)
            producer.serve_until(began + std::chrono::nanoseconds(i * 1000000000 / pace.rate));
        const auto number = static_cast<uint64_t>(i);
        const Input &input = all[number % all.size()];
        producer.produce(input.key, input.payload, number);
    }
    producer.finish();
    std::cin.get();
}

} // namespace outbox::bench
