#include "endpoint_sink.h"

#include "replays.h"

#include <algorithm>
#include <cstring>

namespace outbox::sim
{

namespace
{

constexpr int kEndpoint = 0; // the broker that plays it

Failure
purged()
{
    Failure failure;
    set_failure(failure, FailureClass::retriable, "PURGED", "given up");
    failure.consequence = true;
    return failure;
}

} // namespace

EndpointSink::EndpointSink(SimClock &clock, Random &random, Trace &trace, Network &network,
                           ProducerWatch &watch, const EndpointSettings &settings, ProducerId id,
                           const char *name)
    : clock_(clock), random_(random), trace_(trace), network_(network), watch_(watch),
      settings_(settings), id_(id), name_(name)
{
    for (Connection &connection : connections_)
        connection.sink = this;
    backoff_.configure(settings.backoff_initial_ms, settings.backoff_max_ms);
    trace_.say("sink %llu (%s) begins", static_cast<unsigned long long>(id_), name_);
}

ProduceResult
EndpointSink::produce(const Record &record, Failure &why) noexcept
{
    if (fatal(why))
        return ProduceResult::failed;
    if (outstanding_ >= settings_.max_queued)
        return ProduceResult::queue_full;
    Payload payload;
    std::memcpy(&payload, record.value, sizeof(payload));
    Message message;
    message.event = payload.event;
    message.key = record.key;
    message.bytes = payload.bytes;
    message.invalid = payload.invalid;
    message.tag = record.tag;
    message.replay = replay_of(record);
    lanes_[{std::string(record.topic), message.key}].waiting.push_back(std::move(message));
    outstanding_++;
    watch_.handed_over(payload.event, std::string_view(name_) == "stream");
    return ProduceResult::queued;
}

// --- What the engine hears ---

void
EndpointSink::drop(const Message &message)
{
    outstanding_--;
    if (message.in_doubt)
        watch_.in_doubt(message.event);
}

std::size_t
EndpointSink::report_refusal(SinkListener &listener, const Report &report)
{
    std::size_t served = 1;
    drop(report.message);
    listener.failed(report.message.tag, report.failure);
    Failure consequence = report.failure;
    consequence.consequence = true;
    const auto lane = lanes_.find(report.lane);
    const std::deque<Message> waiting = std::move(lane->second.waiting);
    lanes_.erase(lane);
    for (const Message &message : waiting)
    {
        served++;
        drop(message);
        listener.failed(message.tag, consequence);
    }
    return served;
}

// It sends nothing more, and gives back all that it has.
std::size_t
EndpointSink::report_end(SinkListener &listener, const Report &report)
{
    drop(report.message);
    watch_.is_left();
    listener.failed(report.message.tag, report.failure);
    return 1;
}

// A record whose answer nobody has heard is one of them.
std::size_t
EndpointSink::give_up_all(SinkListener &listener)
{
    std::size_t served = 0;
    const std::map<Key, Lane> lanes = std::move(lanes_);
    lanes_.clear();
    for (const auto &item : lanes)
        for (const Message &message : item.second.waiting)
        {
            served++;
            drop(message);
            listener.failed(message.tag, purged());
        }
    return served;
}

std::size_t
EndpointSink::serve(SinkListener &listener, std::size_t max_events) noexcept
{
    news_ = false;
    std::size_t served = 0;
    while (!reports_.empty() && served < max_events)
    {
        const Report report = std::move(reports_.front());
        reports_.pop_front();
        switch (report.kind)
        {
        case Report::Kind::trouble:
            listener.trouble(report.failure);
            served++;
            break;
        case Report::Kind::refused:
            served += report_refusal(listener, report);
            break;
        case Report::Kind::never_again:
            served += report_end(listener, report);
            break;
        case Report::Kind::delivered:
            outstanding_--;
            served++;
            watch_.acknowledged(report.message.event);
            listener.delivered(report.message.tag);
            break;
        }
    }
    if (reports_.empty() && (dead_ || purged_))
        served += give_up_all(listener);
    news_ = !reports_.empty();
    return served;
}

bool
EndpointSink::fatal(Failure &why) const noexcept
{
    if (dead_ && left_)
        set_failure(why, FailureClass::gone, name_of(Answer::never_again), "it has heard so");
    else if (dead_)
        set_failure(why, FailureClass::fatal, "DEAD", "the sink has died");
    return dead_;
}

bool
EndpointSink::visit_begun(int age_ms, const std::function<void(std::uint64_t tag)> &visit) const
{
    const Time before = clock_.at() - age_ms * kMs;
    for (const auto &item : lanes_)
        if (!item.second.waiting.empty() && item.second.begun_at <= before)
            visit(item.second.waiting.front().tag);
    return true;
}

void
EndpointSink::purge() noexcept
{
    trace_.say("sink %llu (%s) is purged", static_cast<unsigned long long>(id_), name_);
    purged_ = news_ = true;
    for (const Request &request : requests_)
    {
        watch_.in_doubt(lanes_.at(request.lane).waiting.front().event);
        for (Connection &connection : connections_)
            network_.forget(connection, request.number);
    }
    requests_.clear();
}

void
EndpointSink::die()
{
    trace_.say("sink %llu (%s) is dead", static_cast<unsigned long long>(id_), name_);
    purge();
    dead_ = true;
}

bool
EndpointSink::close(int) noexcept
{
    if (closed_)
        return true;
    closed_ = true;
    trace_.say("sink %llu (%s) ends with %zu records outstanding",
               static_cast<unsigned long long>(id_), name_, outstanding_);
    purge();
    for (const auto &item : lanes_)
        for (const Message &message : item.second.waiting)
            if (message.in_doubt)
                watch_.in_doubt(message.event);
    for (const Report &report : reports_)
        if (report.kind != Report::Kind::trouble)
            watch_.in_doubt(report.message.event);
    return true;
}

// --- Sending ---

bool
EndpointSink::may_send() const noexcept
{
    return !dead_ && !purged_ && requests_.size() < settings_.max_requests &&
           (!is_failing() || (attempt_at_ <= clock_.at() && requests_.empty()));
}

// One attempt says of all how the endpoint is.
void
EndpointSink::send(const Key &key, Lane &lane)
{
    Message &message = lane.waiting.front();
    Batch batch;
    batch.producer = id_;
    batch.place = {key.first, partition_of(key.second)};
    batch.messages.push_back(message);
    Connection &connection =
        connections_[static_cast<unsigned char>(key.second.back()) % connections_.size()];
    lane.on_its_way = true;
    lane.begun_at = std::min(lane.begun_at, clock_.at());
    // It is in doubt from now on until it is answered.
    if (message.in_doubt)
        watch_.in_doubt(message.event);
    message.in_doubt = false;
    const bool slow = key.second == "key" + std::to_string(settings_.slow_key);
    const Time later = slow ? 5 * kSecond : 0;
    requests_.push_back({network_.send(connection, kEndpoint, batch, later), key});
    trace_.say("sink %llu (%s) sends event %d", static_cast<unsigned long long>(id_), name_,
               message.event);
}

void
EndpointSink::advance()
{
    for (auto &item : lanes_)
    {
        if (!may_send())
            return;
        Lane &lane = item.second;
        if (!lane.on_its_way && !lane.refused && !lane.waiting.empty())
            send(item.first, lane);
    }
}

Time
EndpointSink::next_event_at() const
{
    const bool any = std::any_of(lanes_.begin(), lanes_.end(),
                                 [](const auto &item) {
                                     return !item.second.on_its_way && !item.second.refused &&
                                            !item.second.waiting.empty();
                                 });
    if (!any || dead_ || purged_ || requests_.size() >= settings_.max_requests)
        return kNever;
    if (!is_failing())
        return clock_.at();
    return requests_.empty() ? std::max(attempt_at_, clock_.at()) : kNever;
}

// --- Answers ---

void
EndpointSink::refuse(Lane &lane, const Key &key, Answer answer)
{
    Report report;
    report.kind = Report::Kind::refused;
    report.lane = key;
    report.message = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.begun_at = kNever;
    lane.refused = true;
    if (answer == Answer::never_again)
    {
        report.kind = Report::Kind::never_again;
        set_failure(report.failure, FailureClass::gone, name_of(answer), "as the endpoint says");
        reports_.push_back(std::move(report));
        left_ = true;
        return die();
    }
    const bool topic = answer == Answer::unknown_topic || answer == Answer::not_authorized;
    set_failure(report.failure, topic ? FailureClass::topic : FailureClass::event, name_of(answer),
                "as the endpoint says");
    watch_.refused_alone(report.message.event, topic);
    reports_.push_back(std::move(report));
}

void
EndpointSink::answered(std::uint64_t number, Answer answer)
{
    const auto found =
        std::find_if(requests_.begin(), requests_.end(),
                     [&](const Request &request) { return request.number == number; });
    if (found == requests_.end())
        return;
    const Key key = found->lane;
    requests_.erase(found);
    Lane &lane = lanes_.at(key);
    lane.on_its_way = false;
    if (answer == Answer::lost)
    {
        lane.waiting.front().in_doubt = true;
        return; // lose_connection() follows
    }
    backoff_.succeed();
    news_ = true;
    if (answer != Answer::accepted)
        return refuse(lane, key, answer);
    Report report;
    report.lane = key;
    report.message = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    lane.begun_at = kNever;
    reports_.push_back(std::move(report));
    if (lane.waiting.empty())
        lanes_.erase(key);
}

void
EndpointSink::lose_connection()
{
    if (dead_ || purged_)
        return;
    Report report;
    report.kind = Report::Kind::trouble;
    set_failure(report.failure, FailureClass::retriable, "NO_ANSWER", "the connection broke");
    report.failure.summary = true;
    const std::int64_t pause_ms = backoff_.fail(random_.next());
    report.failure.retry_after_ms = static_cast<int>(pause_ms);
    attempt_at_ = clock_.at() + pause_ms * kMs;
    reports_.push_back(std::move(report));
    news_ = true;
    if (random_.percent(settings_.dies))
        die();
}

} // namespace outbox::sim
