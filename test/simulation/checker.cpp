#include "checker.h"

#include <algorithm>

namespace outbox::sim
{

void
Checker::fail(const char *kind, const std::string &text)
{
    if (!failure_.empty())
        return;
    kind_ = kind;
    failure_ = text;
    trace_.say("WRONG (%s): %s", kind, text.c_str());
}

void
Checker::emitted(const EventRow &row)
{
    Fact fact;
    fact.unreadable = row.unreadable;
    fact.emitted_stamp = ++stamp_;
    facts_.push_back(fact);
}

void
Checker::committed(int event)
{
    Fact &fact = facts_[static_cast<std::size_t>(event)];
    fact.committed = true;
    fact.committed_stamp = ++stamp_;
    fact.committed_at = clock_.at();
    take(event, (types_ >> database_->row(event).type & 1) != 0);
}

void
Checker::vanished(int event)
{
    Fact &fact = facts_[static_cast<std::size_t>(event)];
    fact.gone = true;
    pending_.erase(event);
    if (fact.copies > 0)
        fail("invented",
             "event " + std::to_string(event) + " is in Kafka, and its transaction has never been");
}

void
Checker::in_doubt(int event)
{
    facts_[static_cast<std::size_t>(event)].doubts++;
}

void
Checker::handed_over(int event, bool by_stream)
{
    Fact &fact = facts_[static_cast<std::size_t>(event)];
    fact.streamed = fact.streamed || by_stream;
    check_may_send("event " + std::to_string(event));
}

void
Checker::acknowledged(int event)
{
    facts_[static_cast<std::size_t>(event)].heard = true;
    acknowledged_++;
}

void
Checker::refused_alone(int event, bool topic)
{
    facts_[static_cast<std::size_t>(event)].refusals += topic ? 0 : 1;
    refusals_ += topic ? 0 : 1;
}

void
Checker::drains(bool begun)
{
    draining_ = begun;
    drained_at_ = clock_.at();
}

void
Checker::relay_has_ended()
{
    check_written();
    check_replays_written();
}

void
Checker::appended(const Place &place, const Message &message)
{
    Fact &fact = facts_[static_cast<std::size_t>(message.event)];
    const std::string name = "event " + std::to_string(message.event);
    if (!fact.committed || fact.gone)
        fail("invented", name + " is in Kafka, and has not committed");
    else if (!database_->is_durable(message.event))
        fail("invented", name + " is in Kafka, and its commit is not on disk");
    else if (!fact.taken)
        fail("untaken", name + " is in Kafka, and the subscription does not take it");
    else if (!database_->standby_has(database_->commit_lsn(database_->row(message.event).xid)))
        fail("invented", name + " is in Kafka, and its commit is not on the standby");
    if (message.replay != 0)
        return replayed(place, message);
    if (fact.copies > 0)
    {
        repeats_++;
        if (fact.copies > fact.doubts)
            fail("repeated", name + " is in Kafka again, and there was no doubt about it");
    }
    else
        check_order(place, message, fact);
    trace_.add(static_cast<std::uint64_t>(message.event));
    pending_.erase(message.event);
    if (fact.copies++ > 0)
        return; // that is no progress
    published_++;
    places_[place].appended_at = appended_at_ = clock_.at();
    if (cluster_->broker(cluster_->partition(place).leader).slow_by > 0)
        slowly_appended_at_ = clock_.at();
}

void
Checker::misdirected(const Place &place, Time until)
{
    Time &known = places_[place].misdirected_until;
    known = std::max(known, until);
}

// Events that a change of routes has brought together in a topic have no order among each other.
// One that was refused while others need not wait for it has no place, before them or behind them.
void
Checker::check_order(const Place &place, const Message &message, const Fact &fact)
{
    std::vector<Appended> &log = keys_[{place.topic, message.key}];
    const EventRow &row = database_->row(message.event);
    for (const Appended &other : log)
    {
        const bool later =
            other.emitted > fact.committed_stamp || (other.xid == row.xid && other.seq > row.seq);
        const bool together = database_->row(other.event).type == row.type
                                  ? other.at > fact.routed_stamp
                                  : routed_types_.count(row.type) == 0 &&
                                        routed_types_.count(database_->row(other.event).type) == 0;
        const bool skipped = fact.skipped || facts_[static_cast<std::size_t>(other.event)].skipped;
        if (later && together && !skipped && !order_excused_)
            fail("order", "event " + std::to_string(message.event) + " of key " + message.key +
                              " is in " + place.topic + " behind event " +
                              std::to_string(other.event) + ", which came after it");
    }
    log.push_back({message.event, row.xid, row.seq, fact.emitted_stamp, ++stamp_});
}

void
Checker::routed(int type)
{
    stamp_++;
    routed_types_[type] = stamp_;
    for (std::size_t event = 0; event < facts_.size(); event++)
        if (database_->row(static_cast<int>(event)).type == type)
        {
            facts_[event].routed_stamp = stamp_;
            facts_[event].routed_at = clock_.at();
        }
}

void
Checker::settled(int event)
{
    for (const int other : pending_)
        if (database_->row(other).key == database_->row(event).key)
            facts_[static_cast<std::size_t>(other)].settled_at = clock_.at();
}

// Others may be on their way, as they need not wait for it, before its refusal is written down.
void
Checker::repaired()
{
    for (const int event : pending_)
    {
        const EventRow &row = database_->row(event);
        if (!row.unreadable)
            continue;
        if (!database_->routes().blocks.at(static_cast<std::size_t>(row.type)))
            facts_[static_cast<std::size_t>(event)].skipped = true;
        settled(event);
    }
}

void
Checker::limits(const std::string &topic)
{
    for (const int event : pending_)
    {
        const EventRow &row = database_->row(event);
        if (place_of(row).topic == topic && row.bytes > cluster_->topic(topic)->max_bytes)
            settled(event);
    }
}

bool
Checker::is_covered(const EventRow &row) const
{
    const PositionRow &position = store_->tables().position;
    return position.from.visible(row.xid) ||
           (position.to.visible(row.xid) && row.seq <= position.last_seq);
}

void
Checker::relay_starts()
{
    // What was set aside waits until the stream has passed what the relay before had on its way.
    disturbed(6 * kSecond);
    tick_written_at_ = kNever;
    left_ = false;
    saves_ = saves_then_ = 0;
    kept_since_ = kNever;
    waiting_ = 0;
    for (auto &item : replays_)
    {
        item.second.heard.clear();
        item.second.tried.merge(item.second.handed);
    }
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        Fact &fact = facts_[event];
        fact.heard = false;
        const EventRow &row = database_->row(static_cast<int>(event));
        const bool has_row = store_->tables().deliveries().count(row.seq) > 0;
        if (fact.copies > 0 && (!is_covered(row) || has_row))
            fact.doubts++;
        fact.countable = fact.countable || (fact.copies > 0 && !has_row);
    }
}

void
Checker::tables_changed()
{
    check_position();
    const auto &deliveries = store_->tables().deliveries();
    for (const int event : pending_)
    {
        const EventRow &row = database_->row(event);
        const auto found = deliveries.find(row.seq);
        const bool set_aside = found != deliveries.end() && found->second.event == event;
        Fact &fact = facts_[static_cast<std::size_t>(event)];
        if (set_aside && found->second.state != DeliveryState::waiting && !found->second.blocking)
            fact.skipped = fact.unplaced = true;
        else if (!set_aside) // a crash has had that forgotten
            fact.unplaced = false;
        if (alone_ && set_aside && found->second.state == DeliveryState::failed &&
            fact.refusals == 0 && !fact.unreadable)
            fail("blamed", "event " + std::to_string(event) +
                               " has FAILED, and the destination has never refused it");
        if (!set_aside && is_covered(row))
            fail("lost", "the position has passed event " + std::to_string(event) +
                             ", which is neither in Kafka nor in outbox.deliveries");
    }
}

void
Checker::refused(const Place &place)
{
    PlaceFacts &facts = places_[place];
    facts.refused_at = clock_.at();
    facts.clean = false;
}

bool
Checker::all_done() const
{
    return std::all_of(pending_.begin(), pending_.end(),
                       [&](int event)
                       {
                           const auto &deliveries = store_->tables().deliveries();
                           const auto found = deliveries.find(database_->row(event).seq);
                           return found != deliveries.end() &&
                                  found->second.state == DeliveryState::discarded;
                       });
}

// An event counts when the position has passed it and it has no row; again, at most, when it was
// sent again. After a crash it may be read and set aside again although it was counted.
void
Checker::check_total()
{
    std::int64_t least = 0;
    std::int64_t most = static_cast<std::int64_t>(repeats_);
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        const Fact &fact = facts_[event];
        const EventRow &row = database_->row(static_cast<int>(event));
        if (fact.copies == 0 || !fact.taken)
            continue;
        const bool has_row = store_->tables().deliveries().count(row.seq) > 0;
        most += !has_row || fact.countable ? 1 : 0;
        least += !has_row && is_covered(row) ? 1 : 0;
    }
    const std::int64_t total = store_->tables().position.published_total;
    if (total_known_ && (total < least || total > most))
        fail("total", std::to_string(least) + " to " + std::to_string(most) +
                          " events were published, and published_total is " +
                          std::to_string(total));
}

void
Checker::end()
{
    if (store_->tables().detached)
        fail("held", "the subscription was not attached again");
    constexpr const char *kStates[] = {"WAITING", "RETRYING", "FAILED", "DISCARDED"};
    for (const int event : pending_)
    {
        const auto &deliveries = store_->tables().deliveries();
        const auto found = deliveries.find(database_->row(event).seq);
        if (found == deliveries.end() || found->second.state != DeliveryState::discarded)
            fail("lost",
                 "event " + std::to_string(event) +
                     " was not published, although all was well for long; in "
                     "outbox.deliveries: " +
                     (found == deliveries.end() ? "nothing"
                                                : kStates[static_cast<int>(found->second.state)]));
    }
    check_replays();
    check_total();
    if (!has_passed_all())
        fail("held", "the position has not passed all events, although all was well for long");
    if (waiting_ != 0)
        fail("backlog", std::to_string(waiting_) + " events are shown as waiting, and none is");
}

} // namespace outbox::sim
