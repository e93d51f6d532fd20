// The half of the producer that is librdkafka's threads: batches, answers, what is tried again.
#include "producer.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

constexpr Time kLinger = 25 * kMs;
constexpr Time kRetryPause = 100 * kMs;
constexpr Time kRefresh = 250 * kMs;
constexpr int kMostPerPartition = 5;
// How long a topic that was usable may be missing before its records are given up.
constexpr Time kPropagation = 3 * kSecond;

} // namespace

Failure
Producer::failure_of(Answer answer)
{
    Failure failure;
    const bool event = answer == Answer::too_large || answer == Answer::invalid;
    const bool topic = answer == Answer::not_authorized || answer == Answer::unknown_topic;
    set_failure(failure,
                event   ? FailureClass::event
                : topic ? FailureClass::topic
                        : FailureClass::retriable,
                name_of(answer), "as a broker says");
    failure.too_large = answer == Answer::too_large;
    return failure;
}

void
Producer::report(const std::vector<Message> &messages, const Failure *failure)
{
    if (messages.empty())
        return;
    Report report;
    report.delivered = failure == nullptr;
    if (failure != nullptr)
        report.failure = *failure;
    for (const Message &message : messages)
    {
        report.tags.push_back(message.tag);
        report.events.push_back(message.event);
        report.bytes.push_back(static_cast<std::size_t>(message.bytes));
        if (failure != nullptr && (failure->possibly_persisted || message.in_doubt))
            watch_.in_doubt(message.event);
    }
    reports_.push_back(std::move(report));
    news_ = true;
}

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

// --- Answers ---

void
Producer::disconnected(int broker)
{
    reconnect_at_[broker] = clock_.at() + random_.between(100, 500) * kMs;
    refresh_soon();
    Failure failure;
    set_failure(failure, FailureClass::retriable, "_TRANSPORT", "broker %d", broker);
    troubles_.push_back(failure);
    bool any = false;
    for (int other = 0; other < kBrokers; other++)
        any = any || cluster_.broker(other).up;
    if (!any)
    {
        set_failure(failure, FailureClass::retriable, "_ALL_BROKERS_DOWN", "all");
        failure.summary = true;
        if (!told_all_down_)
            troubles_.push_back(failure);
        told_all_down_ = true;
    }
    news_ = true;
}

void
Producer::retry(Queue &queue, const Batch &batch, Time pause)
{
    queue.drains = true;
    queue.not_before = clock_.at() + pause;
    queue.flushed = true;
    // By their numbers: others of this partition may be back already.
    for (const Message &message : batch.messages)
    {
        auto at = std::find_if(queue.waiting.begin(), queue.waiting.end(),
                               [&](const Message &other) { return other.id > message.id; });
        queue.since.insert(queue.since.begin() + (at - queue.waiting.begin()), clock_.at());
        at = queue.waiting.insert(at, message);
        at->batch_end = batch.messages.back().id;
    }
}

void
Producer::accept(Queue &queue, const Batch &batch)
{
    // An earlier batch of which nobody knew has arrived as well.
    std::vector<Message> earlier;
    while (!queue.waiting.empty() && queue.waiting.front().id < batch.messages.front().id)
    {
        earlier.push_back(std::move(queue.waiting.front()));
        queue.waiting.pop_front();
        queue.since.pop_front();
    }
    report(earlier, nullptr);
    queue.acked_id = std::max(queue.acked_id, batch.messages.back().id);
    report(batch.messages, nullptr);
}

// A record that is not accepted leaves a gap, and that ends the producer.
void
Producer::refuse(Queue &, const Batch &batch, Answer answer)
{
    const Failure failure = failure_of(answer);
    report(batch.messages, &failure);
    if (answer == Answer::not_authorized)
    {
        KnownTopic &topic = know(batch.place.topic);
        topic.state = TopicState::refused;
        topic.error = answer;
        topic.wanted = true;
        topic.ask_at = clock_.at();
    }
    die("_GAPLESS_GUARANTEE", true);
}

void
Producer::answered(std::uint64_t number, Answer answer)
{
    const auto found =
        std::find_if(requests_.begin(), requests_.end(),
                     [&](const Request &request) { return request.number == number; });
    if (found == requests_.end())
        return;
    const int broker = found->broker;
    Batch batch = std::move(found->batch);
    requests_.erase(found);
    Queue &queue = queues_[batch.place];
    queue.in_flight--;
    switch (answer)
    {
    case Answer::accepted:
        accept(queue, batch);
        break;
    case Answer::lost:
    case Answer::not_enough_after:
        for (Message &message : batch.messages)
            message.in_doubt = true;
        retry(queue, batch, kRetryPause);
        break;
    case Answer::not_leader:
    case Answer::unknown_topic:
        retry(queue, batch, kRetryPause);
        refresh_soon();
        break;
    case Answer::not_enough:
        retry(queue, batch, kRetryPause);
        break;
    case Answer::too_large:
    case Answer::invalid:
    case Answer::not_authorized:
        if (settings_.sends_ready && !dead_)
            send_ready(broker);
        refuse(queue, batch, answer);
        break;
    case Answer::out_of_order:
        if (batch.messages.front().id == queue.acked_id + 1)
        {
            Failure failure;
            set_failure(failure, FailureClass::fatal, name_of(answer), "out of order");
            failure.possibly_persisted = true;
            report(batch.messages, &failure);
            die(name_of(answer), false);
        }
        else
        {
            retry(queue, batch, 0);
            bumps_ = true;
        }
        break;
    }
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
