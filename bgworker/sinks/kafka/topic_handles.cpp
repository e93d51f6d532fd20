#include "topic_handles.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace outbox::kafka
{

namespace
{

constexpr std::size_t kMaxHandles = 16384;
// For each new object librdkafka asks Kafka a question of its own, and those stand before records.
constexpr std::size_t kMaxUnanswered = 256;
// Topics that librdkafka is let know though Kafka has them not: a question about so many takes it
// milliseconds.
constexpr std::size_t kMaxMissing = 512;
constexpr std::int64_t kFirstPauseMs = 10;
constexpr std::int64_t kLastPauseMs = 640;
constexpr std::int64_t kGraceMs = 1000;
constexpr std::int64_t kLeaderGraceMs = 500;

std::int64_t
now_ms() noexcept
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

} // namespace

void
TopicHandles::ObjectDeleter::operator()(rd_kafka_topic_t *topic) const noexcept
{
    rd_kafka_topic_destroy(topic);
}

void
TopicHandles::ConfigDeleter::operator()(rd_kafka_topic_conf_t *config) const noexcept
{
    rd_kafka_topic_conf_destroy(config);
}

bool
TopicHandles::start(int wake_fd) noexcept
{
    config_.reset(rd_kafka_default_topic_conf_dup(client_));
    partitioner_.wrap(config_.get());
    return scout_.start(client_, wake_fd);
}

TopicHandles::Topic *
TopicHandles::find(std::string_view name) noexcept
{
    const auto found = topics_.find(name);
    return found == topics_.end() ? nullptr : &found->second;
}

TopicHandles::Topic *
TopicHandles::make(std::string_view name)
{
    make_room();
    Topic topic;
    topic.object.reset(rd_kafka_topic_new(client_, std::string(name).c_str(),
                                          rd_kafka_topic_conf_dup(config_.get())));
    if (topic.object == nullptr)
        return nullptr;
    const char *key = rd_kafka_topic_name(topic.object.get());
    Topic &kept = topics_.emplace(key, std::move(topic)).first->second;
    kept.pause_ms = kFirstPauseMs;
    kept.ask_at_ms = kept.used_at_ms = now_ms();
    ask_at_ms_ = 0;
    unanswered_++;
    wanted_++;
    return &kept;
}

rd_kafka_topic_t *
TopicHandles::get(std::string_view name)
{
    Topic *topic = find(name);
    if (topic == nullptr)
        topic = make(name);
    return topic != nullptr ? topic->object.get() : nullptr;
}

TopicHandles::State
TopicHandles::look(std::string_view name, rd_kafka_topic_t **object, int *error)
{
    *object = nullptr;
    Topic *topic = find(name);
    if (topic == nullptr)
    {
        if (missing_ >= kMaxMissing)
            if (const State listed = look_up(name, error); listed != State::usable)
                return listed;
        crowded_ = unanswered_ >= kMaxUnanswered;
        if (crowded_)
            return State::unknown;
        topic = make(name);
        if (topic != nullptr)
            return State::unknown;
        *error = rd_kafka_last_error();
        return State::refused;
    }
    if (topics_.size() >= kMaxHandles / 2)
        topic->used_at_ms = now_ms();
    if (topic->state == State::usable)
    {
        *object = topic->object.get();
        return State::usable;
    }
    *error = topic->error;
    if (!topic->wanted)
    {
        topic->wanted = true;
        wanted_++;
        ask_at_ms_ = 0;
    }
    return topic->state;
}

std::int32_t
TopicHandles::partition_of(std::string_view name, std::string_view key) noexcept
{
    const Topic *topic = find(name);
    if (topic == nullptr || topic->partitions == 0)
        return -1;
    return partitioner_.partition_of(topic->object.get(), key, topic->partitions);
}

bool
TopicHandles::lacks_leader(std::string_view name, std::int32_t partition)
{
    Topic *topic = find(name);
    if (topic == nullptr)
        return false;
    const std::int64_t now = now_ms();
    for (auto &lack : topic->leaderless)
    {
        if (lack.first != partition)
            continue;
        // A topic that was not asked for in the meantime may have had one.
        constexpr std::int64_t kForgottenMs = 20000;
        if (now - lack.second > kForgottenMs)
            lack.second = now;
        return now - std::max(lack.second, away_at_ms_) >= kLeaderGraceMs;
    }
    topic->leaderless.emplace_back(partition, now);
    lacks_++;
    return false;
}

void
TopicHandles::note_away() noexcept
{
    away_at_ms_ = now_ms();
}

void
TopicHandles::has_leader(std::string_view name, std::int32_t partition) noexcept
{
    Topic *topic = lacks_ > 0 ? find(name) : nullptr;
    if (topic == nullptr)
        return;
    auto &lacks = topic->leaderless;
    const auto gone =
        std::remove_if(lacks.begin(), lacks.end(),
                       [partition](const auto &lack) { return lack.first == partition; });
    lacks_ -= static_cast<std::size_t>(lacks.end() - gone);
    lacks.erase(gone, lacks.end());
}

void
TopicHandles::lost(std::string_view name, int error) noexcept
{
    Topic *topic = find(name);
    if (topic == nullptr || topic->state != State::usable)
        return;
    const Counted counted(*this, *topic);
    topic->state = State::refused;
    topic->error = error;
    topic->pause_ms = kFirstPauseMs;
    topic->ask_at_ms = ask_at_ms_ = 0;
    if (!topic->wanted)
        wanted_++;
    topic->wanted = true;
}

// Whether Kafka has a topic, by its list; usable: it is worth a handle. What is not listed may be
// one that Kafka makes when it is asked for, so it waits for its turn while others may be made.
TopicHandles::State
TopicHandles::look_up(std::string_view name, int *error) noexcept
{
    if (!list_.is_current(now_ms()))
    {
        list_.want();
        return State::unknown;
    }
    if (list_.has(name))
        return State::usable;
    *error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    return hopeless_ < kMaxMissing ? State::unknown : State::refused;
}

TopicHandles::Counted::Counted(TopicHandles &handles, const Topic &topic) noexcept
    : handles_(handles), topic_(topic)
{
    handles_.missing_ -= topic_.missing ? 1 : 0;
    handles_.hopeless_ -= topic_.is_hopeless() ? 1 : 0;
}

TopicHandles::Counted::~Counted()
{
    handles_.missing_ += topic_.missing ? 1 : 0;
    handles_.hopeless_ += topic_.is_hopeless() ? 1 : 0;
}

// What has not been used for longest goes, a good many at once. Records in librdkafka's queue keep
// what they need themselves. What is missing stays, as librdkafka goes on to ask about it.
void
TopicHandles::make_room() noexcept
{
    if (topics_.size() < kMaxHandles || !scout_.is_idle())
        return;
    std::int64_t oldest = now_ms();
    for (const auto &item : topics_)
        oldest = std::min(oldest, item.second.used_at_ms);
    const std::int64_t limit = oldest + (now_ms() - oldest) / 4;
    for (auto item = topics_.begin(); item != topics_.end();)
    {
        if (item->second.used_at_ms > limit || item->second.missing)
        {
            ++item;
            continue;
        }
        unanswered_ -= item->second.answered ? 0 : 1;
        wanted_ -= item->second.wanted ? 1 : 0;
        lacks_ -= item->second.leaderless.size();
        item = topics_.erase(item);
    }
}

// Returns whether the topic's state is another one.
bool
TopicHandles::note(const Scout::Answer &answer, std::int64_t now)
{
    Topic *topic = find(answer.topic);
    if (topic == nullptr)
        return false;
    const Counted counted(*this, *topic);
    const State before = topic->state;
    unanswered_ -= topic->answered ? 0 : 1;
    topic->answered = true;
    topic->error = answer.error;
    if (answer.error == RD_KAFKA_RESP_ERR_NO_ERROR && answer.partitions == 0)
        topic->error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    topic->missing = topic->error != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (topic->error == RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        wanted_ -= topic->wanted ? 1 : 0;
        topic->wanted = false;
        topic->state = State::usable;
        topic->partitions = answer.partitions;
        topic->unknown_since_ms = 0;
        topic->pause_ms = kFirstPauseMs;
        return before != State::usable;
    }
    // A topic that was usable is refused by librdkafka itself while it is not.
    if (topic->unknown_since_ms == 0)
        topic->unknown_since_ms = now;
    if (before == State::unknown && now - topic->unknown_since_ms >= kGraceMs)
        topic->state = State::refused;
    return before != topic->state;
}

void
TopicHandles::ask(std::int64_t now)
{
    if (!scout_.is_idle())
        return;
    if (list_.is_wanted() && now >= list_.due_at_ms())
    {
        list_.begin();
        scout_.ask_for_list();
        return;
    }
    if (wanted_ == 0 || now < ask_at_ms_)
        return;
    constexpr std::size_t kOneByOne = 4;
    const std::size_t few = std::max(kOneByOne, topics_.size() / 64);
    std::vector<rd_kafka_topic_t *> due;
    std::size_t count = 0;
    std::int64_t next = INT64_MAX;
    for (auto &item : topics_)
    {
        Topic &topic = item.second;
        if (!topic.wanted)
            continue;
        if (topic.ask_at_ms <= now)
        {
            count++;
            topic.ask_at_ms = now + topic.pause_ms;
            topic.pause_ms = std::min(topic.pause_ms * 2, kLastPauseMs);
            // One that is refused is asked for once, and then when it is wanted again.
            if (topic.state == State::refused)
            {
                topic.wanted = false;
                wanted_--;
            }
            if (due.size() <= few)
                due.push_back(topic.object.get());
        }
        next = std::min(next, topic.ask_at_ms);
    }
    ask_at_ms_ = next;
    if (count == 0)
        return;
    if (count > few)
        due.clear(); // all in one question
    scout_.ask(std::move(due));
}

bool
TopicHandles::serve()
{
    bool changed = false;
    std::vector<Scout::Answer> answers;
    Scout::List list;
    const std::int64_t now = now_ms();
    if (scout_.take(answers, list))
    {
        if (list_.is_asked())
            changed = list_.take(std::move(list), now);
        for (const Scout::Answer &answer : answers)
            changed = note(answer, now) || changed;
        changed = changed || (crowded_ && unanswered_ < kMaxUnanswered);
        crowded_ = crowded_ && unanswered_ >= kMaxUnanswered;
    }
    ask(now);
    return changed;
}

int
TopicHandles::serve_within_ms() const noexcept
{
    if ((wanted_ == 0 && !list_.is_wanted()) || !scout_.is_idle())
        return -1;
    const std::int64_t topics_at = wanted_ > 0 ? ask_at_ms_ : INT64_MAX;
    const std::int64_t due = list_.is_wanted() ? std::min(list_.due_at_ms(), topics_at) : topics_at;
    return static_cast<int>(std::clamp<std::int64_t>(due - now_ms(), 0, kLastPauseMs));
}

void
TopicHandles::clear() noexcept
{
    scout_.request_stop();
    scout_.join();
    topics_.clear();
    config_.reset();
    unanswered_ = 0;
    wanted_ = 0;
    missing_ = 0;
    hopeless_ = 0;
    lacks_ = 0;
}

} // namespace outbox::kafka
