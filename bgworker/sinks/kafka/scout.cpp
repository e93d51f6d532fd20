#include "scout.h"

#include "bgworker/sinks/signals_blocked.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <string_view>
#include <sys/eventfd.h>
#include <utility>

namespace outbox::kafka
{

namespace
{

// A slow Kafka gets more time with each question that it did not answer.
constexpr int kFirstTimeoutMs = 250;
constexpr int kLongestTimeoutMs = 4000;

} // namespace

bool
Scout::start(rd_kafka_t *client, int wake_fd) noexcept
{
    client_ = client;
    wake_fd_ = wake_fd;
    timeout_ms_ = kFirstTimeoutMs;
    static_cast<void>(sem_init(&wake_, 0, 0)); // fails only for values out of range
    const SignalsBlocked blocked;
    started_ = pthread_create(&thread_, nullptr, run, this) == 0;
    if (!started_)
        static_cast<void>(sem_destroy(&wake_));
    return started_;
}

void
Scout::ask(std::vector<rd_kafka_topic_t *> topics)
{
    topics_ = std::move(topics);
    for_list_ = false;
    state_ = State::asking;
    static_cast<void>(sem_post(&wake_));
}

void
Scout::ask_for_list() noexcept
{
    for_list_ = true;
    state_ = State::asking;
    static_cast<void>(sem_post(&wake_));
}

bool
Scout::take(std::vector<Answer> &answers, List &list) noexcept
{
    if (state_ != State::answered)
        return false;
    answers = std::move(answers_);
    answers_.clear();
    list = std::exchange(list_, List());
    state_ = State::idle;
    return true;
}

void
Scout::request_stop() noexcept
{
    if (!started_ || stopping_.exchange(true))
        return;
    static_cast<void>(sem_post(&wake_));
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    wake_fd_ = -1;
}

void
Scout::wake_caller() noexcept
{
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    // Fails only when the counter is at its maximum, and then it is set.
    if (wake_fd_ != -1)
        static_cast<void>(eventfd_write(wake_fd_, 1));
}

void
Scout::join() noexcept
{
    if (!started_)
        return;
    static_cast<void>(pthread_join(thread_, nullptr));
    static_cast<void>(sem_destroy(&wake_));
    started_ = false;
}

bool
Scout::ask_one(rd_kafka_topic_t *topic) noexcept
{
    const rd_kafka_metadata_t *metadata = nullptr;
    if (rd_kafka_metadata(client_, 0, topic, &metadata, timeout_ms_) != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        timeout_ms_ = std::min(2 * timeout_ms_, kLongestTimeoutMs);
        return false;
    }
    timeout_ms_ = std::max(timeout_ms_ / 2, kFirstTimeoutMs);
    bool kept = true;
    try
    {
        for (int i = 0; i < metadata->topic_cnt; i++)
            answers_.push_back({metadata->topics[i].topic, metadata->topics[i].err,
                                metadata->topics[i].partition_cnt});
    }
    catch (const std::exception &)
    {
        kept = false; // asked again
    }
    rd_kafka_metadata_destroy(metadata);
    return kept;
}

void
Scout::ask_about_topics() noexcept
{
    if (topics_.empty())
        static_cast<void>(ask_one(nullptr));
    for (rd_kafka_topic_t *topic : topics_)
        if (stopping_ || !ask_one(topic))
            break;
}

void
Scout::read_list() noexcept
{
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const rd_kafka_metadata_t *metadata = nullptr;
    if (rd_kafka_metadata(client_, 1, nullptr, &metadata, timeout_ms_) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        timeout_ms_ = std::min(2 * timeout_ms_, kLongestTimeoutMs);
        return;
    }
    timeout_ms_ = std::max(timeout_ms_ / 2, kFirstTimeoutMs);
    try
    {
        List list;
        list.hashes.reserve(static_cast<std::size_t>(metadata->topic_cnt));
        for (int i = 0; i < metadata->topic_cnt; i++)
            if (metadata->topics[i].err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
                list.hashes.push_back(std::hash<std::string_view>()(metadata->topics[i].topic));
        std::sort(list.hashes.begin(), list.hashes.end());
        const auto took = Clock::now() - start;
        list.took_ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
        list.has_come = true;
        list_ = std::move(list);
    }
    catch (const std::exception &)
    {
        // asked for again
    }
    rd_kafka_metadata_destroy(metadata);
}

void *
Scout::run(void *scout) noexcept
{
    Scout &self = *static_cast<Scout *>(scout);
    for (;;)
    {
        while (sem_wait(&self.wake_) != 0 && errno == EINTR)
            ;
        if (self.stopping_)
            return nullptr;
        if (self.state_ != State::asking)
            continue;
        if (self.for_list_)
            self.read_list();
        else
            self.ask_about_topics();
        self.state_ = State::answered;
        self.wake_caller();
    }
}

} // namespace outbox::kafka
