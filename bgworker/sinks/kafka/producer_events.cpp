// The half of the producer that reports to the caller what has happened.
#include "producer.h"

#include <librdkafka/rdkafka.h>

#include <exception>
#include <string_view>
#include <sys/eventfd.h>

namespace outbox::kafka
{

namespace
{

constexpr int kDeadPauseMs = 20;

Failure
failure_of(const rd_kafka_message_t &message) noexcept
{
    Failure failure;
    const char *topic = rd_kafka_topic_name(message.rkt);
    const char *error = rd_kafka_err2str(message.err);
    if (message.partition == RD_KAFKA_PARTITION_UA)
        describe(failure, message.err, "topic \"%s\": %s", topic, error);
    else
        describe(failure, message.err, "topic \"%s\", partition %d: %s", topic, message.partition,
                 error);
    failure.possibly_persisted =
        rd_kafka_message_status(&message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    return failure;
}

// A line of librdkafka's without secrets. Larger than librdkafka's longest line, so that no secret
// is cut into a piece that would not be found.
struct Masked
{
    Masked(const Secrets &secrets, const char *line) noexcept
    {
        text[std::string_view(line).copy(text, sizeof text - 1)] = '\0';
        secrets.mask(text);
    }
    char text[4096];
};

} // namespace

std::size_t
Producer::serve(SinkListener &listener, std::size_t max_events) noexcept
{
    // Before the queue is emptied, so that what arrives meanwhile sets it again.
    reset_wake_fd();
    serve_topics();
    // A fatal error empties librdkafka's queue once, but records whose request fails after that are
    // queued again and would stay there for good.
    if (outstanding_ > 0 && is_dead())
        rd_kafka_purge(client_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
    std::size_t served = 0;
    while (served < max_events)
    {
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue_, 0);
        if (event == nullptr)
            return served;
        served += dispatch(event, listener);
        rd_kafka_event_destroy(event);
    }
    // librdkafka wakes only a reader that has emptied the queue.
    set_wake_fd();
    return served;
}

// What there is no memory for is asked for at the next call.
void
Producer::serve_topics() noexcept
{
    try
    {
        topics_changed_ = topics_->serve() || topics_changed_;
    }
    catch (const std::exception &)
    {
        topics_changed_ = true;
    }
}

int
Producer::serve_within_ms() const noexcept
{
    return outstanding_ > 0 && is_dead() ? kDeadPauseMs : topics_->serve_within_ms();
}

std::size_t
Producer::dispatch(rd_kafka_event_t *event, SinkListener &listener) noexcept
{
    switch (rd_kafka_event_type(event))
    {
    case RD_KAFKA_EVENT_DR:
    {
        std::size_t count = 0;
        listener.batch(rd_kafka_event_message_count(event));
        while (const rd_kafka_message_t *message = rd_kafka_event_message_next(event))
        {
            report_delivery(*message, listener);
            count++;
        }
        return count;
    }
    case RD_KAFKA_EVENT_ERROR:
        report_error(event, listener);
        return 1;
    case RD_KAFKA_EVENT_LOG:
        report_log(event, listener);
        return 1;
    default:
        // Such as statistics that an operator switched on: they are not used.
        return 1;
    }
}

void
Producer::report_delivery(const rd_kafka_message_t &message, SinkListener &listener) noexcept
{
    const auto tag = reinterpret_cast<std::uint64_t>(message._private);
    outstanding_--;
    if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        listener.failed(tag, failure_of(message));
        return;
    }
    listener.delivered(tag);
}

void
Producer::report_error(rd_kafka_event_t *event, SinkListener &listener) noexcept
{
    Failure failure;
    const rd_kafka_resp_err_t error = rd_kafka_event_error(event);
    // The event of a fatal error carries either this mark or the error itself.
    if (fatal(failure) && (error == RD_KAFKA_RESP_ERR__FATAL || error == failure.code))
    {
        listener.trouble(failure);
        return;
    }
    // A refusal has ended its connection; were the broker gone, the next client would say so.
    if (is_dead())
        return;
    const Masked text(secrets_, rd_kafka_event_error_string(event));
    describe(failure, error, "%s", text.text);
    failure.cls = FailureClass::retriable;
    listener.trouble(failure);
}

void
Producer::report_log(rd_kafka_event_t *event, SinkListener &listener) noexcept
{
    const char *facility = "";
    const char *line = "";
    int level = 0;
    if (rd_kafka_event_log(event, &facility, &line, &level) != 0)
        return;
    // A remark on a property that only we can set is no news for an operator.
    if (std::string_view(line).find("enable.gapless.guarantee is experimental") !=
        std::string_view::npos)
        return;
    const Masked text(secrets_, line);
    listener.log(level, facility, text.text);
}

void
Producer::set_wake_fd() noexcept
{
    // Fails only when the counter is at its maximum, and then it is set.
    if (wake_fd_ != -1)
        static_cast<void>(eventfd_write(wake_fd_, 1));
}

void
Producer::reset_wake_fd() noexcept
{
    // Fails when it is not set.
    eventfd_t value = 0;
    if (wake_fd_ != -1)
        static_cast<void>(eventfd_read(wake_fd_, &value));
}

} // namespace outbox::kafka
