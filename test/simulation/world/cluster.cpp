#include "cluster.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

// How many batches of a producer a leader remembers.
constexpr std::size_t kRemembered = 5;

// Who answers later than this is not well.
constexpr Time kSlow = 200 * kMs;

} // namespace

const char *
name_of(Answer answer) noexcept
{
    constexpr const char *kNames[] = {"accepted",
                                      "lost",
                                      "NOT_LEADER_FOR_PARTITION",
                                      "NOT_ENOUGH_REPLICAS",
                                      "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
                                      "MSG_SIZE_TOO_LARGE",
                                      "INVALID_RECORD",
                                      "TOPIC_AUTHORIZATION_FAILED",
                                      "OUT_OF_ORDER_SEQUENCE_NUMBER",
                                      "UNKNOWN_TOPIC_OR_PART",
                                      "GONE"};
    return kNames[static_cast<int>(answer)];
}

Cluster::Cluster(SimClock &clock, Random &random, Trace &trace, LogReader &reader, int topics)
    : clock_(clock), random_(random), trace_(trace), reader_(reader)
{
    for (int i = 0; i < topics; i++)
    {
        const std::string name = "topic" + std::to_string(i);
        topics_[name] = {};
        for (std::int32_t partition = 0; partition < kPartitions; partition++)
            partitions_[{name, partition}].leader = static_cast<int>(random_.below(kBrokers));
    }
}

Topic *
Cluster::topic(const std::string &name)
{
    const auto found = topics_.find(name);
    return found == topics_.end() ? nullptr : &found->second;
}

void
Cluster::be_endpoint()
{
    endpoint_ = true;
    for (auto &item : partitions_)
        item.second.leader = 0;
}

// A record that is there already is taken again.
Answer
Cluster::take(const Batch &batch)
{
    const Topic *known = topic(batch.place.topic);
    const Message &message = batch.messages.front();
    if (wants_no_more_)
        return Answer::never_again;
    if (known == nullptr || !known->exists)
        return Answer::unknown_topic;
    if (!known->authorized)
        return Answer::not_authorized;
    if (message.bytes > known->max_bytes)
        return Answer::too_large;
    if (message.invalid && known->checks_records)
        return Answer::invalid;
    reader_.appended(batch.place, message);
    return Answer::accepted;
}

bool
Cluster::any_broker_answers() const noexcept
{
    if (endpoint_)
        return brokers_[0].up && !brokers_[0].hangs && !wants_no_more_;
    return std::any_of(brokers_.begin(), brokers_.end(),
                       [](const Broker &broker) { return broker.up && !broker.hangs; });
}

bool
Cluster::repeats(const ProducerState &state, std::int64_t first, std::int64_t last) const
{
    return std::find(state.batches.begin(), state.batches.end(), std::make_pair(first, last)) !=
           state.batches.end();
}

// A leader that knows nothing of a producer takes any number, as Kafka's brokers do.
bool
Cluster::follows(const ProducerState &state, const Batch &batch) const
{
    if (state.epoch == -1)
        return !begins_at_zero_ || batch.first_sequence == 0;
    if (batch.epoch > state.epoch)
        return batch.first_sequence == 0;
    return batch.epoch == state.epoch && !state.batches.empty() &&
           batch.first_sequence == state.batches.back().second + 1;
}

Answer
Cluster::append(int number, const Batch &batch)
{
    if (endpoint_)
        return take(batch);
    const auto found = partitions_.find(batch.place);
    const Topic *known = topic(batch.place.topic);
    if (found == partitions_.end() || known == nullptr || !known->exists)
        return Answer::unknown_topic;
    if (!known->authorized)
        return Answer::not_authorized;
    Partition &log = found->second;
    if (log.leader != number)
        return Answer::not_leader;
    int bytes = 0;
    bool invalid = false;
    for (const Message &message : batch.messages)
    {
        bytes += message.bytes;
        invalid = invalid || message.invalid;
    }
    // Before it looks whether this is a repeat, so a repeat may be refused that it has taken.
    if (bytes > known->max_bytes)
        return Answer::too_large;
    if (invalid && known->checks_records)
        return Answer::invalid;
    if (log.short_of_replicas && !log.writes_when_short)
        return Answer::not_enough;
    const Answer accepted = log.short_of_replicas ? Answer::not_enough_after : Answer::accepted;
    ProducerState &state = log.producers[batch.producer];
    const std::int64_t last =
        batch.first_sequence + static_cast<std::int64_t>(batch.messages.size()) - 1;
    if (batch.epoch == state.epoch && repeats(state, batch.first_sequence, last))
        return accepted;
    if (!follows(state, batch))
        return Answer::out_of_order;
    if (state.epoch != batch.epoch)
        state.batches.clear();
    state.epoch = batch.epoch;
    state.batches.emplace_back(batch.first_sequence, last);
    if (state.batches.size() > kRemembered)
        state.batches.pop_front();
    log.records += batch.messages.size();
    for (const Message &message : batch.messages)
        reader_.appended(batch.place, message);
    return accepted;
}

Time
Cluster::well_since(const Place &place) const
{
    const auto topic = topics_.find(place.topic);
    const auto found = partitions_.find(place);
    if (topic == topics_.end() || found == partitions_.end() || !topic->second.exists ||
        !topic->second.authorized || found->second.leader < 0 || found->second.short_of_replicas)
        return kNever;
    const Broker &leader = broker(found->second.leader);
    if (wants_no_more_ || !leader.up || leader.hangs || leader.answers_to_lose > 0 ||
        leader.slow_by > kSlow)
        return kNever;
    return std::max({topic->second.usable_since, found->second.leader_since, leader.well_since});
}

// Clients ask rarely about what has a leader.
bool
Cluster::may_be_taken_for_leader(const Partition &partition, int broker) const
{
    constexpr Time kAsks = 35 * kSecond;
    const Time until = partition.led_until[static_cast<std::size_t>(broker)];
    return until != 0 && clock_.at() - until < kAsks;
}

void
Cluster::set_broker(int number, bool up, bool hangs)
{
    Broker &changed = broker(number);
    if (changed.up == up && changed.hangs == hangs)
        return;
    trace_.say("broker %d %s", number, !up ? "is down" : hangs ? "hangs" : "is well");
    for (auto &item : partitions_)
        if ((hangs || changed.hangs) &&
            (item.second.leader == number || may_be_taken_for_leader(item.second, number)))
            item.second.hung_at = clock_.at();
    changed.up = up;
    changed.hangs = hangs;
    changed.well_since = clock_.at();
}

void
Cluster::want_no_more(bool so)
{
    if (wants_no_more_ == so)
        return;
    trace_.say("the endpoint %s", so ? "asks never to be called again" : "may be called");
    wants_no_more_ = so;
    broker(0).well_since = clock_.at();
}

void
Cluster::set_leader(const Place &place, int number)
{
    Partition &changed = partition(place);
    if (changed.leader == number)
        return;
    trace_.say("partition %d of %s %s %d", place.partition, place.topic.c_str(),
               number < 0 ? "has no leader:" : "is led by broker", number);
    if (changed.leader >= 0 && broker(changed.leader).hangs)
        changed.hung_at = clock_.at();
    if (changed.leader >= 0)
        changed.led_until[static_cast<std::size_t>(changed.leader)] = clock_.at();
    changed.leader = number;
    changed.leader_since = clock_.at();
}

void
Cluster::set_topic(const std::string &name, bool exists, bool authorized, bool hidden)
{
    Topic &changed = topics_.at(name);
    if (changed.exists == exists && changed.authorized == authorized)
        return;
    trace_.say("topic %s %s", name.c_str(),
               !exists       ? "is missing"
               : !authorized ? "is forbidden"
                             : "is there, and allowed");
    changed.exists = exists;
    changed.authorized = authorized;
    changed.hidden = !authorized && hidden;
    changed.usable_since = clock_.at();
}

void
Cluster::set_replicas(const Place &place, bool enough, bool writes)
{
    Partition &changed = partition(place);
    if (changed.short_of_replicas == !enough)
        return;
    trace_.say("partition %d of %s has %s replicas", place.partition, place.topic.c_str(),
               enough   ? "enough"
               : writes ? "too few, but writes,"
                        : "too few");
    changed.short_of_replicas = !enough;
    changed.writes_when_short = writes;
    changed.leader_since = clock_.at();
}

} // namespace outbox::sim
