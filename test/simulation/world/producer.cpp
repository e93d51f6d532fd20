// The half of the producer that the engine calls.
#include "producer.h"

#include "replays.h"

#include <algorithm>
#include <cstring>

namespace outbox::sim
{

namespace
{

constexpr Time kRefresh = 250 * kMs; // of what has no leader
constexpr Time kGrace = 1000 * kMs;
constexpr Time kLeaderGrace = 500 * kMs;
constexpr Time kForgotten = 20 * kSecond;

} // namespace

std::int32_t
partition_of(std::string_view key) noexcept
{
    std::uint32_t hash = 0;
    for (const char character : key)
        hash = hash * 31 + static_cast<unsigned char>(character);
    return static_cast<std::int32_t>(hash % kPartitions);
}

Producer::Producer(SimClock &clock, Random &random, Trace &trace, Cluster &cluster,
                   Network &network, ProducerWatch &watch, const ProducerSettings &settings,
                   ProducerId id, const char *name)
    : clock_(clock), random_(random), trace_(trace), cluster_(cluster), network_(network),
      watch_(watch), settings_(settings), id_(id), name_(name), connected_at_(kNever),
      connect_at_(clock.at() + random.between(500, 8000))
{
    trace_.say("producer %llu (%s) begins", static_cast<unsigned long long>(id_), name_);
}

Producer::~Producer()
{
    (void) close(0);
}

Producer::KnownTopic &
Producer::know(const std::string &name)
{
    const auto [topic, is_new] = topics_.try_emplace(name);
    if (is_new)
        topic->second.ask_at = clock_.at();
    return topic->second;
}

ProduceResult
Producer::put(const Record &record, std::int32_t partition)
{
    Payload payload;
    std::memcpy(&payload, record.value, sizeof(payload));
    const auto bytes = static_cast<std::size_t>(payload.bytes);
    if (outstanding_ >= settings_.max_queued ||
        (outstanding_ > 0 && queued_bytes_ + bytes > settings_.max_queued_bytes))
        return ProduceResult::queue_full;
    queued_bytes_ += bytes;
    const Place place = {std::string(record.topic), partition};
    Queue &queue = queues_[place];
    Message message;
    message.event = payload.event;
    message.key = record.key;
    message.bytes = payload.bytes;
    message.invalid = payload.invalid;
    message.tag = record.tag;
    message.replay = replay_of(record);
    message.id = queue.next_id++;
    queue.waiting.push_back(std::move(message));
    queue.since.push_back(clock_.at());
    outstanding_++;
    watch_.handed_over(payload.event, std::string_view(name_) == "stream");
    return ProduceResult::queued;
}

ProduceResult
Producer::produce(const Record &record, Failure &why) noexcept
{
    if (dead_)
    {
        why = fatal_;
        return ProduceResult::failed;
    }
    KnownTopic &topic = know(std::string(record.topic));
    if (topic.state == TopicState::refused)
        return refuse_topic(topic, why);
    return put(record, partition_of(record.key));
}

ProduceResult
Producer::refuse_topic(KnownTopic &topic, Failure &why)
{
    topic.wanted = true;
    why = failure_of(topic.error);
    why.cls = FailureClass::topic;
    return ProduceResult::failed;
}

ProduceResult
Producer::place(std::string_view topic, std::string_view key, Offer &offer, Failure &why) noexcept
{
    KnownTopic &known = know(std::string(topic));
    if (known.state == TopicState::unknown)
        return ProduceResult::not_yet;
    if (known.state == TopicState::refused)
        return refuse_topic(known, why);
    offer.partition = partition_of(key);
    return offer.gate.may_pass(offer.partition) ? ProduceResult::queued : ProduceResult::stopped;
}

ProduceResult
Producer::offer(const Record &record, Offer &offer, Failure &why) noexcept
{
    if (dead_)
    {
        why = fatal_;
        return ProduceResult::failed;
    }
    const std::string name(record.topic);
    KnownTopic &topic = know(name);
    if (topic.state == TopicState::unknown)
        return ProduceResult::not_yet;
    if (topic.state == TopicState::refused)
        return refuse_topic(topic, why);
    offer.partition = partition_of(record.key);
    if (!offer.gate.may_pass(offer.partition))
        return ProduceResult::stopped;
    Queue &queue = queues_[{name, offer.partition}];
    if (queue.leader >= 0)
    {
        queue.leaderless_since = 0;
        return put(record, offer.partition);
    }
    offer.no_leader = true;
    const Time now = clock_.at();
    if (queue.leaderless_since == 0 || now - queue.leaderless_since > kForgotten)
        queue.leaderless_since = now;
    if (now - std::max(queue.leaderless_since, away_at_) < kLeaderGrace)
        return ProduceResult::not_yet;
    set_failure(why, FailureClass::topic, "LEADER_NOT_AVAILABLE", "partition %d has no leader",
                offer.partition);
    return ProduceResult::failed;
}

void
Producer::note_away() noexcept
{
    away_at_ = clock_.at();
}

bool
Producer::take_topics_changed() noexcept
{
    const bool changed = topics_changed_;
    topics_changed_ = false;
    return changed;
}

void
Producer::send_now() noexcept
{
    for (auto &item : queues_)
        item.second.flushed = item.second.flushed || !item.second.waiting.empty();
}

std::size_t
Producer::serve(SinkListener &listener, std::size_t max_events) noexcept
{
    news_ = false;
    if (dead_ && outstanding_ > 0)
    {
        Failure purged;
        set_failure(purged, FailureClass::retriable, "_PURGE_QUEUE", "purged");
        purged.consequence = true;
        for (auto &item : queues_)
            give_up(item.second, purged);
    }
    std::size_t served = 0;
    for (; !troubles_.empty(); troubles_.pop_front(), served++)
        listener.trouble(troubles_.front());
    while (!reports_.empty() && served < max_events)
    {
        const Report report = std::move(reports_.front());
        reports_.pop_front();
        listener.batch(report.tags.size());
        for (std::size_t i = 0; i < report.tags.size(); i++)
        {
            outstanding_--;
            queued_bytes_ -= report.bytes[i];
            served++;
            if (report.delivered)
            {
                watch_.acknowledged(report.events[i]);
                listener.delivered(report.tags[i]);
            }
            else
                listener.failed(report.tags[i], report.failure);
        }
    }
    news_ = !reports_.empty();
    return served;
}

int
Producer::serve_within_ms() const noexcept
{
    return dead_ && outstanding_ > 0 ? 20 : -1;
}

// Each broker's thread purges what it has when it comes to it: some only after the caller has heard
// that nothing is outstanding, and then they purge what was queued since.
void
Producer::purge() noexcept
{
    Failure purged;
    set_failure(purged, FailureClass::retriable, "_PURGE_QUEUE", "purged");
    purged.consequence = true;
    trace_.say("producer %llu (%s) is purged", static_cast<unsigned long long>(id_), name_);
    purge_queued();
    purge_at_ = clock_.at() + random_.between(0, 20) * kMs;
    purged.possibly_persisted = true;
    std::vector<Request> requests;
    requests.swap(requests_);
    for (const Request &request : requests)
    {
        network_.forget(*this, request.number);
        queues_[request.batch.place].in_flight--;
        report(request.batch.messages, &purged);
    }
    if (!requests.empty())
        die("_GAPLESS_GUARANTEE", true);
}

bool
Producer::fatal(Failure &why) const noexcept
{
    if (dead_)
        why = fatal_;
    return dead_;
}

bool
Producer::close(int) noexcept
{
    if (closed_)
        return true;
    closed_ = true;
    set_drains(false);
    trace_.say("producer %llu (%s) ends with %zu records outstanding",
               static_cast<unsigned long long>(id_), name_, outstanding_);
    for (const Request &request : requests_)
        for (const Message &message : request.batch.messages)
            watch_.in_doubt(message.event);
    for (const auto &item : queues_)
        for (const Message &message : item.second.waiting)
            if (message.in_doubt)
                watch_.in_doubt(message.event);
    // What nobody has heard of.
    for (const Report &unheard : reports_)
        for (const int event : unheard.events)
            watch_.in_doubt(event);
    network_.forget_all(*this);
    requests_.clear();
    return true;
}

bool
Producer::reachable(int timeout_ms) noexcept
{
    if (cluster_.any_broker_answers())
    {
        clock_.advance(random_.between(200, 2000));
        return true;
    }
    clock_.advance(timeout_ms * kMs);
    return false;
}

// --- What Kafka says of topics ---

void
Producer::learn_leaders(const std::string &topic)
{
    for (std::int32_t partition = 0; partition < kPartitions; partition++)
    {
        const Place place = {topic, partition};
        Queue &queue = queues_[place];
        const int leader = cluster_.partition(place).leader;
        if (leader < 0)
            refresh_at_ = std::min(refresh_at_, clock_.at() + kRefresh);
        if (leader == queue.leader)
            continue;
        // The new leader gets nothing before the old one has answered.
        queue.leader = leader;
        queue.drains = true;
    }
}

// librdkafka's own: it asks about all topics that it has records for.
bool
Producer::has_queued(const std::string &topic) const
{
    return std::any_of(queues_.begin(), queues_.end(),
                       [&](const auto &item)
                       { return item.first.topic == topic && !item.second.waiting.empty(); });
}

void
Producer::learn(const std::string &name, KnownTopic &topic)
{
    const Topic *there = cluster_.topic(name);
    const TopicState before = topic.state;
    topic.asked = false;
    const bool described =
        there != nullptr && there->exists && (there->authorized || !there->hidden);
    if (described)
    {
        topic.state = TopicState::usable;
        topic.wanted = false;
        topic.unknown_since = topic.missing_since = 0;
        topic.pause = 10 * kMs;
        learn_leaders(name);
    }
    else
    {
        topic.error =
            there != nullptr && there->exists ? Answer::not_authorized : Answer::unknown_topic;
        if (topic.unknown_since == 0)
            topic.unknown_since = clock_.at();
        if (before == TopicState::unknown && clock_.at() - topic.unknown_since >= kGrace)
            topic.state = TopicState::refused;
        if (before == TopicState::usable || has_queued(name))
            drop_missing(name);
    }
    topics_changed_ = topics_changed_ || topic.state != before;
    news_ = true;
}

void
Producer::describe_topics()
{
    const Time now = clock_.at();
    const bool answers = cluster_.any_broker_answers() && connected_at_ != kNever;
    for (auto &item : topics_)
    {
        KnownTopic &topic = item.second;
        if (topic.asked && topic.answer_at <= now)
        {
            if (answers)
                learn(item.first, topic);
            else
                topic.answer_at = now + 100 * kMs;
        }
        if (!topic.wanted || topic.asked || topic.ask_at > now || connected_at_ == kNever)
            continue;
        topic.asked = true;
        topic.answer_at = now + random_.between(300, 4000);
        topic.ask_at = now + topic.pause;
        topic.pause = std::min<Time>(topic.pause * 2, 640 * kMs);
        if (topic.state == TopicState::refused)
            topic.wanted = false;
    }
}

} // namespace outbox::sim
