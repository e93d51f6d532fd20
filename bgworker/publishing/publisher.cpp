#include "publisher.h"

#include "bgworker/records/event_record.h"

#include "durability.h"

#include "bgworker/guard.h"
#include "bgworker/relay/numbers.h"
#include "bgworker/short_transaction.h"

#include "extension/settings.h"
#include "extension/shared_state.h"

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

} // namespace

Publisher::Publisher(std::size_t max_events, std::size_t max_bytes, Stats &stats)
    : progress_(max_events), keys_(kKeysInMemory, kZoneEntries), max_bytes_(max_bytes),
      stats_(stats), redelivery_(stats)
{
    refused_tags_.reserve(max_events);
    aside_.reserve(max_events);
}

void
Publisher::start(const StoredPosition &stored, DatabaseSlot *slot)
{
    progress_.reset(stored.position);
    read_up_to_ = stored.position.to;
    keys_.open(stored.position.from, stored.position.to, stored.position.last_seq, kRingSlots);
    window_open_ = progress_.windows() > 0;
    ask_standbys_ = true;
    published_before_ = stored.published_total;
    saved_open_ = window_open_;
    // What was emitted since the server started is behind a position from before.
    backlog_counted_ = pg_atomic_read_u32(&slot->backlog_counted) != 0;
    went_back_ = backlog_counted_;
    backlog_known_ = backlog_counted_;
    base_then_ = pg_atomic_read_u64(&slot->backlog_base);
}

void
Publisher::configure(const FailurePolicy &policy) noexcept
{
    policy_ = policy;
    backoff_.configure(policy.backoff_initial_ms, policy.backoff_max_ms);
}

void
Publisher::set_producer(kafka::Producer *producer) noexcept
{
    producer_.reset(producer);
}

void
Publisher::open_window(std::uint64_t mark)
{
    static XidSnapshot to; // kept to reuse its memory
    take_snapshot(&to);
    emitted_mark_ = mark;
    went_back_ = false;
    own_window_ = true;
    if (to == read_up_to_)
    {
        backlog_known_ = true;
        backlog_counted_ = true;
        return;
    }
    call_cpp(
        [&]
        {
            keys_.open(read_up_to_, to, PG_INT64_MIN, kRingSlots);
            progress_.open_window(to);
            read_up_to_ = to;
        });
    window_open_ = true;
    ask_standbys_ = true;
    backlog_known_ = false;
}

bool
Publisher::may_read(bool look) noexcept
{
    crowded_ = crowded_ && !progress_.has_ample_room(max_bytes_);
    if (window_open_)
        return keys_.need_scan() || !crowded_;
    return look && progress_.windows() < kMaxWindows;
}

bool
Publisher::may_redeliver(TimestampTz now) const noexcept
{
    return redelivery_.has_work() || !refused_tags_.empty() ||
           (redelivery_.wants_quiet(now) && outstanding() == 0 && !paused());
}

OpenResult
Publisher::begin()
{
    if (event_context_ == nullptr)
        event_context_ =
            AllocSetContextCreate(TopMemoryContext, "outbox event", ALLOCSET_DEFAULT_SIZES);
    begin_transaction();
    OpenResult opened = open_events(&tables_);
    // What the statements of this transaction lock, before any of them waits for it.
    if (opened == OpenResult::opened)
        opened = lock_relation(find_own_relation("deliveries"), RowExclusiveLock);
    if (opened == OpenResult::opened)
        opened = lock_relation(find_own_relation("pauses"), AccessShareLock);
    if (opened != OpenResult::opened)
        end();
    return opened;
}

void
Publisher::end()
{
    close_events(&tables_);
    end_transaction();
    for (const std::uint64_t tag : aside_)
        (void) progress_.acknowledge(tag, false);
    const bool wrote = redelivery_.committed() || routes_moved_ || !aside_.empty();
    writes_ += wrote ? 1 : 0;
    aside_.clear();
    routes_moved_ = false;
    tell_removed();
}

void
Publisher::rolled_back()
{
    tables_ = {}; // closed with the transaction
    aside_.clear();
    reload_routes_ = reload_routes_ || routes_moved_;
    routes_moved_ = false;
    sent_in_group_ = 0;
    redelivery_.rolled_back();
    halted_ = true;
}

// A window ends at its transaction's snapshot. The mark is read before that is taken: then every
// event is either in the window or counted after the mark; some may be both, none neither.
StepResult
Publisher::publish(bool look)
{
    const TimestampTz now = GetCurrentTimestamp();
    if (halted_ || awaits_routes())
        return StepResult::full;
    const bool read = may_read(look);
    if (!read && !may_redeliver(now))
        return window_open_ || look ? StepResult::full : StepResult::idle;

    DatabaseSlot *slot = find_slot(MyDatabaseId);
    const uint64 mark = slot != nullptr ? pg_atomic_read_u64(&slot->emitted) : 0;
    const OpenResult opened = begin();
    if (opened != OpenResult::opened)
        return opened == OpenResult::locked ? StepResult::locked : StepResult::gone;
    const StepResult routed = follow_routes();
    if (routed != StepResult::idle)
    {
        end();
        return routed;
    }
    const bool more = redeliver(now);
    StepResult result = read ? read_stream(mark, look) : StepResult::full;
    // They took the room of what may be in flight.
    if (result == StepResult::full && !aside_.empty())
        result = StepResult::busy;
    end();
    const bool turn_unused =
        stream_turn_ && redelivery_.in_flight() == 0 && progress_.in_flight() == 0;
    stream_turn_ = stream_turn_ && redelivery_.in_flight() > 0;
    if (!isolation_.active() && !redelivery_.isolating())
        oversized_suspected_ = 0;
    if (ShutdownRequestPending)
        return StepResult::idle;
    return more || turn_unused ? StepResult::busy : result;
}

// While a culprit is looked for, in the stream or in a line, the two do not go out together: the
// one would be blamed for the other.
bool
Publisher::may_release() const noexcept
{
    const bool stream_idle = progress_.in_flight() == 0;
    if (redelivery_.isolating())
        return stream_idle && redelivery_.in_flight() == 0 && !stream_turn_;
    return !isolation_.active() || (stream_idle && !window_open_);
}

// Returns true when there is more to do at once.
bool
Publisher::redeliver(TimestampTz now)
{
    park_refused_tags();
    if (!may_redeliver(now))
        return false;
    const bool more = redelivery_.step(&tables_, producer_.get(), policy_, may_release());
    // They take turns.
    stream_turn_ = stream_turn_ || (redelivery_.isolating() && redelivery_.in_flight() > 0);
    if (producer_ && redelivery_.wants_quiet(now) && outstanding() == 0 && !paused())
    {
        redelivery_.send_due(&tables_, producer_.get(), now);
        return true;
    }
    return more;
}

StepResult
Publisher::read_stream(std::uint64_t mark, bool look)
{
    const bool fresh = !window_open_;
    if (!window_open_ && look)
        open_window(mark);
    if (!window_open_)
        return StepResult::idle;
    if (!read_keys())
    {
        backlog_known_ = false;
        return StepResult::idle; // shutdown
    }
    backlog_known_ = true;
    backlog_counted_ = backlog_counted_ || own_window_;
    if (keys_.next() != nullptr && !window_is_durable())
        return StepResult::standby;
    if (!hand_over_some())
        return StepResult::full;
    if (keys_.next() != nullptr || keys_.need_scan())
        return StepResult::busy;
    progress_.close_window();
    window_open_ = false;
    oldest_waiting_ = 0;
    // What commits from now on sets the latch. What committed while an older window was open, as in
    // a pause, has set it before.
    return fresh ? StepResult::idle : StepResult::busy;
}

// How many events may be handed over now.
int
Publisher::group_limit()
{
    // Acknowledgements take milliseconds; what takes longer is stuck, and must not hold up the
    // rest.
    constexpr int kQuietMs = 2000;
    const TimestampTz now = GetCurrentTimestamp();
    const bool quiet = redelivery_.wants_quiet(now);
    if (!quiet)
        quiet_since_ = now;
    else if (outstanding() > 0 && TimestampDifferenceExceeds(quiet_since_, now, kQuietMs))
        redelivery_.give_up_quiet(now);
    if (paused() || redelivery_.attempting() || quiet)
        return 0;
    if (redelivery_.isolating() && (redelivery_.in_flight() > 0 || !stream_turn_))
        return 0;
    if (!isolation_.active())
        return kEventsPerStep;
    if (progress_.in_flight() > 0 || redelivery_.in_flight() > 0)
        return 0;
    if (sent_in_group_ > 0)
        isolation_.accepted(sent_in_group_);
    sent_in_group_ = 0;
    return static_cast<int>(std::min<std::size_t>(isolation_.group(), kEventsPerStep));
}

// Returns false when a shutdown was requested meanwhile.
bool
Publisher::read_keys()
{
    XLogRecPtr commit_lsn = InvalidXLogRecPtr;
    int64 largest_seq = 0;
    while (keys_.need_scan())
        if (!scan_keys(&tables_, &keys_, &commit_lsn, &largest_seq))
            return false;
    learn_number(largest_seq);
    if (settings.guard_durability)
        make_durable_here(commit_lsn);
    return true;
}

bool
Publisher::window_is_durable()
{
    if (!settings.guard_durability)
        return true;
    if (ask_standbys_)
        on_standbys_ = needed_on_standbys();
    ask_standbys_ = false;
    return is_durable_on_standbys(on_standbys_);
}

// Returns false when there is no room for the next event, or nobody to send it to.
bool
Publisher::hand_over_some()
{
    const MemoryContext outer = MemoryContextSwitchTo(event_context_);
    const TimestampTz now = GetCurrentTimestamp();
    const int limit = group_limit();
    // A pause must not keep a window open that has nothing left: what comes next would not be seen.
    const bool through = paused() && keys_.next() == nullptr;
    HandOver result = limit > 0 || through ? HandOver::done : HandOver::full;
    sending_at_ = now;
    if (limit == 0)
        note_oldest_waiting();
    for (int i = 0; i < limit && result == HandOver::done; i++)
    {
        const EventKey *key = keys_.next();
        if (key == nullptr)
            break;
        result = hand_over(key, now);
        if (result == HandOver::done)
            keys_.drop_next();
        MemoryContextReset(event_context_);
        // A clock for each event would cost a hundredth of the time that an event takes.
        if (i % 16 == 15)
            sending_at_ = GetCurrentTimestamp();
        if (i % 128 == 127 && TimestampDifferenceExceeds(now, sending_at_, kStepMs))
            break;
    }
    (void) MemoryContextSwitchTo(outer);
    // A group goes on when it is acknowledged; one of which all was set aside goes on by itself.
    const bool group_sent = isolation_.active() && progress_.in_flight() > aside_.size();
    return result == HandOver::done && !(group_sent && keys_.next() != nullptr);
}

// While nothing may be handed over, nobody else looks at the next event.
void
Publisher::note_oldest_waiting()
{
    const TimestampTz now = GetCurrentTimestamp();
    EventRow event;
    for (int i = 0; i < kEventsPerStep && oldest_waiting_ == 0 && keys_.next() != nullptr; i++)
    {
        if (fetch_event(&tables_, *keys_.next(), now, &event))
            oldest_waiting_ = event.emitted_at;
        else
            keys_.drop_next();
    }
}

// The event is neither in flight nor lost: outbox.deliveries has it.
void
Publisher::set_aside(const EventRow &event, const EventKey *key) noexcept
{
    aside_.push_back(progress_.add(event.seq, 0, event.emitted_at, key->locator)); // reserved
}

// Takes an event as acknowledged that was so before the last rewind, or that outbox.deliveries has
// settled: it is read again, but not sent again. Needs room for an event.
bool
Publisher::is_done(const EventRow &event, const EventKey *key)
{
    const auto found = done_.find(event.seq);
    if (found == done_.end() && !redelivery_.is_settled(event.seq, event.id))
        return false;
    const bool published = found != done_.end() && found->second;
    const std::uint64_t tag = progress_.add(event.seq, 0, event.emitted_at, key->locator);
    (void) progress_.acknowledge(tag, published);
    if (found != done_.end())
        done_.erase(found);
    return true;
}

Publisher::HandOver
Publisher::no_room() noexcept
{
    crowded_ = true;
    return HandOver::full;
}

Publisher::HandOver
Publisher::hand_over(const EventKey *key, TimestampTz now)
{
    EventRow event;
    if (!fetch_event(&tables_, *key, now, &event))
        return HandOver::done;
    oldest_waiting_ = event.emitted_at;
    if (!producer_)
        return HandOver::full;
    if (!progress_.has_room(0, max_bytes_))
        return no_room();
    if (is_done(event, key))
        return HandOver::done;

    EventLine line;
    kafka::Record record;
    kafka::Failure why;
    if (!read_record(event, now, &line, &record, &why))
    {
        redelivery_.refuse(event, line, true, 0, why, policy_);
        set_aside(event, key);
        return HandOver::done;
    }
    if (!progress_.has_room(size_in_flight(record), max_bytes_))
        return no_room();
    Lane lane;
    if (redelivery_.must_wait(line.topic, line.key, &lane))
    {
        redelivery_.park(event, line, lane);
        set_aside(event, key);
        return HandOver::done;
    }
    return produce(event, line, key, &record);
}

Publisher::HandOver
Publisher::produce(const EventRow &event, const EventLine &line, const EventKey *key,
                   kafka::Record *record)
{
    const Memo memo = {sending_at_, static_cast<std::uint32_t>(size_of(*record)),
                       stats_.topic(record->topic)};
    record->tag = progress_.add(event.seq, size_in_flight(*record), event.emitted_at, key->locator,
                                memo, key->xid);
    kafka::Failure why;
    const kafka::ProduceResult result = producer_->produce(*record, why);
    if (result == kafka::ProduceResult::queued)
    {
        sent_in_group_++;
        return HandOver::done;
    }
    progress_.remove_last();
    if (result == kafka::ProduceResult::queue_full)
        return no_room();
    if (why.cls == kafka::FailureClass::event || why.cls == kafka::FailureClass::topic)
    {
        // Refused before it was queued: nothing can have overtaken it.
        redelivery_.refuse(event, line, true, 0, why, policy_);
        set_aside(event, key);
        return HandOver::done;
    }
    if (!kafka::is_consequence(why))
        note_failure(why);
    halted_ = true;
    return HandOver::halted;
}

} // namespace outbox
