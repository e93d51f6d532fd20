#include "publisher.h"

#include "guard.h"
#include "wire.h"

#include "../extension/shared_state.h"

namespace outbox
{

namespace
{

// Keys kept in memory, and the run of index entries that a large backlog is cut into.
constexpr std::size_t kKeysInMemory = 128 * 1024;
constexpr std::size_t kZoneEntries = 8192;

// Bounds of one transaction.
constexpr int kEventsPerStep = 2048;
constexpr long kStepMs = 20;

// Windows in flight; with more, reading waits although there is room for events.
constexpr std::size_t kMaxWindows = 1024;

DatabaseSlot *
my_slot()
{
    return find_slot(MyDatabaseId);
}

void
end_transaction()
{
    PopActiveSnapshot();
    CommitTransactionCommand();
}

} // namespace

Publisher::Publisher(std::size_t max_events, std::size_t max_bytes)
    : progress_(max_events), keys_(kKeysInMemory, kZoneEntries), max_bytes_(max_bytes)
{
}

void
Publisher::start(const StoredPosition &stored)
{
    progress_.reset(stored.position);
    read_up_to_ = stored.position.to;
    keys_.open(stored.position.from, stored.position.to, stored.position.last_seq, kRingSlots);
    window_open_ = progress_.windows() > 0;
    published_before_ =
        stored.published_total - static_cast<int64>(progress_.acknowledged_prefix());
    saved_ = stored.position;
}

void
Publisher::configure(std::int64_t backoff_initial_ms, std::int64_t backoff_max_ms) noexcept
{
    backoff_.configure(backoff_initial_ms, backoff_max_ms);
}

void
Publisher::set_producer(kafka::Producer *producer) noexcept
{
    producer_.reset(producer);
}

// The window ends at the transaction's snapshot. `mark` was read before that was taken: then every
// event is either in the window or counted after the mark, and some may be both, but none neither.
void
Publisher::open_window(std::uint64_t mark)
{
    static XidSnapshot to; // kept to reuse its memory
    take_snapshot(&to);
    if (to == read_up_to_)
    {
        emitted_mark_ = mark;
        return;
    }
    call_cpp(
        [&]
        {
            keys_.open(read_up_to_, to, PG_INT64_MIN, kRingSlots);
            progress_.open_window(to);
            read_up_to_ = to;
        });
    emitted_mark_ = mark;
    window_open_ = true;
}

StepResult
Publisher::publish(bool look)
{
    if (halted_)
        return StepResult::full;
    if (!window_open_ && (!look || progress_.windows() >= kMaxWindows))
        return look ? StepResult::full : StepResult::idle;
    if (window_open_ && !keys_.need_scan() && !progress_.has_room(0, max_bytes_))
        return StepResult::full;

    DatabaseSlot *slot = my_slot();
    const uint64 mark = slot != nullptr ? pg_atomic_read_u64(&slot->emitted) : 0;
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    const OpenResult opened = open_events(&tables_);
    if (opened != OpenResult::opened)
    {
        close_events(&tables_);
        end_transaction();
        return opened == OpenResult::locked ? StepResult::locked : StepResult::gone;
    }
    if (!window_open_)
        open_window(mark);
    const bool full = window_open_ && !hand_over_some();
    close_events(&tables_);
    end_transaction();
    if (ShutdownRequestPending)
        return StepResult::idle;
    if (full)
        return StepResult::full;
    if (window_open_ && keys_.next() == nullptr && !keys_.need_scan())
    {
        progress_.close_window();
        window_open_ = false;
        oldest_waiting_ = 0;
        // The next look is cheap, and has found the transactions that ended meanwhile.
        return progress_.behind_prefix() > 0 && look ? StepResult::busy : StepResult::idle;
    }
    return window_open_ ? StepResult::busy : StepResult::idle;
}

// Returns false when there is no room for the next event, or nobody to send it to.
bool
Publisher::hand_over_some()
{
    XLogRecPtr commit_lsn = InvalidXLogRecPtr;
    while (keys_.need_scan())
        if (!scan_keys(&tables_, &keys_, &commit_lsn))
            return true;
    // An asynchronous commit can be seen before it is safe from a crash.
    if (XLogNeedsFlush(commit_lsn))
        XLogFlush(commit_lsn);

    if (event_context_ == nullptr)
        event_context_ =
            AllocSetContextCreate(TopMemoryContext, "outbox event", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(event_context_);
    const TimestampTz now = GetCurrentTimestamp();
    bool room = true;
    for (int i = 0; i < kEventsPerStep && room; i++)
    {
        const EventKey *key = keys_.next();
        if (key == nullptr)
            break;
        const HandOver result = hand_over(&tables_, key, now);
        room = result == HandOver::queued || result == HandOver::dropped;
        if (room)
            keys_.drop_next();
        MemoryContextReset(event_context_);
        if (i % 128 == 127 && TimestampDifferenceExceeds(now, GetCurrentTimestamp(), kStepMs))
            break;
    }
    (void) MemoryContextSwitchTo(outer);
    return room;
}

Publisher::HandOver
Publisher::hand_over(EventTables *tables, const EventKey *key, TimestampTz now)
{
    EventRow event;
    if (!fetch_event(tables, key, &event))
        return HandOver::dropped;
    oldest_waiting_ = event.created_at;
    if (!producer_)
        return HandOver::full;

    char topic[kTopicBuffer];
    kafka::Record record;
    const char *problem = build_record(event, now, topic, &record);
    if (problem != nullptr)
    {
        kafka::Failure failure;
        char text[256];
        snprintf(text, sizeof(text), "event " INT64_FORMAT ": the topic name %s", event.seq,
                 problem);
        kafka::describe_config(failure, "Correct outbox.topic_template.", "%s", text);
        note_failure(failure, true);
        return HandOver::halted;
    }
    const size_t bytes = size_in_flight(record);
    if (!progress_.has_room(bytes, max_bytes_))
        return HandOver::full;
    record.tag = progress_.add(event.seq, bytes, event.created_at);
    kafka::Failure why;
    switch (producer_->produce(record, why))
    {
    case kafka::ProduceResult::queued:
        return HandOver::queued;
    case kafka::ProduceResult::queue_full:
        progress_.remove_last();
        return HandOver::full;
    case kafka::ProduceResult::failed:
        progress_.remove_last();
        note_failure(why, true);
        return HandOver::halted;
    }
    return HandOver::halted;
}

bool
Publisher::serve()
{
    if (!producer_)
        return false;
    constexpr std::size_t kEventsPerServe = 10000;
    const bool any = producer_->serve(*this, kEventsPerServe) > 0;
    kafka::Failure why;
    if (!dead_ && producer_->fatal(why))
    {
        dead_ = true;
        note_failure(why, true);
    }
    tell_log();
    return any;
}

// A dead producer reports no more: what was in flight is handed over again to a new one.
void
Publisher::rewind()
{
    call_cpp(
        [&]
        {
            const Position position = progress_.position();
            progress_.reset(position);
            read_up_to_ = position.to;
            keys_.open(position.from, position.to, position.last_seq, kRingSlots);
            window_open_ = progress_.windows() > 0;
        });
    halted_ = false;
}

// librdkafka tries to reach Kafka at intervals like ours and tells only of the first failure.
long
Publisher::watch_attempts(TimestampTz now)
{
    if (next_attempt_at_ <= now)
    {
        if (progress_.in_flight() > 0)
            note_failure(last_failure_, false);
        else if (presume_well_at_ <= now)
            note_success();
    }
    const TimestampTz next = progress_.in_flight() > 0 ? next_attempt_at_ : presume_well_at_;
    return Max(10L, TimestampDifferenceMilliseconds(now, next));
}

long
Publisher::recover(TimestampTz now)
{
    if (!halted_)
        return backing_off() ? watch_attempts(now) : -1;
    if (!dead_ && outstanding() > 0)
        return 1000; // its reports wake us
    const long left = TimestampDifferenceMilliseconds(now, next_attempt_at_);
    if (left > 0)
        return left;
    if (dead_)
        producer_.reset();
    dead_ = false;
    rewind();
    return 0;
}

bool
Publisher::caught_up() const noexcept
{
    return !window_open_ && progress_.behind_prefix() == 0;
}

bool
Publisher::save_if_due(TimestampTz now, bool at_once, long *wait_ms)
{
    // Under load as rarely as repeats after a crash allow; after a burst soon, somebody may wait.
    constexpr long kSaveMs = 200;
    constexpr long kSaveIdleMs = 20;
    constexpr long kTickMs = 1000;
    *wait_ms = -1;
    static Position position;
    call_cpp([&] { position = progress_.position(); });
    const int64 published = published_before_ + static_cast<int64>(progress_.acknowledged_prefix());
    // A position that only skips what has no events is worth no write.
    const bool moved = !(position == saved_) && last_published_at_ > saved_at_;
    if (!moved)
        return true;
    const long interval = caught_up() ? kSaveIdleMs : kSaveMs;
    const long age = TimestampDifferenceMilliseconds(saved_at_, now);
    if (age < interval && !at_once)
    {
        *wait_ms = interval - age;
        return true;
    }

    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    const bool saved = save_position(position, published);
    const bool tick = saved && TimestampDifferenceMilliseconds(tick_at_, now) >= kTickMs;
    if (tick)
        save_tick(position.from);
    end_transaction();
    if (!saved)
        return false;
    call_cpp([&] { saved_ = position; });
    saved_at_ = now;
    if (tick)
        tick_at_ = now;
    DatabaseSlot *slot = my_slot();
    if (slot != nullptr)
        ConditionVariableBroadcast(&slot->position_written);
    return true;
}

void
Publisher::fill_report(RelayReport *report) const noexcept
{
    report->window_remaining = static_cast<int64>(keys_.remaining() + progress_.behind_prefix());
    report->emitted_mark = emitted_mark_;
    report->oldest_event_at = progress_.behind_prefix() > 0 ? progress_.oldest_created_at()
                              : window_open_                ? oldest_waiting_
                                                            : 0;
    report->in_flight_events = static_cast<int32>(progress_.in_flight());
    report->in_flight_bytes = static_cast<int64>(progress_.in_flight_bytes());
    report->published = progress_.acknowledged_prefix();
    report->last_published_at = last_published_at_;
    report->consecutive_failures = static_cast<int32>(backoff_.failures());
    report->next_attempt_at = backing_off() ? next_attempt_at_ : 0;
    report->last_error_at = last_failure_at_;
    if (last_failure_at_ != 0)
        snprintf(report->last_error, sizeof(report->last_error), "%s: %s", last_failure_.name,
                 last_failure_.text);
}

} // namespace outbox
