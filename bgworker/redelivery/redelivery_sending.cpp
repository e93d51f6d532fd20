// How what waits in outbox.deliveries goes out: lines in their order, due events alone.

#include "redelivery.h"

#include "bgworker/guard.h"

#include <algorithm>

namespace outbox
{

namespace
{

// A waiting event may be behind its key and behind its whole topic: the lane that it is not in, and
// whether it is in the topic's.
Lane
other_lane_of(const DeliveryRow &row, EventTables *tables, bool *is_in_topics)
{
    *is_in_topics = false;
    EventRow event;
    EventLine line;
    kafka::Failure ignored; // send() tells of it
    if (!find_event(tables, row.slot, row.xid, row.seq, GetCurrentTimestamp(), &event) ||
        !read_line(event, &line, &ignored))
        return row.lane;
    const Lane whole = topic_lane(line.topic);
    *is_in_topics = row.lane == whole;
    return row.lane == whole ? key_lane(line.topic, line.key) : whole;
}

} // namespace

bool
Redelivery::is_delivered(std::int64_t seq) const noexcept
{
    return std::find(delivered_.begin(), delivered_.end(), seq) != delivered_.end();
}

// Hands one event over; false when there is no room for it.
bool
Redelivery::send(const DeliveryRow &row, EventTables *tables, kafka::Producer *producer)
{
    EventRow event;
    const TimestampTz now = GetCurrentTimestamp();
    if (!find_event(tables, row.slot, row.xid, row.seq, now, &event))
    {
        // Gone with its slot, by somebody's hand: nothing is left to publish.
        note_removed(row.slot, row.seq);
        delivered_.push_back(row.seq);
        return true;
    }
    EventLine line;
    kafka::Record record;
    kafka::Failure why;
    const bool built = read_record(event, now, &line, &record, &why);
    // It is late: a topic may refuse the time when it was created.
    record.timestamp_ms = 0;
    record.tag = first_tag_ + sent_.size();
    const kafka::ProduceResult result =
        built ? producer->produce(record, why) : kafka::ProduceResult::failed;
    if (result == kafka::ProduceResult::queue_full)
        return false;
    // Otherwise it is the producer that has failed.
    const bool own_fault =
        why.cls == kafka::FailureClass::event || why.cls == kafka::FailureClass::topic;
    if (result == kafka::ProduceResult::failed && !own_fault)
        return false;
    const std::uint16_t counted_as = stats_.topic(line.topic);
    const Memo memo = {now, static_cast<std::uint32_t>(size_of(record)), counted_as};
    sent_.push_back({row, false, {event.emitted_at, memo}}); // reserved
    if (!row.waiting && built)
        stats_.retried(counted_as);
    if (result == kafka::ProduceResult::failed)
    {
        sent_.back().done = true;
        note_culprit(row, why);
    }
    return result == kafka::ProduceResult::queued;
}

// The events that are on their way, or have arrived and still have their row.
ArrayType *
Redelivery::seqs_in_flight() const
{
    Datum *seqs = static_cast<Datum *>(palloc(sizeof(Datum) * (sent_.size() + 1)));
    for (size_t i = 0; i < sent_.size(); i++)
        seqs[i] = Int64GetDatum(sent_[i].row.seq);
    return int8_array(seqs, sent_.size());
}

// Hands over what waits in a lane, in order; clears the lane once nothing waits. Returns true when
// there may be more to hand over.
bool
Redelivery::release(Lane lane, EventTables *tables, kafka::Producer *producer)
{
    const auto cursor = sent_up_to_.find(lane);
    const int64 after = cursor == sent_up_to_.end() ? PG_INT64_MIN : cursor->second;
    const int room = static_cast<int>(limit_ - sent_.size() - delivered_.size());
    DeliveryRow *rows = static_cast<DeliveryRow *>(palloc(sizeof(DeliveryRow) * room));
    const int count = waiting_of_lane(lane, after, seqs_in_flight(), rows, room);
    if (count == 0)
    {
        // In flight they keep their order before anything newer.
        if (sent_up_to_.erase(lane) > 0)
            return true; // some may have joined the line before the place that was reached
        lanes_.clear(lane);
        return false;
    }
    for (int i = 0; i < count; i++)
    {
        if (is_delivered(rows[i].seq))
            continue; // its row is only held by somebody
        bool whole;
        const Lane other = other_lane_of(rows[i], tables, &whole);
        // What waits behind its key came before what waits behind the topic.
        const bool joins = lanes_.state(other) == Lanes::State::blocked ||
                           (whole && lanes_.state(other) == Lanes::State::releasing);
        if (other != rows[i].lane && joins)
        {
            if (!move_to_lane(rows[i].seq, other))
                return false;
            note_joined(other, rows[i].seq);
        }
        else if (!send(rows[i], tables, producer))
            break;
        call_cpp([&] { sent_up_to_[lane] = rows[i].seq; });
    }
    return has_room();
}

bool
Redelivery::step(EventTables *tables, kafka::Producer *producer, const FailurePolicy &policy,
                 bool may_release)
{
    note_results(tables, policy);
    if (reload_)
        load();
    if (attempting_ || paused_ || producer == nullptr || !may_release)
        return false;
    scratch_.clear();
    call_cpp(
        [&]
        {
            for (const auto &lane : lanes_.all())
                if (lane.second == Lanes::State::releasing)
                    scratch_.push_back(lane.first);
        });
    bool more = false;
    for (const Lane lane : scratch_)
        if (has_room() && !refused_)
            more = release(lane, tables, producer) || more;
    return more || refused_;
}

// A topic that was refused as a whole is asked for first: librdkafka would keep the record until
// the topic is there, and everything else would wait with it.
bool
Redelivery::topic_takes(const DeliveryRow &row, EventTables *tables, kafka::Producer *producer)
{
    constexpr int kAskMs = 200;
    EventRow event;
    EventLine line;
    kafka::Failure why;
    if (!find_event(tables, row.slot, row.xid, row.seq, GetCurrentTimestamp(), &event) ||
        !read_line(event, &line, &why) || row.lane != topic_lane(line.topic))
        return true;
    if (producer->topic_usable(line.topic, kAskMs, why))
        return true;
    refused_ = true;
    refused_row_ = row;
    refusal_ = why;
    refusal_.cls = kafka::FailureClass::topic;
    return false;
}

bool
Redelivery::give_up_attempt(TimestampTz now) noexcept
{
    constexpr int kAttemptMs = 10000;
    if (!attempting_ || sent_.empty() ||
        !TimestampDifferenceExceeds(attempting_since_, now, kAttemptMs))
        return false;
    refused_ = true;
    refused_row_ = sent_.front().row;
    kafka::describe(refusal_, 0, "not acknowledged for %d seconds", kAttemptMs / 1000);
    refusal_.cls = kafka::FailureClass::topic;
    strlcpy(refusal_.name, "_TIMED_OUT", sizeof(refusal_.name));
    return true;
}

void
Redelivery::send_due(EventTables *tables, kafka::Producer *producer, TimestampTz now)
{
    DeliveryRow row;
    reload_ = true;
    if (!sent_.empty())
        return;
    if (!next_due(now, &row) || is_delivered(row.seq))
    {
        // A person holds it, and nobody waits for persons.
        constexpr int kHeldMs = 1000;
        not_due_before_ = TimestampTzPlusMilliseconds(now, kHeldMs);
        return;
    }
    if (!topic_takes(row, tables, producer))
        return;
    (void) send(row, tables, producer);
    attempting_ = !sent_.empty() && !sent_.back().done;
    attempting_since_ = now;
}

} // namespace outbox
