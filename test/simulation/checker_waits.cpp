// What an event may wait for, so that nobody can be blamed for its delay.
#include "checker.h"

#include <algorithm>

namespace outbox::sim
{

Place
Checker::place_of(const EventRow &row) const
{
    const std::string &topic = database_->routes().topics[static_cast<std::size_t>(row.type)];
    return {topic, partition_of("key" + std::to_string(row.key))};
}

bool
Checker::goes_to(const Place &place, const EventRow &row)
{
    const auto key = static_cast<std::size_t>(row.key);
    for (std::size_t next = partitions_.size(); next <= key; next++)
        partitions_.push_back(partition_of("key" + std::to_string(next)));
    return partitions_[key] == place.partition &&
           database_->routes().topics[static_cast<std::size_t>(row.type)] == place.topic;
}

// Whether it may be refused, so that others wait for it.
bool
Checker::is_at_fault(const EventRow &row) const
{
    const Topic *topic =
        cluster_->topic(database_->routes().topics[static_cast<std::size_t>(row.type)]);
    return row.unreadable || row.invalid || topic == nullptr || row.bytes > topic->max_bytes;
}

bool
Checker::is_settled_by_person(const EventRow &row) const
{
    const auto &deliveries = store_->tables().deliveries();
    const auto found = deliveries.find(row.seq);
    return found != deliveries.end() && (found->second.state == DeliveryState::discarded ||
                                         found->second.state == DeliveryState::failed);
}

// A person holds its row, or one that blocks its line; or one of its key that is to follow it to
// another topic.
bool
Checker::waits_for_person(const EventRow &row) const
{
    const auto &deliveries = store_->tables().deliveries();
    if (!store_->holds_rows())
        return false;
    const auto own = deliveries.find(row.seq);
    const bool blocked =
        own != deliveries.end() && std::any_of(deliveries.begin(), deliveries.end(),
                                               [&](const auto &item)
                                               {
                                                   return item.second.lane == own->second.lane &&
                                                          item.second.blocking &&
                                                          !store_->may_change(item.first);
                                               });
    return blocked || !store_->may_change(row.seq) ||
           (routed_types_.count(row.type) > 0 &&
            std::any_of(deliveries.begin(), deliveries.end(),
                        [&](const auto &item) {
                            return !store_->may_change(item.first) &&
                                   database_->row(item.second.event).key == row.key;
                        }));
}

// Whether an event waits for this one until that is settled. Nothing waits for one of another
// topic, or for a discarded one; nor for a later one, unless it was in the stream's producer before
// that was refused, and came back.
bool
Checker::holds_up(int other, int event) const
{
    const EventRow &first = database_->row(other);
    const EventRow &row = database_->row(event);
    const Fact &fact = facts_[static_cast<std::size_t>(event)];
    const auto &tables = store_->tables();
    const auto found = tables.deliveries().find(first.seq);
    const bool discarded =
        found != tables.deliveries().end() && found->second.state == DeliveryState::discarded;
    if (other == event || first.key != row.key || discarded || fact.unplaced ||
        facts_[static_cast<std::size_t>(other)].unplaced ||
        !(is_at_fault(first) || is_settled_by_person(first)))
        return false;
    if (routed_types_.count(first.type) > 0 || routed_types_.count(row.type) > 0)
        return true;
    const bool later =
        facts_[static_cast<std::size_t>(other)].emitted_stamp > fact.committed_stamp ||
        (first.xid == row.xid && first.seq > row.seq);
    return first.type == row.type && (!later || fact.streamed);
}

// One that is in Kafka already, from before a start, is refused as if it were not, if the relay has
// not heard of it.
bool
Checker::waits_for_other(int event) const
{
    const auto &deliveries = store_->tables().deliveries();
    return std::any_of(pending_.begin(), pending_.end(),
                       [&](int other) { return holds_up(other, event); }) ||
           std::any_of(deliveries.begin(), deliveries.end(),
                       [&](const auto &item)
                       {
                           const int other = item.second.event;
                           return !facts_[static_cast<std::size_t>(other)].heard &&
                                  holds_up(other, event);
                       });
}

// What was set aside behind an event that was refused with its topic is tried when that is.
bool
Checker::waits_for_pause(const EventRow &row) const
{
    const auto &deliveries = store_->tables().deliveries();
    const auto own = deliveries.find(row.seq);
    return own != deliveries.end() && paused_lanes_.count(own->second.lane) > 0;
}

void
Checker::look_at_pauses()
{
    paused_lanes_.clear();
    for (const auto &item : store_->tables().deliveries())
        if (item.second.state == DeliveryState::retrying &&
            item.second.next_attempt_at > clock_.wall())
            paused_lanes_.insert(item.second.lane);
}

} // namespace outbox::sim
