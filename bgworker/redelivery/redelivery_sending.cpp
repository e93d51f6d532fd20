// How what waits in outbox.deliveries goes out: due events alone, lines in their order and in turn.

#include "redelivery.h"

#include "bgworker/guard.h"

#include <algorithm>

namespace outbox
{

namespace
{

// New events wait for no more than this.
constexpr long kStepMs = 10;
constexpr int kDueAtOnce = 64;
constexpr int kRowsAtOnce = 128; // of a line in its turn

} // namespace

// An event may wait behind its key, its partition, or its whole topic. What waits behind the key
// came before what waits behind the partition, and that before what waits behind the topic: so it
// joins the narrower line when there is one, and the wider one only while that cannot go either.
class Redelivery::Gate final : public kafka::PartitionGate
{
public:
    Gate(const Redelivery &owner, std::string_view topic, Lane key, const DeliveryRow &row,
         bool alone)
        : owner_(owner), topic_(topic), key_(key), row_(row), alone_(alone)
    {
    }

    // Where it belongs as far as that is known without its partition; 0: here.
    Lane other() const noexcept
    {
        const Lane whole = topic_lane(topic_);
        if (row_.lane != key_ && owner_.wait_of(key_) != Wait::none)
            return key_;
        if (row_.waiting && row_.lane != whole &&
            owner_.lanes_.state(whole) == Lanes::State::blocked)
            return whole;
        return 0;
    }

    bool may_pass(std::int32_t partition) const noexcept override
    {
        partition_ = partition_lane(topic_, partition);
        const Lanes::State state = owner_.lanes_.state(partition_);
        const bool in_topics = row_.lane == topic_lane(topic_);
        if (row_.lane != partition_ && row_.waiting &&
            (in_topics ? state != Lanes::State::clear : state == Lanes::State::blocked))
        {
            other_ = partition_;
            return false;
        }
        const auto use = owner_.uses_.find(partition_);
        return use == owner_.uses_.end() || (!alone_ && !use->second.exclusive);
    }

    Lane partition() const noexcept { return partition_; }
    Lane stopped_by() const noexcept { return other_; }
    bool alone() const noexcept { return alone_; }

private:
    const Redelivery &owner_;
    std::string_view topic_;
    Lane key_;
    const DeliveryRow &row_;
    bool alone_;
    mutable Lane partition_ = 0;
    mutable Lane other_ = 0;
};

bool
Redelivery::is_delivered(std::int64_t seq) const noexcept
{
    return std::find(delivered_.begin(), delivered_.end(), seq) != delivered_.end();
}

bool
Redelivery::is_ready(const Line &line, std::uint64_t first_tag) const noexcept
{
    return line.afloat == 0 && line.barrier <= first_tag;
}

void
Redelivery::note_sent(const DeliveryRow &row, const EventRow &event, const EventLine &line,
                      const kafka::Record &record, const Gate &gate, bool attempt, std::size_t slot)
{
    const TimestampTz now = GetCurrentTimestamp();
    const std::uint16_t counted_as = stats_.topic(line.topic);
    Sent &sent = sent_[slot];
    free_.pop_back();
    sent.used = true;
    sent.row = row;
    sent.event.created_at = event.emitted_at;
    sent.event.memo.sent_at = now;
    sent.event.memo.bytes = static_cast<std::uint32_t>(size_of(record));
    sent.event.memo.topic = counted_as;
    sent.partition = gate.partition();
    sent.at = now;
    if (!row.waiting)
        stats_.retried(counted_as);
    Line *known = lanes_.find(row.lane);
    if (known != nullptr)
    {
        known->in_flight++;
        known->late = false;
    }
    call_cpp(
        [&]
        {
            Use &use = uses_[gate.partition()];
            use.count++;
            use.exclusive = gate.alone();
            if (attempt && row.lane != key_lane(line.topic, line.key))
                sent.topic = line.topic;
            else
                sent.topic.clear();
        });
}

Redelivery::Send
Redelivery::send(const DeliveryRow &row, bool attempt, EventTables *tables)
{
    EventRow event;
    const TimestampTz now = GetCurrentTimestamp();
    if (!find_event(tables, row.slot, row.xid, row.seq, now, &event))
    {
        // Gone with its slot, by somebody's hand: nothing is left to publish.
        note_removed(row.slot, row.seq);
        call_cpp([&] { delivered_.push_back(row.seq); });
        stirred_ = true;
        return Send::gone;
    }
    EventLine line;
    kafka::Record record;
    kafka::Failure why;
    const bool built = read_record(event, now, &line, &record, &why);
    Lane partition = 0;
    kafka::ProduceResult result = kafka::ProduceResult::failed;
    const std::size_t slot = free_.back();
    if (built)
    {
        const Line *known = lanes_.find(row.lane);
        const Gate gate(*this, line.topic, key_lane(line.topic, line.key), row,
                        attempt || (known != nullptr && known->isolating));
        // It is late: a topic may refuse the time when it was created.
        record.timestamp_ms = 0;
        Lane other = gate.other();
        kafka::Offer offer = {gate};
        record.tag = slot;
        if (other == 0)
            result = producer_->offer(record, offer, why);
        if (result == kafka::ProduceResult::queued)
        {
            note_sent(row, event, line, record, gate, attempt, slot);
            return Send::sent;
        }
        if (result == kafka::ProduceResult::stopped)
            other = gate.stopped_by();
        if (other != 0)
            return move_to_lane(row.seq, other) ? Send::moved : Send::later;
        if (result != kafka::ProduceResult::failed)
            return Send::later;
        partition = offer.no_leader ? gate.partition() : 0;
    }
    // Otherwise it is the producer that has failed.
    if (why.cls != kafka::FailureClass::event && why.cls != kafka::FailureClass::topic)
        return Send::later;
    call_cpp([&] { refused_.push_back({row, why, partition}); });
    stirred_ = true;
    return Send::refused;
}

// The events that are on their way, or have arrived and still have their row; those of one lane, if
// given.
ArrayType *
Redelivery::seqs_in_flight(const Lane *lane) const
{
    Datum *seqs =
        static_cast<Datum *>(palloc(sizeof(Datum) * (in_flight() + delivered_.size() + 1)));
    std::size_t count = 0;
    for (const std::int64_t seq : delivered_)
        seqs[count++] = Int64GetDatum(seq);
    for (const Sent &sent : sent_)
        if (sent.used && (lane == nullptr || sent.row.lane == *lane))
            seqs[count++] = Int64GetDatum(sent.row.seq);
    return int8_array(seqs, count);
}

// The lanes of which nothing may be tried at present.
ArrayType *
Redelivery::unready_lanes(std::uint64_t first_tag)
{
    Datum *lanes = static_cast<Datum *>(palloc(sizeof(Datum) * (lanes_.size() + 1)));
    std::size_t count = 0;
    for (const auto &item : lanes_.all())
    {
        const Line &line = item.second;
        if (line.in_flight > 0 || !is_ready(line, first_tag))
            lanes[count++] = Int64GetDatum(static_cast<int64>(item.first));
        waits_for_stream_ = waits_for_stream_ || line.barrier > first_tag;
    }
    return int8_array(lanes, count);
}

// What belongs before it in its line goes first: it may have come from the stream later.
Redelivery::Send
Redelivery::try_one(const DeliveryRow &due, EventTables *tables)
{
    DeliveryRow row = due;
    Line *line = lanes_.find(due.lane);
    if (line != nullptr && line->in_flight > 0)
        return Send::later;
    if (line != nullptr && first_before(due.lane, due.seq, &row) && is_delivered(row.seq))
        return Send::later;
    return send(row, true, tables);
}

bool
Redelivery::try_due(EventTables *tables, std::uint64_t first_tag, TimestampTz now)
{
    constexpr int kAgainMs = 20;
    DeliveryRow *rows = static_cast<DeliveryRow *>(palloc(sizeof(DeliveryRow) * kDueAtOnce));
    ArrayType *seqs = seqs_in_flight(nullptr);
    ArrayType *lanes = unready_lanes(first_tag);
    const int count = due_rows(now, seqs, lanes, rows, kDueAtOnce);
    bool any = false;
    for (int i = 0; i < count && room() > 0; i++)
    {
        const Send result = try_one(rows[i], tables);
        any = any || result != Send::later;
        if (TimestampDifferenceExceeds(now, GetCurrentTimestamp(), kStepMs))
            break;
    }
    find_due_ = true;
    // A person holds a row, and nobody waits for persons; or a topic is being asked for.
    not_due_before_ = any ? 0 : TimestampTzPlusMilliseconds(now, kAgainMs);
    return any;
}

// The last of a line is on its way, or has arrived. Returns true when there is more to do at once.
bool
Redelivery::finish(Lane lane, Line &line, TimestampTz now)
{
    constexpr int kClosingMs = 500;
    if (line.has_cursor)
    {
        line.has_cursor = false;
        return true; // some may have joined the line before the place that was reached
    }
    if (line.in_flight == 0)
    {
        lanes_.clear(lane);
        stirred_ = true;
        return true;
    }
    if (line.state == Lanes::State::releasing)
        lanes_.close(line, now);
    else if (TimestampDifferenceExceeds(line.since, now, kClosingMs))
        call_cpp([&] { lanes_.release(lane); }); // what is new may take long to wait for
    return false;
}

// Hands over some of what waits in a lane, in order. Returns true when there may be more to hand
// over at once.
bool
Redelivery::release(Lane lane, EventTables *tables, TimestampTz now)
{
    Line &line = *lanes_.find(lane);
    const bool together = line.group >= Line::kWholeGroup && !line.isolating;
    if (!together && line.in_flight > 0)
        return false; // its acknowledgements stir us
    const std::size_t most =
        std::min({static_cast<std::size_t>(kRowsAtOnce), room(),
                  static_cast<std::size_t>(line.group) - std::min(line.group, line.in_flight)});
    if (most == 0)
        return false;
    DeliveryRow *rows = static_cast<DeliveryRow *>(palloc(sizeof(DeliveryRow) * most));
    const int64 after = line.has_cursor ? line.cursor : PG_INT64_MIN;
    const int count =
        waiting_of_lane(lane, after, seqs_in_flight(&lane), rows, static_cast<int>(most));
    if (count == 0)
        return finish(lane, line, now);
    if (line.state == Lanes::State::closing)
        call_cpp([&] { lanes_.release(lane); });
    for (int i = 0; i < count; i++)
    {
        const Send result = send(rows[i], false, tables);
        if (result == Send::later || result == Send::refused)
            return false;
        line.has_cursor = true;
        line.cursor = rows[i].seq;
    }
    return together || line.in_flight == 0;
}

bool
Redelivery::release_lanes(EventTables *tables, std::uint64_t first_tag, TimestampTz now)
{
    if (lanes_.releasing() == 0)
        return false;
    scratch_.clear();
    call_cpp(
        [&]
        {
            for (const auto &item : lanes_.all())
                if (item.second.state == Lanes::State::releasing ||
                    item.second.state == Lanes::State::closing)
                    scratch_.push_back(item.first);
            std::sort(scratch_.begin(), scratch_.end());
        });
    const auto first = std::lower_bound(scratch_.begin(), scratch_.end(), next_turn_);
    std::rotate(scratch_.begin(), first, scratch_.end());
    bool more = false;
    for (std::size_t i = 0; i < scratch_.size(); i++)
    {
        const Line *line = lanes_.find(scratch_[i]);
        if (line == nullptr || line->state == Lanes::State::blocked ||
            line->state == Lanes::State::clear)
            continue;
        if (!is_ready(*line, first_tag))
        {
            waits_for_stream_ = true;
            continue;
        }
        more = release(scratch_[i], tables, now) || more;
        if (TimestampDifferenceExceeds(now, GetCurrentTimestamp(), kStepMs))
        {
            next_turn_ = scratch_[(i + 1) % scratch_.size()];
            return true;
        }
    }
    return more;
}

bool
Redelivery::step(EventTables *tables, const FailurePolicy &policy, std::uint64_t first_tag,
                 bool may_send, TimestampTz now)
{
    stirred_ = false;
    waits_for_stream_ = !may_send;
    note_results(tables, policy);
    if (reload_)
        load();
    stirred_ = false;
    bool more = false;
    const bool due = due_at_ != 0 && Max(due_at_, not_due_before_) <= now;
    if (may_send && !paused_ && (due || lanes_.releasing() > 0) && connect())
    {
        if (due)
            more = try_due(tables, first_tag, now);
        more = release_lanes(tables, first_tag, now) || more;
        producer_->send_now();
    }
    if (find_due_)
    {
        due_at_ = next_due_at(seqs_in_flight(nullptr), unready_lanes(first_tag));
        find_due_ = false;
    }
    return more || stirred_;
}

} // namespace outbox
