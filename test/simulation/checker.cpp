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
    pending_.insert(event);
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
Checker::removed(int event)
{
    if (facts_[static_cast<std::size_t>(event)].copies == 0)
        fail("lost", "event " + std::to_string(event) + " is removed before it was published");
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
}

void
Checker::acknowledged(int event)
{
    facts_[static_cast<std::size_t>(event)].heard = true;
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
    for (const auto &[seq, row] : database_->tables().deliveries)
        if (facts_[static_cast<std::size_t>(row.event)].heard && database_->may_change(seq) &&
            row.state != DeliveryState::discarded)
            fail("repeated", "event " + std::to_string(row.event) +
                                 " was acknowledged, and its row is left to be sent again");
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
    else if (!database_->standby_has(database_->commit_lsn(database_->row(message.event).xid)))
        fail("invented", name + " is in Kafka, and its commit is not on the standby");
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
    routed_types_.insert(type);
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
        if (!database_->tables().blocks.at(static_cast<std::size_t>(row.type)))
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
    const PositionRow &position = database_->tables().position;
    return position.from.visible(row.xid) ||
           (position.to.visible(row.xid) && row.seq <= position.last_seq);
}

void
Checker::relay_starts()
{
    // What was set aside waits until the stream has passed what the relay before had on its way.
    disturbed(6 * kSecond);
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        Fact &fact = facts_[event];
        fact.heard = false;
        const EventRow &row = database_->row(static_cast<int>(event));
        if (fact.copies > 0 &&
            (!is_covered(row) || database_->tables().deliveries.count(row.seq) > 0))
            fact.doubts++;
    }
}

void
Checker::tables_changed()
{
    const auto &deliveries = database_->tables().deliveries;
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

void
Checker::in_flight(std::size_t events, std::size_t most)
{
    if (events > most)
        fail("bounds", std::to_string(events) + " events are in flight, and only " +
                           std::to_string(most) + " may be");
}

void
Checker::turn(Time took)
{
    if (took > kSecond)
        fail("stalled", "a turn of the relay took " + std::to_string(took / kMs) + " ms");
}

void
Checker::rounds(std::size_t count)
{
    constexpr std::size_t kMost = 5000; // a second
    if (clock_.at() - counted_at_ > kSecond)
    {
        counted_at_ = clock_.at();
        rounds_then_ = count;
    }
    if (count - rounds_then_ > kMost)
        fail("spins",
             "the relay took " + std::to_string(count - rounds_then_) + " turns within a second");
}

// --- Liveness ---

Place
Checker::place_of(const EventRow &row) const
{
    const std::string &topic = database_->tables().topics[static_cast<std::size_t>(row.type)];
    return {topic, partition_of("key" + std::to_string(row.key))};
}

// Whether it may be refused, so that others wait for it.
bool
Checker::is_at_fault(const EventRow &row) const
{
    const Topic *topic =
        cluster_->topic(database_->tables().topics[static_cast<std::size_t>(row.type)]);
    return row.unreadable || row.invalid || topic == nullptr || row.bytes > topic->max_bytes;
}

bool
Checker::is_settled_by_person(const EventRow &row) const
{
    const auto &deliveries = database_->tables().deliveries;
    const auto found = deliveries.find(row.seq);
    return found != deliveries.end() && (found->second.state == DeliveryState::discarded ||
                                         found->second.state == DeliveryState::failed);
}

// A person holds its row; or one of its key that is to follow it to another topic.
bool
Checker::waits_for_person(const EventRow &row) const
{
    const auto &deliveries = database_->tables().deliveries;
    return !database_->may_change(row.seq) ||
           (routed_types_.count(row.type) > 0 &&
            std::any_of(deliveries.begin(), deliveries.end(),
                        [&](const auto &item)
                        {
                            return !database_->may_change(item.first) &&
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
    const auto &tables = database_->tables();
    const auto found = tables.deliveries.find(first.seq);
    const bool discarded =
        found != tables.deliveries.end() && found->second.state == DeliveryState::discarded;
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
    const auto &deliveries = database_->tables().deliveries;
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
    const auto &deliveries = database_->tables().deliveries;
    const auto own = deliveries.find(row.seq);
    return own != deliveries.end() &&
           std::any_of(deliveries.begin(), deliveries.end(),
                       [&](const auto &item)
                       {
                           const Delivery &other = item.second;
                           return other.lane == own->second.lane &&
                                  other.state == DeliveryState::retrying &&
                                  other.next_attempt_at > clock_.wall();
                       });
}

// A slow broker answers one request after the other, of each partition in turn; and what waits for
// that may be all that may be in flight.
Time
Checker::longest_turn() const
{
    std::map<int, Time> turns;
    for (const auto &item : cluster_->partitions())
        if (item.second.leader >= 0)
            turns[item.second.leader] += cluster_->broker(item.second.leader).slow_by;
    Time longest = 0;
    for (const auto &item : turns)
        longest = std::max(longest, item.second);
    return stall_ + longest;
}

// A producer that waits for all that it has sent is replaced when nothing was acknowledged for five
// seconds.
Time
Checker::longest_stall() const
{
    constexpr Time kDrains = 5 * kSecond;
    const Time longest = longest_turn();
    const bool drained =
        draining_ || (drained_at_ != kNever && clock_.at() - drained_at_ < longest);
    return longest + (drained ? kDrains : 0);
}

void
Checker::check_place(const Place &place, PlaceFacts &facts)
{
    const Time now = clock_.at();
    const Time well_since = cluster_->well_since(place);
    // What was sent to a leader that hung is given up by its client after a minute.
    constexpr Time kSocketTimeout = 61 * kSecond;
    const Time hung_at = cluster_->partition(place).hung_at;
    const bool hung = hung_at != 0 && now - hung_at < kSocketTimeout;
    facts.clean = facts.clean && facts.well_since == well_since && !hung;
    facts.well_since = well_since;
    if (well_since == kNever)
        return;
    bool any = false;
    for (const int event : pending_)
    {
        const EventRow &row = database_->row(event);
        if (!(place_of(row) == place))
            continue;
        any = true;
        // What a person may have to settle, and what waits for that, has no limit.
        if (is_at_fault(row) || is_settled_by_person(row))
            continue;
        const bool waits = waits_for_other(event);
        Fact &fact = facts_[static_cast<std::size_t>(event)];
        // Nobody waits for a person, and what one holds waits.
        if (waits_for_person(row))
            fact.settled_at = now;
        if (waits_for_pause(row))
            fact.paused_at = now;
        const Time since = std::max({fact.committed_at, fact.routed_at, fact.settled_at,
                                     undisturbed_since_, in_turn_ ? appended_at_ : 0});
        if (waits || since > now)
            continue;
        // What was set aside waits for all that the stream had sent before.
        const bool set_aside = database_->tables().deliveries.count(row.seq) > 0;
        const Time went = std::max({facts.appended_at, facts.misdirected_until, fact.paused_at,
                                    set_aside ? slowly_appended_at_ : 0});
        if (facts.clean && now - std::max({since, went, facts.well_since}) > longest_stall())
            fail("stalled", "nothing goes to partition " + std::to_string(place.partition) +
                                " of " + place.topic + ", which is well; event " +
                                std::to_string(event) + " waits");
        if (!hung && now - std::max({since, facts.well_since, facts.refused_at}) > patience_)
            fail("stuck", "event " + std::to_string(event) + " does not go to partition " +
                              std::to_string(place.partition) + " of " + place.topic +
                              ", which has been well for long");
    }
    facts.clean = facts.clean || !any;
}

void
Checker::tick()
{
    constexpr Time kPause = 100 * kMs;
    if (clock_.at() - ticked_at_ < kPause)
        return;
    ticked_at_ = clock_.at();
    for (const auto &item : cluster_->partitions())
        check_place(item.first, places_[item.first]);
}

bool
Checker::all_done() const
{
    return std::all_of(pending_.begin(), pending_.end(),
                       [&](int event)
                       {
                           const auto &deliveries = database_->tables().deliveries;
                           const auto found = deliveries.find(database_->row(event).seq);
                           return found != deliveries.end() &&
                                  found->second.state == DeliveryState::discarded;
                       });
}

void
Checker::end()
{
    if (all_done())
        return;
    for (const int event : pending_)
    {
        const auto &deliveries = database_->tables().deliveries;
        const auto found = deliveries.find(database_->row(event).seq);
        if (found != deliveries.end() && found->second.state == DeliveryState::discarded)
            continue;
        constexpr const char *kStates[] = {"WAITING", "RETRYING", "FAILED", "DISCARDED"};
        fail("lost",
             "event " + std::to_string(event) +
                 " was not published, although all was well for long; in "
                 "outbox.deliveries: " +
                 (found == deliveries.end() ? "nothing"
                                            : kStates[static_cast<int>(found->second.state)]));
    }
}

} // namespace outbox::sim
