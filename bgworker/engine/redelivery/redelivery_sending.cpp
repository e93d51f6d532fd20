#include "redelivery_sending.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace outbox
{

namespace
{

// New events wait for no more than this.
constexpr long kStepMs = 10;
constexpr int kAgainMs = 20;
constexpr int kDueAtOnce = 64;
constexpr int kRowsAtOnce = 128; // of a line in its turn

} // namespace

std::size_t
RedeliverySending::room() const noexcept
{
    return std::min(flights_.room(),
                    kMostRedelivered - std::min(kMostRedelivered, results_.published().size()));
}

void
RedeliverySending::begin_flight(const DeliveryRow &row, const Event &event, const Record &record,
                                const LineGate &gate, bool attempt)
{
    const Steady now = clock_.steady();
    const std::uint16_t counted_as = tally_.topic(event.topic);
    Flights::Flight flight;
    flight.row = row;
    flight.event.created_at = event.emitted_at;
    flight.event.memo.sent_at = now;
    flight.event.memo.bytes = static_cast<std::uint32_t>(size_of(record));
    flight.event.memo.topic = counted_as;
    flight.partition = gate.partition();
    flight.whole = row.lane == topic_lane(event.topic);
    flight.at = now;
    if (attempt && row.lane != key_lane(event.topic, event.key))
        flight.topic = event.topic;
    if (!row.waiting)
        tally_.retried(counted_as);
    flights_.begin(std::move(flight), gate.alone());
}

// Without a record, as it cannot be built: only asks where it would go.
ProduceResult
RedeliverySending::offer(const Event &event, Record *record, const LineGate &gate, Failure &why,
                         bool &no_leader)
{
    Offer offer = {gate};
    ProduceResult result = ProduceResult::failed;
    if (record != nullptr)
    {
        // It is late: a topic may refuse the time when it was created.
        record->timestamp_ms = 0;
        record->tag = flights_.next();
        result = sink_->offer(*record, offer, why);
    }
    else if (has_topic(event))
    {
        Failure refused;
        result = sink_->place(event.topic, event.key, offer, refused);
        if (result == ProduceResult::failed)
            why = refused;
    }
    no_leader = offer.no_leader;
    return result;
}

RedeliverySending::Sent
RedeliverySending::send_one(const DeliveryRow &row, bool attempt)
{
    Line *line = lines_.find(row.lane);
    if (left_.has(row.numbers.seq))
    {
        if (line != nullptr)
            line->behind = left_.find(row.numbers.seq).lane; // which is blocked until it has moved
        return Sent::later;
    }
    Event event;
    if (!source_.find(row.numbers, event))
    {
        // Gone with its partition of the ring, or by hand: nothing is left to publish.
        source_.note_removed(row.numbers);
        results_.add_gone(row.numbers.seq);
        agenda_.stir();
        return Sent::gone;
    }
    Record record;
    Failure why;
    const bool built = source_.build(event, record, why);
    const LineGate gate(lines_, flights_, clock_, event, row, attempt,
                        attempt || (line != nullptr && line->isolating));
    bool no_leader = false;
    const ProduceResult result = offer(event, built ? &record : nullptr, gate, why, no_leader);
    if (line != nullptr)
        line->behind = result == ProduceResult::stopped ? gate.behind() : 0;
    if (result == ProduceResult::stopped && gate.narrower() != 0)
        return join_narrower(row, gate.narrower());
    if (built && result == ProduceResult::queued)
    {
        begin_flight(row, event, record, gate, attempt);
        if (OUTBOX_MUTANT(removes_when_sent))
            results_.add_published(row.numbers.seq);
        return Sent::sent;
    }
    if (result != ProduceResult::failed && result != ProduceResult::queued)
        return Sent::later;
    return refuse(row, why, no_leader ? gate.partition() : 0);
}

RedeliverySending::Sent
RedeliverySending::join_narrower(const DeliveryRow &row, Lane lane)
{
    if (!deliveries_.move_to_lane(row.numbers.seq, lane))
        return Sent::later;
    if (lines_.is_clear(lane))
        lines_.release_part(lane, row.lane);
    lines_.join(lane, row.numbers.seq);
    // It may have been what blocked its line.
    if (!OUTBOX_MUTANT(leaves_lane_blocked))
        lines_.recheck(row.lane);
    return Sent::moved;
}

RedeliverySending::Sent
RedeliverySending::refuse(const DeliveryRow &row, const Failure &why, Lane partition)
{
    // Otherwise it is the sink that has failed.
    if (why.cls != FailureClass::event && why.cls != FailureClass::topic)
        return Sent::later;
    // What is on its way of this line came before it, and may come back.
    const Line *line = lines_.find(row.lane);
    if (row.waiting && line != nullptr && line->in_flight > 0 &&
        !OUTBOX_MUTANT(refuses_out_of_turn))
        return Sent::later;
    results_.add_refused(row, why, partition);
    agenda_.stir();
    return Sent::refused;
}

// The events that are on their way, or were published and still have their row; those of one lane,
// if given.
std::vector<std::int64_t>
RedeliverySending::left_out(const Lane *lane) const
{
    std::vector<std::int64_t> seqs(results_.published());
    flights_.add_seqs(lane, seqs);
    return seqs;
}

// The lanes of which nothing may be tried at present.
std::vector<Lane>
RedeliverySending::unready_lanes(std::uint64_t first_tag)
{
    std::vector<Lane> lanes;
    for (const auto &item : lines_.all())
    {
        const Line &line = item.second;
        if (!lines_.is_ready(line, first_tag) || line.in_flight > 0)
            lanes.push_back(item.first);
    }
    if (!OUTBOX_MUTANT(tries_held_at_once))
        lanes.insert(lanes.end(), lines_.kept_back().begin(), lines_.kept_back().end());
    return lanes;
}

void
RedeliverySending::find_due(std::uint64_t first_tag)
{
    agenda_.set_due_at(deliveries_.next_due_at(left_out(nullptr), unready_lanes(first_tag)));
}

// What belongs before it in its line goes first: it may have come from the stream later. Not before
// one that nothing waits for: that is tried wherever it stands, and behind others that are not. Nor
// what is published, and has its row as a person holds it.
RedeliverySending::Sent
RedeliverySending::try_one(const DeliveryRow &due)
{
    DeliveryRow row = due;
    Line *line = lines_.find(due.lane);
    if (line != nullptr && line->in_flight > 0)
        return Sent::later;
    if (OUTBOX_MUTANT(waits_for_removal) &&
        deliveries_.first_before(due.lane, due.numbers.seq, {}, row) &&
        results_.is_published(row.numbers.seq))
        return Sent::later;
    if (line != nullptr && (due.blocking || OUTBOX_MUTANT(draws_past_failed)) &&
        !OUTBOX_MUTANT(tries_due_first))
        (void) deliveries_.first_before(due.lane, due.numbers.seq, results_.published(), row);
    return send_one(row, true);
}

// A new sink gets for a moment what may go, while there is any, without what ends it most likely.
void
RedeliverySending::read_due(std::uint64_t first_tag, const Moment &now)
{
    constexpr int kOthersFirstMs = 200;
    std::vector<std::int64_t> without = left_out(nullptr);
    const std::size_t on_their_way = without.size();
    const std::vector<Lane> unready = unready_lanes(first_tag);
    const bool others_first = !culprits_.is_empty() &&
                              !has_passed(sink_.opened_at(), now.steady, kOthersFirstMs) &&
                              !OUTBOX_MUTANT(tries_culprits_along);
    if (others_first)
        without.insert(without.end(), culprits_.seqs().begin(), culprits_.seqs().end());
    rows_.clear();
    deliveries_.due(now.time, without, unready, kDueAtOnce, rows_);
    if (!others_first || !rows_.empty() || flights_.size() > 0 || lines_.releasing() > 0)
        return;
    without.resize(on_their_way);
    deliveries_.due(now.time, without, unready, kDueAtOnce, rows_);
}

bool
RedeliverySending::try_due(std::uint64_t first_tag, const Moment &now)
{
    read_due(first_tag, now);
    bool any = false;
    for (const DeliveryRow &row : rows_)
    {
        if (room() == 0)
            break;
        const Sent result = try_one(row);
        any = any || result != Sent::later;
        // It was the head of a line, perhaps, and is not any more.
        if (result == Sent::gone)
            lines_.recheck(row.lane);
        if (has_passed(now.steady, clock_.steady(), kStepMs))
            break;
    }
    agenda_.find_due();
    // A session holds a row, which is not waited for; or a topic is being asked for.
    agenda_.put_off_due(any ? Steady() : plus_ms(Agenda::pace(now), kAgainMs));
    return any;
}

// The last of a line is on its way, or has arrived. Returns true when there is more to do at once.
bool
RedeliverySending::finish(Lane lane, Line &line, Steady now)
{
    constexpr int kClosingMs = 500;
    if (line.has_cursor)
    {
        line.has_cursor = false;
        return true; // some may have joined the line before the place that was reached
    }
    if (line.in_flight == 0 || OUTBOX_MUTANT(clears_lane_early))
    {
        lines_.clear(lane);
        return true;
    }
    if (line.state == Lanes::State::releasing)
        lines_.close(line, now);
    else if (has_passed(line.since, now, kClosingMs))
        lines_.release(lane); // what is new may take long to wait for
    agenda_.try_again(plus_ms(now, kClosingMs));
    return false;
}

// Hands over some of what waits in a lane, in order. Returns true when there may be more to hand
// over at once.
bool
RedeliverySending::release(Lane lane, Steady now, Steady begun)
{
    Line &line = *lines_.find(lane);
    const bool together = line.group >= Line::kWholeGroup && !line.isolating;
    if (!together && line.in_flight > 0)
        return false; // its acknowledgements stir us
    const std::size_t most =
        std::min({static_cast<std::size_t>(kRowsAtOnce), room(),
                  static_cast<std::size_t>(line.group) - std::min(line.group, line.in_flight)});
    if (most == 0)
        return false;
    rows_.clear();
    deliveries_.waiting_of(lane, line.has_cursor ? line.cursor : kLowestSeq, left_out(&lane),
                           static_cast<int>(most), rows_);
    if (rows_.empty())
        return finish(lane, line, now);
    if (line.state == Lanes::State::closing)
        lines_.release(lane);
    for (const DeliveryRow &row : rows_)
    {
        const Sent result = send_one(row, false);
        if (result == Sent::later && line.behind == 0)
            agenda_.try_again(plus_ms(now, kAgainMs));
        if (result == Sent::later || result == Sent::refused)
            return false;
        line.has_cursor = true;
        line.cursor = row.numbers.seq;
        if (has_passed(begun, clock_.steady(), kStepMs) && !OUTBOX_MUTANT(releases_at_once))
            break; // each may have joined another line, with a statement of its own
    }
    return together || line.in_flight == 0;
}

// All lines have their turn before one has it again. There may be tens of thousands, so to find
// them all takes a while: not for each call, and not of the time that is for what they release.
bool
RedeliverySending::release_lines(std::uint64_t first_tag, Steady now)
{
    const auto is_open = [](const Line &line)
    { return line.state == Lanes::State::releasing || line.state == Lanes::State::closing; };
    if (lines_.releasing() == 0)
        return false;
    // Those that were not open then follow at once.
    bool more = !turns_.empty();
    if (turns_.empty())
    {
        for (const auto &item : lines_.all())
            if (is_open(item.second))
                turns_.push_back(item.first);
        std::sort(turns_.begin(), turns_.end(), std::greater<>());
    }
    const Steady begun = clock_.steady();
    while (!turns_.empty())
    {
        const Lane lane = turns_.back();
        turns_.pop_back();
        const Line *line = lines_.find(lane);
        if (line == nullptr || !is_open(*line) || !lines_.is_ready(*line, first_tag) ||
            lines_.is_blocked(line->behind))
            continue;
        more = release(lane, now, begun) || more;
        if (has_passed(begun, clock_.steady(), kStepMs))
            return true;
    }
    return more;
}

bool
RedeliverySending::send(std::uint64_t first_tag, const Moment &now)
{
    bool more = agenda_.is_due(now) && try_due(first_tag, now);
    more = release_lines(first_tag, Agenda::pace(now)) || more;
    sink_->send_now();
    return more;
}

void
RedeliverySending::put_off(const Moment &now) noexcept
{
    const Steady again = plus_ms(Agenda::pace(now), kAgainMs);
    agenda_.put_off_due(again);
    agenda_.try_again(again);
}

} // namespace outbox
