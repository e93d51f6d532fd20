#include "group_member.h"

#include "outbox/error.h"
#include "text.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr int kMaxServed = 1000;                      // events of one serve()
constexpr auto kRevocationLimit = Milliseconds(5000); // for the last commit of partitions given up

int
make_event_fd()
{
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
    return fd;
}

void
drain(int fd)
{
    std::uint64_t count = 0;
    (void) !read(fd, &count, sizeof count); // nothing there is as good
}

std::string
describe(const rd_kafka_topic_partition_list_t *partitions)
{
    std::string text;
    for (int i = 0; i < partitions->cnt; ++i)
        text += (i > 0 ? ", " : "") + std::string(partitions->elems[i].topic) + "/" +
                std::to_string(partitions->elems[i].partition);
    return partitions->cnt == 0 ? "none" : text;
}

} // namespace

GroupMember::GroupMember(KafkaConfig config, Options options, const Log &log)
    : options_(std::move(options)), log_(log), group_fd_(make_event_fd()),
      records_fd_(make_event_fd()), client_(nullptr, &rd_kafka_destroy),
      group_queue_(nullptr, &rd_kafka_queue_destroy), records_(nullptr, &rd_kafka_queue_destroy),
      commits_(nullptr, &rd_kafka_queue_destroy),
      pending_(nullptr, &rd_kafka_topic_partition_list_destroy)
{
    rd_kafka_conf_set_opaque(config.get(), this);
    rd_kafka_conf_set_rebalance_cb(config.get(), &on_rebalance);
    rd_kafka_conf_set_error_cb(config.get(), &on_error);
    rd_kafka_conf_set_log_cb(config.get(), &on_log);
    std::array<char, 512> text = {};
    client_.reset(rd_kafka_new(RD_KAFKA_CONSUMER, config.get(), text.data(), text.size()));
    if (!client_)
        throw UsageError("librdkafka does not take the configuration: " + std::string(text.data()));
    (void) config.release(); // the client owns it now

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
    rd_kafka_queue_io_event_enable(group_queue_.get(), group_fd_, &one, sizeof one);
    rd_kafka_queue_io_event_enable(records_.get(), records_fd_, &one, sizeof one);

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
    // The queues first: a client is not destroyed while they are held.
    commits_.reset();
    records_.reset();
    group_queue_.reset();
    if (client_ && rd_kafka_consumer_closed(client_.get()) == 0)
        // close() was not called, or has given up: leave it to the group to notice.
        rd_kafka_destroy_flags(client_.release(), RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    client_.reset();
    (void) ::close(group_fd_);
    (void) ::close(records_fd_);
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
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
        throw KafkaError(text, rd_kafka_err2name(message.err));
    default: // it passes by itself, or when somebody has seen to it
        log_.warning(text + " (" + rd_kafka_err2name(message.err) + ")");
    }
}

void
GroupMember::on_error(rd_kafka_t *client, int error, const char *reason, void *opaque)
{
    auto *self = static_cast<GroupMember *>(opaque);
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
    const auto *self = static_cast<const GroupMember *>(rd_kafka_opaque(client));
    self->log_.write(level <= kWarning && level > kError ? LogLevel::warning : LogLevel::info,
                     std::string("librdkafka: ") + facility + ": " + text);
}

bool
GroupMember::cooperative() const
{
    const char *protocol = rd_kafka_rebalance_protocol(client_.get());
    return protocol != nullptr && std::string(protocol) == "COOPERATIVE";
}

void
GroupMember::on_rebalance(rd_kafka_t * /*client*/, rd_kafka_resp_err_t what,
                          rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    auto *self = static_cast<GroupMember *>(opaque);
    try
    {
        if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
            self->take_over(partitions);
        else
            self->give_up(partitions);
    }
    catch (...)
    {
        self->failure_ = std::current_exception();
    }
}

void
GroupMember::take_over(const rd_kafka_topic_partition_list_t *partitions)
{
    log_.info("partitions assigned: " + describe(partitions));
    ++assignments_;
    for (int i = 0; i < partitions->cnt; ++i)
    {
        const rd_kafka_topic_partition_t &part = partitions->elems[i];
        Part &owned = owned_[{part.topic, part.partition}];
        owned = Part();
        owned.assignment = assignments_;
        const Queue queue(rd_kafka_queue_get_partition(client_.get(), part.topic, part.partition),
                          &rd_kafka_queue_destroy);
        if (!queue)
            throw KafkaError("no queue for a partition of " + std::string(part.topic), "_STATE");
        rd_kafka_queue_forward(queue.get(), records_.get());
    }
    if (options_.own_offsets)
        pending_.reset(rd_kafka_topic_partition_list_copy(partitions));
    else
        confirm_assignment(partitions);
}

void
GroupMember::assign(const Offsets &offsets)
{
    constexpr int kLimitMs = 5000;
    const List unknown(rd_kafka_topic_partition_list_new(pending_->cnt),
                       &rd_kafka_topic_partition_list_destroy);
    for (int i = 0; i < pending_->cnt; ++i)
    {
        rd_kafka_topic_partition_t &part = pending_->elems[i];
        const auto known = offsets.find({part.topic, part.partition});
        if (known != offsets.end())
            part.offset = known->second;
        else
            rd_kafka_topic_partition_list_add(unknown.get(), part.topic, part.partition);
    }
    if (unknown->cnt > 0)
    {
        const rd_kafka_resp_err_t result =
            rd_kafka_committed(client_.get(), unknown.get(), kLimitMs);
        if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw_kafka_error("cannot ask for committed offsets", result);
    }
    for (int i = 0; i < unknown->cnt; ++i)
    {
        const rd_kafka_topic_partition_t &part = unknown->elems[i];
        rd_kafka_topic_partition_list_find(pending_.get(), part.topic, part.partition)->offset =
            part.offset >= 0 ? part.offset : RD_KAFKA_OFFSET_BEGINNING;
    }
    const List partitions = std::move(pending_);
    confirm_assignment(partitions.get());
}

void
GroupMember::confirm_assignment(const rd_kafka_topic_partition_list_t *partitions)
{
    if (cooperative())
    {
        if (options_.own_offsets)
            throw UsageError("offsets in PostgreSQL need eager rebalancing");
        if (rd_kafka_error_t *error = rd_kafka_incremental_assign(client_.get(), partitions))
        {
            const KafkaError failure(std::string("cannot take partitions: ") +
                                         rd_kafka_error_string(error),
                                     rd_kafka_error_name(error));
            rd_kafka_error_destroy(error);
            throw failure; // NOLINT(cert-err60-cpp)
        }
        return;
    }
    const rd_kafka_resp_err_t result = rd_kafka_assign(client_.get(), partitions);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot take partitions", result);
}

// Nothing is in the middle of being processed here, as that happens between two calls of serve().
// What the caller still has in hand it drops when holds() says no.
void
GroupMember::give_up(const rd_kafka_topic_partition_list_t *partitions)
{
    const bool lost = rd_kafka_assignment_lost(client_.get()) != 0;
    log_.info(std::string("partitions ") + (lost ? "lost: " : "revoked: ") + describe(partitions));
    // Of lost partitions others may have committed more than we.
    if (!lost)
        commit_and_wait(kRevocationLimit);
    for (int i = 0; i < partitions->cnt; ++i)
        owned_.erase({partitions->elems[i].topic, partitions->elems[i].partition});
    pending_.reset();
    confirm_revocation(partitions);
}

void
GroupMember::confirm_revocation(const rd_kafka_topic_partition_list_t *partitions)
{
    if (cooperative())
    {
        if (rd_kafka_error_t *error = rd_kafka_incremental_unassign(client_.get(), partitions))
        {
            log_.warning(std::string("cannot give up partitions: ") + rd_kafka_error_string(error));
            rd_kafka_error_destroy(error);
        }
        return;
    }
    owned_.clear();
    const rd_kafka_resp_err_t result = rd_kafka_assign(client_.get(), nullptr);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot give up partitions", result);
}

std::optional<Held>
GroupMember::next()
{
    for (;;)
    {
        const std::unique_ptr<rd_kafka_message_t, decltype(&rd_kafka_message_destroy)> message(
            rd_kafka_consume_queue(records_.get(), 0), &rd_kafka_message_destroy);
        if (failure_)
            std::rethrow_exception(std::exchange(failure_, nullptr));
        if (!message)
            return std::nullopt;
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
        return held;
    }
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
    record.event_id = parse_uuid(record.header("id").value_or("")).value_or("");
    return record;
}

bool
GroupMember::holds(const Held &held) const
{
    const auto owner = owned_.find(held.place());
    return owner != owned_.end() && owner->second.assignment == held.assignment;
}

void
GroupMember::done(const Held &held)
{
    const auto owner = owned_.find(held.place());
    if (owner == owned_.end() || owner->second.assignment != held.assignment)
        return;
    owner->second.done = held.record.offset + 1;
    owner->second.dirty = true;
}

// Whether there was anything to commit.
bool
GroupMember::send_commit()
{
    const List list(rd_kafka_topic_partition_list_new(static_cast<int>(owned_.size())),
                    &rd_kafka_topic_partition_list_destroy);
    for (auto &[place, part] : owned_)
        if (std::exchange(part.dirty, false))
            rd_kafka_topic_partition_list_add(list.get(), place.topic.c_str(), place.partition)
                ->offset = part.done;
    if (list->cnt == 0)
        return false;
    const rd_kafka_resp_err_t result =
        rd_kafka_commit_queue(client_.get(), list.get(), commits_.get(), nullptr, nullptr);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        log_.warning(std::string("offsets not committed: ") + rd_kafka_err2str(result));
        return false;
    }
    ++commits_in_flight_;
    return true;
}

void
GroupMember::commit_if_due()
{
    if (commits_in_flight_ > 0 || Clock::now() < next_commit_)
        return;
    next_commit_ = Clock::now() + options_.commit_interval;
    (void) send_commit();
}

// Waits for the answers to all commits that were sent, or just takes those that are here.
void
GroupMember::collect_commits(Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    while (commits_in_flight_ > 0)
    {
        const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
        const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> answer(
            rd_kafka_queue_poll(commits_.get(), std::max(0, static_cast<int>(left.count()))),
            &rd_kafka_event_destroy);
        if (!answer)
        {
            if (left.count() <= 0)
                return;
            continue;
        }
        if (rd_kafka_event_type(answer.get()) != RD_KAFKA_EVENT_OFFSET_COMMIT)
            continue;
        --commits_in_flight_;
        const rd_kafka_resp_err_t result = rd_kafka_event_error(answer.get());
        if (result == RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        log_.warning(std::string("offsets not committed: ") + rd_kafka_err2str(result) + " (" +
                     rd_kafka_err2name(result) + ")");
        for (auto &[place, part] : owned_) // once more, with the next commit
            part.dirty = part.done >= 0;
    }
}

void
GroupMember::commit_and_wait(Milliseconds limit)
{
    (void) send_commit();
    collect_commits(limit);
}

void
GroupMember::wait(bool records, Milliseconds limit, const StopFlag &stop)
{
    bool dirty = commits_in_flight_ > 0;
    for (const auto &[place, part] : owned_)
        dirty = dirty || part.dirty;
    if (dirty)
        limit = std::min(limit, options_.commit_interval);
    std::array<pollfd, 3> fds = {
        {{group_fd_, POLLIN, 0}, {stop.fd(), POLLIN, 0}, {records ? records_fd_ : -1, POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(limit.count(), 0))) <
            0 &&
        errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "poll");
    drain(group_fd_);
    if (records)
        drain(records_fd_);
}

void
GroupMember::close(Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    commit_and_wait(limit);
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
    while (rd_kafka_consumer_closed(client_.get()) == 0 && Clock::now() < deadline)
        (void) rd_kafka_queue_poll_callback(closing.get(), 50);
    if (rd_kafka_consumer_closed(client_.get()) == 0)
        log_.warning("not left the group within " + std::to_string(limit.count()) + " ms");
    if (failure_)
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

} // namespace outbox::v0::detail
