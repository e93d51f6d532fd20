// The half of the producer that is librdkafka's threads: batches, and what is due.
#include "producer.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

constexpr Time kLinger = 25 * kMs;
constexpr Time kRefresh = 250 * kMs;
constexpr int kMostPerPartition = 5;
// How long a topic that was usable may be missing before its records are given up.
constexpr Time kPropagation = 3 * kSecond;

} // namespace

void
Producer::give_up(Queue &queue, const Failure &failure)
{
    const std::vector<Message> messages(queue.waiting.begin(), queue.waiting.end());
    queue.waiting.clear();
    queue.since.clear();
    queue.flushed = false;
    report(messages, &failure);
}

void
Producer::purge_queued()
{
    Failure purged;
    set_failure(purged, FailureClass::retriable, "_PURGE_QUEUE", "purged");
    purged.consequence = true;
    for (auto &item : queues_)
        give_up(item.second, purged);
    bumps_ = true;
}

void
Producer::die(const char *name, bool consequence)
{
    if (dead_)
        return;
    trace_.say("producer %llu (%s) is dead: %s", static_cast<unsigned long long>(id_), name_, name);
    dead_ = true;
    set_failure(fatal_, FailureClass::fatal, name, "dead");
    fatal_.consequence = consequence;
    purge_queued();
    news_ = true;
}

void
Producer::drop_missing(const std::string &name)
{
    KnownTopic &topic = topics_[name];
    const Time now = clock_.at();
    if (topic.missing_since == 0)
        topic.missing_since = now;
    topic.wanted = true;
    topic.ask_at = now + kRefresh;
    topic.pause = kRefresh;
    if (topic.error == Answer::unknown_topic && now - topic.missing_since < kPropagation)
        return;
    Failure failure = failure_of(topic.error);
    topic.state = TopicState::refused;
    for (auto &item : queues_)
    {
        Queue &queue = item.second;
        if (item.first.topic != name || queue.in_flight > 0)
            continue;
        give_up(queue, failure); // the numbers of these are not given again
    }
}

// --- Sending ---

std::size_t
Producer::requests_to(int broker) const
{
    return static_cast<std::size_t>(std::count_if(requests_.begin(), requests_.end(),
                                                  [&](const Request &request)
                                                  { return request.broker == broker; }));
}

Time
Producer::ready_at(const Queue &queue) const
{
    if (queue.waiting.empty())
        return kNever;
    const bool full = queue.flushed || queue.waiting.size() >= settings_.max_records;
    return std::max(queue.not_before, full ? 0 : queue.since.front() + kLinger);
}

void
Producer::send_batch(const Place &place, Queue &queue)
{
    if (queue.epoch != epoch_)
    {
        queue.epoch = epoch_;
        queue.base_id = queue.waiting.front().id;
        // Brokers do not know them by the numbers of before.
        for (const Message &message : queue.waiting)
            if (message.in_doubt)
                watch_.in_doubt(message.event);
    }
    Request request;
    request.broker = queue.leader;
    request.batch.producer = id_;
    request.batch.epoch = epoch_;
    request.batch.place = place;
    request.batch.first_sequence =
        static_cast<std::int64_t>(queue.waiting.front().id - queue.base_id);
    // A batch whose fate is in doubt goes out again just as it was.
    const std::uint64_t batch_end = queue.waiting.front().batch_end;
    while (!queue.waiting.empty() && request.batch.messages.size() < settings_.max_records &&
           (batch_end == 0 || queue.waiting.front().id <= batch_end) &&
           (batch_end != 0 || queue.waiting.front().batch_end == 0))
    {
        request.batch.messages.push_back(std::move(queue.waiting.front()));
        queue.waiting.pop_front();
        queue.since.pop_front();
    }
    queue.flushed = queue.flushed && !queue.waiting.empty();
    queue.in_flight++;
    queue.sent_at = clock_.at();
    request.number = network_.send(*this, request.broker, request.batch);
    trace_.say("producer %llu (%s) sends %zu records (first: event %d) for partition %d of %s to "
               "broker %d",
               static_cast<unsigned long long>(id_), name_, request.batch.messages.size(),
               request.batch.messages.front().event, place.partition, place.topic.c_str(),
               request.broker);
    requests_.push_back(std::move(request));
}

void
Producer::set_drains(bool drains)
{
    if (drains != drains_ && std::string_view(name_) == "stream")
        watch_.drains(drains);
    drains_ = drains;
}

void
Producer::send_some()
{
    if (dead_ || connected_at_ == kNever)
        return;
    set_drains(bumps_ && !requests_.empty());
    if (drains_)
        return;
    if (bumps_)
    {
        epoch_++;
        bumps_ = false;
    }
    const Time now = clock_.at();
    // Partitions take turns at a broker's connection.
    std::vector<std::pair<const Place, Queue> *> ready;
    for (auto &item : queues_)
        if (ready_at(item.second) <= now && item.second.leader >= 0)
            ready.push_back(&item);
    if (ready.size() > 1)
        std::stable_sort(ready.begin(), ready.end(),
                         [](const auto *a, const auto *b)
                         { return a->second.sent_at < b->second.sent_at; });
    for (auto *item : ready)
    {
        Queue &queue = item->second;
        if (queue.drains && queue.in_flight > 0)
            continue;
        queue.drains = false;
        const auto reconnect = reconnect_at_.find(queue.leader);
        if (reconnect != reconnect_at_.end() && reconnect->second > now)
            continue;
        if (!cluster_.broker(queue.leader).up)
        {
            disconnected(queue.leader);
            continue;
        }
        told_all_down_ = false;
        while (ready_at(queue) <= now && queue.in_flight < kMostPerPartition &&
               requests_to(queue.leader) < static_cast<std::size_t>(settings_.max_in_flight))
            send_batch(item->first, queue);
    }
}

// What was ready for a broker behind the request that it answers.
void
Producer::send_ready(int broker)
{
    for (auto &[place, queue] : queues_)
        if (queue.leader == broker && ready_at(queue) <= clock_.at())
            return send_batch(place, queue);
}

// --- What is due ---

void
Producer::refresh_soon()
{
    refresh_at_ = std::min(refresh_at_, clock_.at() + random_.between(10, 300) * kMs);
}

void
Producer::advance()
{
    const Time now = clock_.at();
    if (purge_at_ <= now)
    {
        purge_at_ = kNever;
        purge_queued();
    }
    if (connected_at_ == kNever && connect_at_ <= now)
    {
        if (cluster_.any_broker_answers())
        {
            connected_at_ = now;
            refresh_at_ = now + kRefresh;
        }
        else
        {
            connect_at_ = now + 100 * kMs;
            if (!told_all_down_)
                disconnected(0);
        }
    }
    if (refresh_at_ <= now)
    {
        refresh_at_ = now + (cluster_.any_broker_answers() ? kRefresh : 100 * kMs);
        if (cluster_.any_broker_answers())
        {
            bool leaderless = false;
            for (auto &item : topics_)
                if (item.second.state == TopicState::usable || has_queued(item.first))
                    learn(item.first, item.second);
            for (const auto &item : queues_)
                leaderless =
                    leaderless || item.second.leader < 0 || !cluster_.broker(item.second.leader).up;
            // What has its leader is asked about rarely.
            refresh_at_ = now + (leaderless ? kRefresh : 30 * kSecond);
        }
    }
    describe_topics();
    send_some();
}

Time
Producer::next_event_at() const
{
    Time next = std::min({connected_at_ == kNever ? connect_at_ : kNever, refresh_at_, purge_at_});
    for (const auto &item : topics_)
        if (item.second.asked)
            next = std::min(next, item.second.answer_at);
        else if (item.second.wanted && connected_at_ != kNever)
            next = std::min(next, item.second.ask_at);
    if (dead_ || connected_at_ == kNever || (bumps_ && !requests_.empty()))
        return next;
    for (const auto &item : queues_)
    {
        const Queue &queue = item.second;
        if (queue.leader < 0 || queue.waiting.empty() || (queue.drains && queue.in_flight > 0) ||
            queue.in_flight >= kMostPerPartition ||
            requests_to(queue.leader) >= static_cast<std::size_t>(settings_.max_in_flight))
            continue; // an answer, or news of a leader, comes first
        const auto reconnect = reconnect_at_.find(queue.leader);
        next = std::min(next, std::max(ready_at(queue),
                                       reconnect == reconnect_at_.end() ? 0 : reconnect->second));
    }
    return next;
}

} // namespace outbox::sim
