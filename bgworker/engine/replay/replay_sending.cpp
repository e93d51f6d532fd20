#include "replay_sending.h"

#include <algorithm>

namespace outbox
{

namespace
{

// New events wait for no more than this.
constexpr std::int64_t kMostAtOnce = 64;
constexpr long kStepMs = 2;

constexpr std::string_view kReplayHeader = "replay_id";

} // namespace

void
ReplaySending::begin(Steady now) noexcept
{
    bucket_.configure(row_.request().rate_per_second, now.us);
}

long
ReplaySending::send(Steady now)
{
    if (sink_.next_attempt_at() > now)
        return ms_between(now, sink_.next_attempt_at());
    if (row_.flight().next() < 0)
        return -1; // an acknowledgement wakes us
    const long wait_ms = (bucket_.us_until_more(now.us) + 999) / 1000;
    if (wait_ms > 0)
        return wait_ms;
    if (!sink_.open())
        return 0;
    const HandOver result = hand_over_some(std::min(bucket_.available(now.us), kMostAtOnce), now);
    sink_->send_now();
    switch (result)
    {
    case HandOver::full:
        return -1;
    case HandOver::locked:
        return kLockedMs;
    default:
        return 0;
    }
}

ReplaySending::HandOver
ReplaySending::hand_over_some(std::int64_t most, Steady now)
{
    if (!replays_.begin())
        return HandOver::locked;
    HandOver result = HandOver::next;
    for (std::int64_t i = 0; i < most && result == HandOver::next && row_.flight().next() >= 0; i++)
    {
        result = hand_over();
        if (has_passed(now, clock_.steady(), kStepMs))
            break;
    }
    replays_.end();
    return result;
}

bool
ReplaySending::find(std::int64_t place, Event &event)
{
    const EventNumbers *numbers = list_.read(replays_, row_.request(), place);
    return numbers != nullptr && numbers->slot >= 0 && numbers->slot < kRingPartitions &&
           source_.find(*numbers, event);
}

// What a record of a replay has of its own. Its header is the only one of that name: emit() refuses
// it, but rows of earlier versions may have it.
void
ReplaySending::fill_in(Record &record, std::int64_t place)
{
    const ReplayRequest &request = row_.request();
    if (request.topic[0] != '\0')
        record.topic = request.topic;
    record.timestamp_ms = 0; // now: what is old by its time, topics may delete at once
    record.tag = static_cast<std::uint64_t>(place);
    headers_.clear();
    headers_.push_back({kReplayHeader, request.id_text, false});
    for (std::size_t i = 0; i < record.header_count; i++)
        if (record.headers[i].name != kReplayHeader)
            headers_.push_back(record.headers[i]);
    record.headers = headers_.data();
    record.header_count = headers_.size();
}

// The event cannot be sent.
ReplaySending::HandOver
ReplaySending::leave_out(std::int64_t place, const Failure &why) noexcept
{
    sink_.note_refusal(place, why);
    row_.flight().left_out(false);
    return HandOver::next;
}

ReplaySending::HandOver
ReplaySending::hand_over()
{
    ReplayFlight &flight = row_.flight();
    const std::int64_t place = flight.next();
    Event event;
    if (!find(place, event))
    {
        flight.left_out(true);
        return HandOver::next;
    }
    Record record;
    Failure why;
    if (!source_.build(event, record, why))
        return leave_out(place, why);
    fill_in(record, place);
    const std::size_t size = size_in_flight(record);
    if (!flight.has_room(size))
        return HandOver::full;
    switch (sink_->produce(record, why))
    {
    case ProduceResult::queued:
        flight.sent(size);
        bucket_.take(1);
        return HandOver::next;
    case ProduceResult::queue_full:
    case ProduceResult::not_yet:
    case ProduceResult::stopped:
        return HandOver::full;
    case ProduceResult::failed:
        break;
    }
    if (why.cls == FailureClass::event || why.cls == FailureClass::topic)
        return leave_out(place, why);
    sink_.note_not_queued(why);
    return HandOver::halted;
}

} // namespace outbox
