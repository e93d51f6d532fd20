#include "pg_source.h"

#include "bgworker/guard.h"

#include "process.h"
#include "relation_lock.h"
#include "replay_tables.h"
#include "short_transaction.h"
#include "subscription.h"

#include "bgworker/source/events/removed_events.h"
#include "bgworker/source/events/window_scan.h"
#include "bgworker/source/position/durability.h"
#include "bgworker/source/position/numbers.h"
#include "bgworker/source/position/position_store.h"

#include "extension/core/steady.h"
#include "extension/shared/settings.h"

namespace outbox
{

static_assert(kRingPartitions == kRingSlots);

// What the statements of this transaction lock, before any of them waits for it.
OpenResult
PgSource::open()
{
    OpenResult opened = open_events(&tables_);
    if (opened == OpenResult::opened && !is_extension_of_subscription())
        opened = OpenResult::missing;
    if (opened == OpenResult::opened)
        opened = lock_table("deliveries", RowExclusiveLock);
    if (opened == OpenResult::opened)
        opened = lock_table("pauses", AccessShareLock);
    return opened;
}

void
PgSource::enter_step()
{
    if (event_context_ == nullptr)
        event_context_ =
            AllocSetContextCreate(TopMemoryContext, "outbox event", ALLOCSET_DEFAULT_SIZES);
    now_ = GetCurrentTimestamp();
    (void) MemoryContextSwitchTo(event_context_);
}

void
PgSource::leave_step()
{
    (void) MemoryContextSwitchTo(TopTransactionContext);
    close_events(&tables_);
    end_transaction();
    if (event_context_ != nullptr)
        MemoryContextReset(event_context_);
}

// The relay of `default` looks for restored rows when some have been committed, before it reads on.
// Those that were committed since are found here: the snapshot of this step may see events that are
// later than they. When that relay is not there, or rows come faster than it can look, new events
// wait no longer than so.
bool
PgSource::awaits_look() noexcept
{
    constexpr std::int64_t kPatience = std::int64_t{10} * 1000 * 1000;
    const std::uint32_t restores = pg_atomic_read_u32(&slot_->restores);
    const std::int64_t since = held_since_;
    held_since_ = 0;
    if (restores == not_awaited_ || restores == pg_atomic_read_u32(&slot_->restores_seen))
        return false;
    const std::int64_t now = steady_now();
    held_since_ = since != 0 ? since : now;
    if (now - held_since_ < kPatience)
        return true;
    held_since_ = 0;
    not_awaited_ = restores;
    return false;
}

Opened
PgSource::begin()
{
    OpenResult opened = OpenResult::missing;
    from_postgres(
        [&]
        {
            begin_transaction();
            opened = open();
            if (opened == OpenResult::opened && awaits_look())
                opened = OpenResult::locked;
            if (opened == OpenResult::opened)
                return enter_step();
            leave_step();
            log_removed();
        });
    return opened == OpenResult::opened   ? Opened::opened
           : opened == OpenResult::locked ? Opened::locked
                                          : Opened::gone;
}

void
PgSource::end()
{
    from_postgres(
        [&]
        {
            leave_step();
            log_removed();
        });
}

bool
PgSource::begin_replay()
{
    bool opened = false;
    from_postgres(
        [&]
        {
            begin_transaction();
            opened = lock_replay_tables() == OpenResult::opened &&
                     open_events(&tables_) == OpenResult::opened;
            if (opened)
                enter_step();
            else
                leave_step();
        });
    return opened;
}

void
PgSource::end_replay()
{
    from_postgres([&] { leave_step(); });
}

int
PgSource::roll_back(const char *what, int logged)
{
    int code = 0;
    from_postgres(
        [&]
        {
            char text[512];
            code = geterrcode();
            end_failed_transaction(what, code != logged, text, sizeof(text));
            process_hooks.report_problem(text);
            // Closed with the transaction.
            tables_ = {};
            if (event_context_ != nullptr)
                MemoryContextReset(event_context_);
        });
    return code;
}

bool
PgSource::must_end() const noexcept
{
    return ShutdownRequestPending;
}

void
PgSource::take_snapshot(XidSnapshot &snapshot)
{
    from_postgres([&] { outbox::take_snapshot(&snapshot); });
    ask_standbys_ = true;
}

bool
PgSource::scan(WindowKeys &keys)
{
    bool whole = false;
    from_postgres(
        [&]
        {
            XLogRecPtr commit_lsn = InvalidXLogRecPtr;
            int64 largest_seq = 0;
            whole = scan_keys(&tables_, &keys, &commit_lsn, &largest_seq);
            if (whole)
                learn_number(largest_seq);
            if (whole && settings.guard_durability)
                make_durable_here(commit_lsn);
        });
    return whole;
}

bool
PgSource::is_safe_on_standbys()
{
    if (!settings.guard_durability)
        return true;
    bool safe = false;
    from_postgres(
        [&]
        {
            if (ask_standbys_)
                on_standbys_ = needed_on_standbys();
            ask_standbys_ = false;
            safe = is_durable_on_standbys(on_standbys_);
        });
    return safe;
}

void
PgSource::set_event(Event &event) const noexcept
{
    event = {};
    event.numbers = {row_.seq, row_.xid, row_.slot};
    memcpy(event.id.data(), row_.id.data, UUID_LEN);
    event.emitted_at = row_.emitted_at;
}

void
PgSource::set_line(Event &event) const noexcept
{
    event.topic = line_.topic;
    event.key = line_.key;
    event.blocks = line_.blocks;
}

bool
PgSource::fetch(const EventKey &key, Event &event)
{
    bool found = false;
    bool skipped = false;
    from_postgres(
        [&]
        {
            MemoryContextReset(event_context_);
            found = fetch_event(&tables_, key, now_, &row_);
            skipped = found && !takes_event(row_.xid, row_.aggregate_type, row_.event_type);
        });
    if (skipped)
        skipped_++;
    if (!found || skipped)
        return false;
    set_event(event);
    return true;
}

bool
PgSource::find(const EventNumbers &numbers, Event &event)
{
    bool found = false;
    from_postgres(
        [&]
        {
            MemoryContextReset(event_context_);
            found = find_event(&tables_, numbers.slot, numbers.xid, numbers.seq, now_, &row_);
        });
    if (found)
        set_event(event);
    return found;
}

bool
PgSource::read_line(Event &event, Failure &why)
{
    bool good = false;
    from_postgres([&] { good = outbox::read_line(row_, &line_, &why); });
    set_line(event);
    return good;
}

bool
PgSource::build(Event &event, Record &record, Failure &why)
{
    bool good = false;
    from_postgres([&] { good = read_record(row_, now_, &line_, &record, &why); });
    set_line(event);
    return good;
}

void
PgSource::note_removed(const EventNumbers &numbers) noexcept
{
    count_removed(numbers.slot, numbers.seq);
}

SaveResult
PgSource::save(const Position &position, std::int64_t published_total)
{
    SaveResult result = SaveResult::done;
    from_postgres(
        [&]
        {
            begin_transaction();
            const OpenResult locked = lock_table("relay_position", RowExclusiveLock);
            if (locked != OpenResult::opened || !save_position(position, published_total))
                result = locked == OpenResult::locked ? SaveResult::locked : SaveResult::gone;
            end_transaction();
        });
    if (result == SaveResult::done)
        announce_position(relay_);
    return result;
}

bool
PgSource::is_waited_for() const noexcept
{
    return outbox::is_waited_for(relay_);
}

void
PgSource::tick(const XidSnapshot &snapshot)
{
    if (!serves_default())
        return;
    from_postgres(
        [&]
        {
            begin_transaction();
            if (lock_wholly("ticks", RowExclusiveLock))
                save_tick(snapshot);
            end_transaction();
        });
}

std::uint64_t
PgSource::emitted() const noexcept
{
    return pg_atomic_read_u64(&slot_->emitted);
}

void
PgSource::show_backlog(std::uint64_t base, bool counted) noexcept
{
    pg_atomic_write_u64(&relay_->backlog_base, base);
    if (counted)
        pg_atomic_write_u32(&relay_->backlog_counted, 1);
}

bool
PgSource::routes_changed() const noexcept
{
    return outbox::routes_changed();
}

// Logs the reason once: the table is only read again when it changes.
void
PgSource::report_routes(RoutesLoaded loaded, const Verdict &verdict)
{
    if (loaded != RoutesLoaded::broken)
    {
        routes_problem_[0] = '\0';
        return;
    }
    snprintf(routes_problem_, sizeof(routes_problem_), "outbox.routes: %s%s%s", verdict.reason,
             verdict.hint[0] != '\0' ? "; " : "", verdict.hint);
    ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR),
                      errmsg("%s: outbox.routes is not usable: %s", relay_title(), verdict.reason),
                      has_routes() ? errdetail("The previous routes stay in use.")
                                   : errdetail("Nothing is published."),
                      verdict.hint[0] != '\0' ? errhint("%s", verdict.hint) : 0));
}

RoutesRead
PgSource::load_routes()
{
    RoutesLoaded loaded = RoutesLoaded::locked;
    from_postgres(
        [&]
        {
            Verdict verdict;
            loaded = load_routing(&verdict);
            if (loaded == RoutesLoaded::locked)
                set_table_in_the_way("routes");
            else
                report_routes(loaded, verdict);
        });
    return loaded == RoutesLoaded::locked    ? RoutesRead::locked
           : loaded == RoutesLoaded::current ? RoutesRead::current
                                             : RoutesRead::broken;
}

bool
PgSource::has_routes() const noexcept
{
    return is_routing_known();
}

void
PgSource::log(const LogLine &line) noexcept
{
    const int level = line.level == LogLine::Level::debug     ? DEBUG1
                      : line.level == LogLine::Level::warning ? WARNING
                                                              : LOG;
    const MemoryContext context = CurrentMemoryContext;
    PG_TRY();
    {
        ereport(level, (line.of_connection ? errcode(ERRCODE_CONNECTION_EXCEPTION) : 0,
                        errmsg("%s", titled(line.text)),
                        line.detail[0] != '\0' ? errdetail("%s", line.detail) : 0,
                        line.hint[0] != '\0' ? errhint("%s", line.hint) : 0));
    }
    PG_CATCH();
    {
        (void) MemoryContextSwitchTo(context);
        FlushErrorState(); // no memory for a line of the log
    }
    PG_END_TRY();
}

} // namespace outbox
