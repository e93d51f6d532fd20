#include "driver.h"

#include "bgworker/sinks/amqp/options.h"

#include <stdexcept>

#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::test
{

AmqpDriver::AmqpDriver(const amqp::Settings &settings)
    : wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{
    Failure why;
    publisher_ = amqp::Publisher::create(settings, wake_fd_, why);
    if (!publisher_)
        throw std::runtime_error(why.text);
}

AmqpDriver::~AmqpDriver()
{
    publisher_.reset();
    (void) close(wake_fd_);
}

std::uint64_t
AmqpDriver::produce(const std::string &routing_key, const std::string &key, const std::string &body)
{
    const std::uint64_t tag = ++tag_;
    const std::string text = std::to_string(tag);
    const Header headers[] = {{"id", text}, {"event_type", "created"}};
    Record record;
    record.topic = routing_key;
    record.key = key;
    const std::string &value = body.empty() ? text : body;
    record.value = value.data();
    record.value_size = value.size();
    record.headers = headers;
    record.header_count = 2;
    record.tag = tag;
    Failure why;
    const ProduceResult result = publisher_->produce(record, why);
    if (result != ProduceResult::queued)
        throw std::runtime_error(result == ProduceResult::queue_full ? "the queue is full"
                                                                     : why.text);
    return tag;
}

amqp::Settings
settings_for(int port, const std::string &exchange)
{
    amqp::Settings settings;
    settings.host = "127.0.0.1";
    settings.port = port;
    settings.username = "guest";
    settings.password = "guest";
    settings.exchange = exchange;
    (void) amqp::compile_routing_key("{topic}", settings.routing_key);
    settings.heartbeat_s = 1;
    settings.connect_timeout_ms = 5000;
    settings.backoff_initial_ms = 50;
    settings.backoff_max_ms = 500;
    return settings;
}

} // namespace outbox::test
