#include "group_member.h"

#include "names.h"

#include "outbox/error.h"
#include "system_error.h"
#include "text.h"

#include <array>
#include <cerrno>

#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr int kMaxServed = 1000; // events of one serve()

// Of records that are there and cannot be read. librdkafka may go on behind them.
bool
is_unreadable(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__BAD_MSG || error == RD_KAFKA_RESP_ERR__BAD_COMPRESSION ||
           error == RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED;
}

} // namespace

GroupMember::GroupMember(KafkaConfig config, Options options, const StopBudget &budget,
                         const Log &log)
    : options_(std::move(options)), budget_(budget), log_(log), client_(nullptr, &rd_kafka_destroy),
      group_queue_(nullptr, &rd_kafka_queue_destroy), records_(nullptr, &rd_kafka_queue_destroy),
      commits_(nullptr, &rd_kafka_queue_destroy),
      pending_(nullptr, &rd_kafka_topic_partition_list_destroy)
{
    rd_kafka_conf_set_opaque(config.get(), opaque_.get());
    rd_kafka_conf_set_rebalance_cb(config.get(), &on_rebalance);
    rd_kafka_conf_set_error_cb(config.get(), &on_error);
    rd_kafka_conf_set_log_cb(config.get(), &on_log);
    rd_kafka_conf_set_resolve_cb(config.get(), &on_resolve);
    client_.reset(make_client(RD_KAFKA_CONSUMER, std::move(config)));
    try
    {
        join();
    }
    catch (...)
    {
        end();
        throw;
    }
}

void
GroupMember::join()
{
    // Log lines and errors join the group's queue, which serve() reads.
    rd_kafka_resp_err_t result = rd_kafka_set_log_queue(client_.get(), nullptr);
    if (result == RD_KAFKA_RESP_ERR_NO_ERROR)
        result = rd_kafka_poll_set_consumer(client_.get());
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("no consumer", result);
    group_queue_.reset(rd_kafka_queue_get_consumer(client_.get()));
    records_.reset(rd_kafka_queue_new(client_.get()));
    commits_.reset(rd_kafka_queue_new(client_.get()));
    const std::uint64_t one = 1;
    rd_kafka_queue_io_event_enable(group_queue_.get(), opaque_->group_fd.get(), &one, sizeof one);
    rd_kafka_queue_io_event_enable(records_.get(), opaque_->records_fd.get(), &one, sizeof one);

    const List topics(rd_kafka_topic_partition_list_new(static_cast<int>(options_.topics.size())),
                      &rd_kafka_topic_partition_list_destroy);
    for (const std::string &topic : options_.topics)
        rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
    result = rd_kafka_subscribe(client_.get(), topics.get());
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot subscribe", result);
}

GroupMember::~GroupMember()
{
    end();
}

void
GroupMember::end() noexcept
{
    // The queues first: a client is not destroyed while they are held.
    commits_.reset();
    records_.reset();
    group_queue_.reset();
    opaque_->names.give_up();
    opaque_->member = nullptr;
    rd_kafka_t *client = client_.release();
    if (client == nullptr)
        return;
    // Before 2.3.0 librdkafka aborts the process when such a client is destroyed before its first
    // assignment (confluentinc/librdkafka#4381). It has left the group; the rest of it stays.
    constexpr int kMended = 0x02030000;
    if (options_.cooperative && assignments_ == 0 && rd_kafka_version() < kMended)
    {
        end_.leave_behind();
        log_.warning("a client is left behind, because librdkafka cannot destroy it");
        return;
    }
    // close() was not called, or has given up: leave it to the group to notice.
    const int flags =
        rd_kafka_consumer_closed(client) == 0 ? RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE : 0;
    if (!end_.destroy(client, flags))
        log_.warning(kLeftBehind);
}

void
GroupMember::serve()
{
    for (int i = 0; i < kMaxServed; ++i)
    {
        const std::unique_ptr<rd_kafka_message_t, decltype(&rd_kafka_message_destroy)> message(
            rd_kafka_consumer_poll(client_.get(), 0), &rd_kafka_message_destroy);
        if (failure_)
            std::rethrow_exception(std::exchange(failure_, nullptr));
        if (!message)
            break;
        report(*message);
    }
    collect_commits(Milliseconds(0));
}

// Which offset it is, what the partition has instead, and how to continue with that.
std::string
GroupMember::what_to_do_about(const rd_kafka_message_t &message) const
{
    constexpr int kLimitMs = 5000;
    if (message.rkt == nullptr)
        return "";
    const std::string topic = rd_kafka_topic_name(message.rkt);
    const std::string place = name_of(topic, message.partition);
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (rd_kafka_query_watermark_offsets(client_.get(), topic.c_str(), message.partition, &low,
                                         &high, kLimitMs) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return " (" + place + ")";
    const std::string has =
        "; " + place + " has offsets " + std::to_string(low) + " to " + std::to_string(high) + ". ";
    if (!options_.own_offsets)
        return has + "Set the offset of the group " + options_.group +
               " in Kafka (kafka-consumer-groups --reset-offsets), or auto.offset.reset";
    return has +
           "If it has dropped what was processed, or may be missed, continue by select "
           "outbox.record_offset(consumer, '" +
           topic + "', " + std::to_string(message.partition) + ", " + std::to_string(low) +
           "). If it was made anew, delete its row in outbox.consumer_offsets first";
}

// What arrives in the group's queue is never a record, as these have a queue of their own.
void
GroupMember::report(const rd_kafka_message_t &message)
{
    const std::string topic =
        message.rkt == nullptr ? "" : std::string(" of ") + rd_kafka_topic_name(message.rkt);
    const std::string text =
        std::string("Kafka") + topic + ": " + rd_kafka_message_errstr(&message);
    switch (message.err)
    {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        throw KafkaError("a record came by the wrong way", "_STATE");
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        return;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
        throw KafkaError(text + what_to_do_about(message), rd_kafka_err2name(message.err));
    case RD_KAFKA_RESP_ERR__FATAL:
        throw KafkaError(text, rd_kafka_err2name(message.err));
    default: // it passes by itself, or when somebody has seen to it
        log_.warning(text + " (" + rd_kafka_err2name(message.err) + ")");
    }
}

int
GroupMember::on_resolve(const char *host, const char *service, const addrinfo *hints,
                        addrinfo **result, void *opaque)
{
    return static_cast<Opaque *>(opaque)->names.resolve(host, service, hints, result);
}

void
GroupMember::on_error(rd_kafka_t *client, int error, const char *reason, void *opaque)
{
    GroupMember *self = member_of(opaque);
    if (self == nullptr)
        return;
    auto code = static_cast<rd_kafka_resp_err_t>(error);
    std::array<char, 512> text = {};
    if (code == RD_KAFKA_RESP_ERR__FATAL)
    {
        code = rd_kafka_fatal_error(client, text.data(), text.size());
        self->failure_ = std::make_exception_ptr(
            KafkaError("Kafka: " + std::string(text.data()), rd_kafka_err2name(code)));
        return;
    }
    self->log_.warning("Kafka: " + std::string(reason) + " (" + rd_kafka_err2name(code) + ")");
}

void
GroupMember::on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    constexpr int kError = 3; // of syslog; librdkafka's errors also come to on_error()
    constexpr int kWarning = 4;
    const GroupMember *self = member_of(rd_kafka_opaque(client));
    if (self == nullptr)
        return;
    self->log_.write(level <= kWarning && level > kError ? LogLevel::warning : LogLevel::info,
                     std::string("librdkafka: ") + facility + ": " + text);
}

std::optional<Held>
GroupMember::next()
{
    while (!unreadable_)
    {
        const std::unique_ptr<rd_kafka_message_t, decltype(&rd_kafka_message_destroy)> message(
            rd_kafka_consume_queue(records_.get(), 0), &rd_kafka_message_destroy);
        if (failure_)
            std::rethrow_exception(std::exchange(failure_, nullptr));
        if (!message)
            return std::nullopt;
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        {
            note_end(*message);
            continue;
        }
        if (is_unreadable(message->err))
        {
            note_unreadable(*message);
            continue;
        }
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        {
            report(*message);
            continue;
        }
        Held held;
        held.record = convert(message.get());
        const auto owner = owned_.find(held.place());
        if (owner == owned_.end())
            continue; // of a partition that is somebody else's by now
        held.assignment = owner->second.assignment;
        // What was the end is none any more. A topic that was made anew or cut off may even be
        // read again from before it.
        owner->second.end = -1;
        return held;
    }
    return std::nullopt;
}

void
GroupMember::note_unreadable(const rd_kafka_message_t &message)
{
    Held place;
    place.record.topic = rd_kafka_topic_name(message.rkt);
    place.record.partition = message.partition;
    const auto owner = owned_.find(place.place());
    if (owner == owned_.end())
        return; // somebody else's by now
    place.assignment = owner->second.assignment;
    unreadable_ = {place, message.err, rd_kafka_message_errstr(&message)};
}

void
GroupMember::require_readable()
{
    if (!unreadable_)
        return;
    const Unreadable found = *std::exchange(unreadable_, std::nullopt);
    if (holds(found.place))
        throw KafkaError(
            "Kafka: " + name_of(found.place.record.topic, found.place.record.partition) +
                " cannot be read: " + found.text + "; nothing from there on was processed",
            rd_kafka_err2name(found.error));
}

// It comes behind the partition's records in their queue.
void
GroupMember::note_end(const rd_kafka_message_t &message)
{
    const auto owner = owned_.find({rd_kafka_topic_name(message.rkt), message.partition});
    if (owner != owned_.end())
        owner->second.end = message.offset;
}

Record
GroupMember::convert(rd_kafka_message_t *message) const
{
    Record record;
    record.topic = rd_kafka_topic_name(message->rkt);
    record.partition = message->partition;
    record.offset = message->offset;
    record.timestamp_ms = rd_kafka_message_timestamp(message, nullptr);
    if (message->key != nullptr)
        record.key.emplace(static_cast<const char *>(message->key), message->key_len);
    if (message->payload != nullptr)
        record.value.emplace(static_cast<const char *>(message->payload), message->len);
    rd_kafka_headers_t *headers = nullptr;
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        const char *name = nullptr;
        const void *value = nullptr;
        std::size_t size = 0;
        for (std::size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) ==
                                RD_KAFKA_RESP_ERR_NO_ERROR;
             ++i)
        {
            Header header{name, std::nullopt};
            if (value != nullptr)
                header.value.emplace(static_cast<const char *>(value), size);
            record.headers.push_back(std::move(header));
        }
    }
    for (const char *name : {"id", "ce_id"}) // Debezium's header, CloudEvents'
        if (record.event_id.empty())
            record.event_id = parse_uuid(record.header(name).value_or("")).value_or("");
    return record;
}

bool
GroupMember::holds(const Held &held) const
{
    const auto owner = owned_.find(held.place());
    return owner != owned_.end() && owner->second.assignment == held.assignment;
}

void
GroupMember::wait(bool records, Milliseconds limit, const StopFlag &stop)
{
    bool dirty = commits_in_flight_ > 0;
    for (const auto &[place, part] : owned_)
        dirty = dirty || part.dirty;
    if (dirty)
        limit = std::min(limit, options_.commit_interval);
    std::array<pollfd, 3> fds = {{{opaque_->group_fd.get(), POLLIN, 0},
                                  {stop.fd(), POLLIN, 0},
                                  {records ? opaque_->records_fd.get() : -1, POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(limit.count(), 0))) <
            0 &&
        errno != EINTR)
        throw SystemError("poll", errno);
    if (fds[1].revents != 0)
        stop.settle();
    opaque_->group_fd.drain();
    if (records)
        opaque_->records_fd.drain();
}

void
GroupMember::close()
{
    if (pending_)
    {
        pending_.reset();
        (void) rd_kafka_assign(client_.get(), nullptr); // librdkafka waits for an answer to that
    }
    const Queue closing(rd_kafka_queue_new(client_.get()), &rd_kafka_queue_destroy);
    if (rd_kafka_error_t *error = rd_kafka_consumer_close_queue(client_.get(), closing.get()))
    {
        log_.warning(std::string("not left the group: ") + rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
        return;
    }
    do
        (void) rd_kafka_queue_poll_callback(closing.get(), 50);
    while (rd_kafka_consumer_closed(client_.get()) == 0 && Clock::now() < budget_.end());
    if (rd_kafka_consumer_closed(client_.get()) == 0)
        log_.warning("not left the group within close_timeout");
    if (failure_)
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

} // namespace outbox::v0::detail
