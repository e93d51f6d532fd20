// What brokers answer to a producer, and what is tried again.
#include "producer.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

constexpr Time kRetryPause = 100 * kMs;

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
    case Answer::never_again: // no broker says so
        break;
    }
}

} // namespace outbox::sim
