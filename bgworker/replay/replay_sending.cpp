// How a replay's events go out, and what becomes of them.

#include "bgworker/records/event_record.h"
#include "replay.h"

#include "bgworker/guard.h"
#include "bgworker/short_transaction.h"

#include "extension/core/steady.h"

namespace outbox
{

namespace
{

// New events wait for no more than this.
constexpr int64 kMostAtOnce = 64;
constexpr long kStepMs = 2;

constexpr std::string_view kReplayHeader = "replay_id";

} // namespace

void
Replay::note_error(const char *name, const char *text) noexcept
{
    snprintf(request_.last_error, sizeof(request_.last_error), "%s: %s", name, text);
    unsaved_ = true;
}

void
Replay::note_refusal(std::int64_t place, const kafka::Failure &failure) noexcept
{
    const std::int64_t index = place - chunk_number_ * kReplayChunk;
    if (chunk_number_ < 0 || index < 0 || index >= chunk_size_)
    {
        note_error(failure.name, failure.text);
        return;
    }
    snprintf(request_.last_error, sizeof(request_.last_error),
             "event with seq " INT64_FORMAT ": %s: %s", static_cast<int64>(chunk_[index].seq),
             failure.name, failure.text);
    unsaved_ = true;
}

void
Replay::halt() noexcept
{
    if (!halted_)
        halted_since_ = steady_now();
    halted_ = true;
}

// Something that is no event's fault: everything waits, and is tried again.
void
Replay::note_failure(const kafka::Failure &failure) noexcept
{
    const int64 wait = backoff_.fail(random_bits());
    next_attempt_at_ = TimestampTzPlusMilliseconds(steady_now(), wait);
    note_error(failure.name, failure.text);
}

void
Replay::delivered(std::uint64_t tag) noexcept
{
    if (!flight_.published(static_cast<std::int64_t>(tag)))
        return;
    published_at_ = steady_now();
    backoff_.succeed();
}

// What was refused with its topic overtakes nothing: it was given up before it was sent. Of events
// that a broker refused together any may be the culprit.
void
Replay::failed(std::uint64_t tag, const kafka::Failure &failure) noexcept
{
    const std::int64_t place = static_cast<std::int64_t>(tag);
    if (failure.cls == kafka::FailureClass::topic)
    {
        if (flight_.refused(place))
            note_refusal(place, failure);
        return;
    }
    if (failure.cls == kafka::FailureClass::event)
    {
        if (flight_.suspected(place))
            note_refusal(place, failure);
        batch_too_large_ = strcmp(failure.name, "MSG_SIZE_TOO_LARGE") == 0;
    }
    else if (!halted_ && !kafka::is_consequence(failure))
        note_failure(failure);
    halt();
}

// librdkafka goes on by itself; what is in its queue goes out when Kafka is back.
void
Replay::trouble(const kafka::Failure &failure) noexcept
{
    if (!kafka::is_consequence(failure))
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
    kafka::Failure why;
    if (halted_ || !producer_->fatal(why))
        return;
    if (!kafka::is_consequence(why))
        note_failure(why);
    halt();
}

// An event that does not come through while others do will not: its topic is not to be had, and
// librdkafka says nothing. While nothing comes through, it is Kafka, and the replay waits.
bool
Replay::watch_stuck(const Chance &chance, std::int64_t now)
{
    constexpr int kStuckMs = 30 * 1000;
    if (flight_.on_their_way() == 0 || flight_.first() != first_ || halted_)
    {
        first_ = flight_.first();
        first_since_ = now;
        return false;
    }
    if (!TimestampDifferenceExceeds(first_since_, now, kStuckMs))
        return false;
    const std::int64_t half_ago = TimestampTzPlusMilliseconds(now, -kStuckMs / 2);
    const bool others_flow = Max(chance.live_published_at, published_at_) > half_ago;
    note_error("_TIMED_OUT", others_flow ? "an event was not acknowledged for 30 seconds, while "
                                           "others were; is its topic there, and may be written?"
                                         : "nothing was acknowledged for 30 seconds");
    first_since_ = now;
    return others_flow;
}

long
Replay::recover(std::int64_t now)
{
    constexpr int kLastReportsMs = 2000;
    constexpr long kPollMs = 20;
    if (producer_ && producer_->outstanding() > 0 &&
        !TimestampDifferenceExceeds(halted_since_, now, kLastReportsMs))
        return kPollMs;
    if (flight_.take_back() < 0 && batch_too_large_)
        oversized_batches_++;
    batch_too_large_ = false;
    drop_producer(0); // new events wait for none of its threads
    halted_ = false;
    return 0;
}

bool
Replay::connect(const KafkaSetup &setup)
{
    if (producer_)
        return true;
    kafka::Failure why;
    kafka::Producer *producer = nullptr;
    call_cpp([&] { producer = create_producer(setup, oversized_batches_, wake_fd_, why); });
    if (producer == nullptr)
        note_failure(why);
    producer_.reset(producer);
    return producer != nullptr;
}

long
Replay::send(const Chance &chance, std::int64_t now)
{
    if (next_attempt_at_ > now)
        return TimestampDifferenceMilliseconds(now, next_attempt_at_);
    if (flight_.next() < 0)
        return -1; // an acknowledgement wakes us
    const long wait_ms = (bucket_.us_until_more(now) + 999) / 1000;
    if (wait_ms > 0)
        return wait_ms;
    if (!connect(*chance.setup))
        return 0;
    const HandOver result = hand_over_some(Min(bucket_.available(now), kMostAtOnce), now);
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
Replay::hand_over_some(std::int64_t most, std::int64_t now)
{
    if (event_context_ == nullptr)
        event_context_ =
            AllocSetContextCreate(TopMemoryContext, "outbox replay event", ALLOCSET_DEFAULT_SIZES);
    EventTables tables = {};
    begin_transaction();
    HandOver result = HandOver::locked;
    if (lock_replay_tables() == OpenResult::opened && open_events(&tables) == OpenResult::opened)
        result = HandOver::next;
    const MemoryContext outer = MemoryContextSwitchTo(event_context_);
    for (std::int64_t i = 0; i < most && result == HandOver::next && flight_.next() >= 0; i++)
    {
        result = hand_over(&tables);
        MemoryContextReset(event_context_);
        if (TimestampDifferenceExceeds(now, steady_now(), kStepMs))
            break;
    }
    (void) MemoryContextSwitchTo(outer);
    close_events(&tables);
    end_transaction();
    return result;
}

const ReplayPlace *
Replay::place_of(std::int64_t place)
{
    const std::int64_t number = place / kReplayChunk;
    if (number != chunk_number_)
    {
        chunk_number_ = -1;
        chunk_size_ = read_replay_chunk(request_, number, chunk_);
        chunk_number_ = number;
    }
    const std::int64_t index = place % kReplayChunk;
    return index < chunk_size_ ? &chunk_[index] : nullptr;
}

// The only header of that name: emit() refuses it, but rows of earlier versions may have it.
void
Replay::add_header(kafka::Record *record) const
{
    kafka::Header *headers =
        static_cast<kafka::Header *>(palloc((record->header_count + 1) * sizeof(kafka::Header)));
    size_t count = 0;
    headers[count++] = {kReplayHeader, request_.id_text, false};
    for (size_t i = 0; i < record->header_count; i++)
        if (record->headers[i].name != kReplayHeader)
            headers[count++] = record->headers[i];
    record->headers = headers;
    record->header_count = count;
}

Replay::HandOver
Replay::hand_over(EventTables *tables)
{
    const TimestampTz clock = GetCurrentTimestamp();
    const std::int64_t place = flight_.next();
    const ReplayPlace *found = place_of(place);
    EventRow event;
    if (found == nullptr || found->slot < 0 || found->slot >= kRingSlots ||
        !find_event(tables, found->slot, found->xid, found->seq, clock, &event))
    {
        flight_.left_out(true);
        return HandOver::next;
    }
    EventLine line;
    kafka::Record record;
    kafka::Failure why;
    if (!read_record(event, clock, &line, &record, &why))
    {
        note_refusal(place, why);
        flight_.left_out(false);
        return HandOver::next;
    }
    if (request_.topic[0] != '\0')
        record.topic = request_.topic;
    record.timestamp_ms = 0; // now: what is old by its time, topics may delete at once
    record.tag = static_cast<std::uint64_t>(place);
    add_header(&record);
    const size_t size = size_in_flight(record);
    if (!flight_.has_room(size))
        return HandOver::full;
    switch (producer_->produce(record, why))
    {
    case kafka::ProduceResult::queued:
        flight_.sent(size);
        bucket_.take(1);
        return HandOver::next;
    case kafka::ProduceResult::queue_full:
        return HandOver::full;
    case kafka::ProduceResult::failed:
        break;
    }
    if (why.cls == kafka::FailureClass::event || why.cls == kafka::FailureClass::topic)
    {
        note_refusal(place, why);
        flight_.left_out(false);
        return HandOver::next;
    }
    if (!kafka::is_consequence(why))
        note_failure(why);
    halt();
    return HandOver::halted;
}

} // namespace outbox
