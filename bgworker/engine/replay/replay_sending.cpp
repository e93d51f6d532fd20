// How a replay's events go out, and what becomes of them.

#include "replay.h"

#include <algorithm>
#include <cstdio>

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
Replay::note_error(const char *name, const char *text) noexcept
{
    std::snprintf(request_.last_error, sizeof(request_.last_error), "%s: %s", name, text);
    unsaved_ = true;
}

void
Replay::note_refusal(std::int64_t place, const Failure &failure) noexcept
{
    const std::int64_t index = place - chunk_number_ * Replays::kChunk;
    if (chunk_number_ < 0 || index < 0 || index >= static_cast<std::int64_t>(chunk_.size()))
    {
        note_error(failure.name, failure.text);
        return;
    }
    std::snprintf(request_.last_error, sizeof(request_.last_error), "event with seq %lld: %s: %s",
                  static_cast<long long>(chunk_[static_cast<std::size_t>(index)].seq), failure.name,
                  failure.text);
    unsaved_ = true;
}

void
Replay::halt() noexcept
{
    if (!halted_)
        halted_since_ = clock_.steady();
    halted_ = true;
}

// Something that is no event's fault: everything waits, and is tried again.
void
Replay::note_failure(const Failure &failure) noexcept
{
    const std::int64_t wait = backoff_.fail(clock_.random());
    next_attempt_at_ = plus_ms(clock_.steady(), wait);
    note_error(failure.name, failure.text);
}

void
Replay::delivered(std::uint64_t tag) noexcept
{
    if (!flight_.published(static_cast<std::int64_t>(tag)))
        return;
    published_at_ = clock_.steady();
    backoff_.succeed();
}

// What was refused with its topic overtakes nothing: it was given up before it was sent. Of events
// that a broker refused together any may be the culprit.
void
Replay::failed(std::uint64_t tag, const Failure &failure) noexcept
{
    const std::int64_t place = static_cast<std::int64_t>(tag);
    if (failure.cls == FailureClass::topic)
    {
        if (flight_.refused(place))
            note_refusal(place, failure);
        return;
    }
    if (failure.cls == FailureClass::event)
    {
        if (flight_.suspected(place))
            note_refusal(place, failure);
        batch_too_large_ = failure.too_large;
    }
    else if (!halted_ && !failure.consequence)
        note_failure(failure);
    halt();
}

// librdkafka goes on by itself; what is in its queue goes out when Kafka is back.
void
Replay::trouble(const Failure &failure) noexcept
{
    if (!failure.consequence)
        note_error(failure.name, failure.text);
}

void
Replay::log(int, const char *, const char *) noexcept
{
    // What matters comes as trouble too, and the producer of new events logs the same.
}

void
Replay::hear() noexcept
{
    constexpr std::size_t kEventsPerServe = 1000;
    if (!producer_)
        return;
    (void) producer_->serve(*this, kEventsPerServe);
    Failure why;
    if (halted_ || !producer_->fatal(why))
        return;
    if (!why.consequence)
        note_failure(why);
    halt();
}

// An event that does not come through while others do will not: its topic is not to be had, and
// librdkafka says nothing. While nothing comes through, it is Kafka, and the replay waits.
bool
Replay::watch_stuck(const Chance &chance, Steady now)
{
    constexpr int kStuckMs = 30 * 1000;
    if (flight_.on_their_way() == 0 || flight_.first() != first_ || halted_)
    {
        first_ = flight_.first();
        first_since_ = now;
        return false;
    }
    if (!has_passed(first_since_, now, kStuckMs))
        return false;
    const Steady half_ago = plus_ms(now, -kStuckMs / 2);
    const bool others_flow = std::max(chance.live_published_at, published_at_) > half_ago;
    note_error("_TIMED_OUT", others_flow ? "an event was not acknowledged for 30 seconds, while "
                                           "others were; is its topic there, and may be written?"
                                         : "nothing was acknowledged for 30 seconds");
    first_since_ = now;
    return others_flow;
}

long
Replay::recover(Steady now)
{
    constexpr int kLastReportsMs = 2000;
    constexpr long kPollMs = 20;
    if (producer_ && producer_->outstanding() > 0 &&
        !has_passed(halted_since_, now, kLastReportsMs))
        return kPollMs;
    if (flight_.take_back() < 0 && batch_too_large_)
        oversized_batches_++;
    batch_too_large_ = false;
    drop_producer(0); // new events wait for none of its threads
    halted_ = false;
    return 0;
}

bool
Replay::connect()
{
    if (producer_)
        return true;
    Failure why;
    producer_ = world_.destination.open(Destination::Use::replay, oversized_batches_, why);
    if (!producer_)
        note_failure(why);
    return producer_ != nullptr;
}

long
Replay::send(Steady now)
{
    if (next_attempt_at_ > now)
        return ms_between(now, next_attempt_at_);
    if (flight_.next() < 0)
        return -1; // an acknowledgement wakes us
    const long wait_ms = (bucket_.us_until_more(now.us) + 999) / 1000;
    if (wait_ms > 0)
        return wait_ms;
    if (!connect())
        return 0;
    const HandOver result = hand_over_some(std::min(bucket_.available(now.us), kMostAtOnce), now);
    producer_->send_now();
    switch (result)
    {
    case HandOver::full:
        return -1;
    case HandOver::locked:
        return kHeldMs;
    default:
        return 0;
    }
}

Replay::HandOver
Replay::hand_over_some(std::int64_t most, Steady now)
{
    if (!replays_.begin())
        return HandOver::locked;
    HandOver result = HandOver::next;
    for (std::int64_t i = 0; i < most && result == HandOver::next && flight_.next() >= 0; i++)
    {
        result = hand_over();
        if (has_passed(now, clock_.steady(), kStepMs))
            break;
    }
    replays_.end();
    return result;
}

const EventNumbers *
Replay::place_of(std::int64_t place)
{
    const std::int64_t number = place / Replays::kChunk;
    if (number != chunk_number_)
    {
        chunk_number_ = -1;
        chunk_.clear();
        replays_.read_chunk(request_, number, chunk_);
        chunk_number_ = number;
    }
    const auto index = static_cast<std::size_t>(place % Replays::kChunk);
    return index < chunk_.size() ? &chunk_[index] : nullptr;
}

// The only header of that name: emit() refuses it, but rows of earlier versions may have it.
void
Replay::add_header(Record &record)
{
    headers_.clear();
    headers_.push_back({kReplayHeader, request_.id_text, false});
    for (std::size_t i = 0; i < record.header_count; i++)
        if (record.headers[i].name != kReplayHeader)
            headers_.push_back(record.headers[i]);
    record.headers = headers_.data();
    record.header_count = headers_.size();
}

Replay::HandOver
Replay::hand_over()
{
    const std::int64_t place = flight_.next();
    const EventNumbers *found = place_of(place);
    Event event;
    if (found == nullptr || found->slot < 0 || found->slot >= kRingPartitions ||
        !source_.find(*found, event))
    {
        flight_.left_out(true);
        return HandOver::next;
    }
    Record record;
    Failure why;
    if (!source_.build(event, record, why))
    {
        note_refusal(place, why);
        flight_.left_out(false);
        return HandOver::next;
    }
    if (request_.topic[0] != '\0')
        record.topic = request_.topic;
    record.timestamp_ms = 0; // now: what is old by its time, topics may delete at once
    record.tag = static_cast<std::uint64_t>(place);
    add_header(record);
    const std::size_t size = size_in_flight(record);
    if (!flight_.has_room(size))
        return HandOver::full;
    switch (producer_->produce(record, why))
    {
    case ProduceResult::queued:
        flight_.sent(size);
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
    {
        note_refusal(place, why);
        flight_.left_out(false);
        return HandOver::next;
    }
    if (!why.consequence)
        note_failure(why);
    halt();
    return HandOver::halted;
}

} // namespace outbox
