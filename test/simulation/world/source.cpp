#include "source.h"

#include "producer.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <cstring>

namespace outbox::sim
{

SimSource::SimSource(SimClock &clock, Trace &trace, Database &database, RelayStore &store)
    : clock_(clock), trace_(trace), database_(database), store_(store),
      filters_(store.tables().filters), needed_on_standby_(database.end_of_log())
{
}

Opened
SimSource::begin()
{
    if (database_.is_locked(Table::events))
        return Opened::locked;
    store_.statement(RelayStore::Statement::reads);
    store_.begin_transaction();
    current_ = nullptr;
    return Opened::opened;
}

void
SimSource::end()
{
    store_.statement(RelayStore::Statement::reads);
    store_.end_transaction();
    current_ = nullptr;
}

int
SimSource::roll_back(const char *what, int) noexcept
{
    trace_.say("rolled back: %s", what);
    store_.roll_back();
    return 1;
}

void
SimSource::take_snapshot(XidSnapshot &snapshot)
{
    snapshot = database_.snapshot();
    needed_on_standby_ = database_.end_of_log();
}

bool
SimSource::scan(WindowKeys &keys)
{
    store_.statement(RelayStore::Statement::reads);
    Lsn lsn = 0;
    for (std::size_t i = 0; i < keys.ranges().size(); i++)
    {
        keys.begin_range(i);
        bool good = true;
        database_.scan(keys.ranges()[i],
                       [&](Xid xid, Seq seq, Locator locator)
                       {
                           good = good && keys.offer(xid, seq, locator);
                           lsn = std::max(lsn, database_.commit_lsn(xid));
                       });
        if (!good)
            throw std::bad_alloc();
    }
    keys.finish_scan();
    if (!OUTBOX_MUTANT(publishes_unflushed))
        database_.flush_log(lsn);
    return true;
}

bool
SimSource::is_safe_on_standbys()
{
    return database_.standby_has(needed_on_standby_);
}

bool
SimSource::set_event(const EventRow *row, Event &event)
{
    current_ = row;
    if (row == nullptr)
        return false;
    event = Event();
    event.numbers = {row->seq, static_cast<std::int64_t>(row->xid), row->slot};
    std::memcpy(event.id.data(), &row->number, sizeof(row->number));
    event.emitted_at = std::min(row->emitted_at, clock_.wall());
    return true;
}

bool
SimSource::fetch(const EventKey &key, Event &event)
{
    const EventRow *row = database_.fetch(key.locator);
    if (row == nullptr || filters_.takes(row->xid, row->type))
        return set_event(row, event);
    skipped_++;
    return set_event(nullptr, event);
}

bool
SimSource::find(const EventNumbers &numbers, Event &event)
{
    clock_.advance(database_.cost_of_a_row());
    return set_event(database_.find(numbers.slot, static_cast<Xid>(numbers.xid), numbers.seq),
                     event);
}

bool
SimSource::read_line(Event &event, Failure &)
{
    const auto type = static_cast<std::size_t>(current_->type);
    topic_ = topics_[type];
    key_ = "key" + std::to_string(current_->key);
    event.topic = topic_;
    event.key = key_;
    event.blocks = blocks_[type];
    return true;
}

bool
SimSource::build(Event &event, Record &record, Failure &why)
{
    built_++;
    (void) read_line(event, why);
    if (current_->unreadable)
    {
        set_failure(why, FailureClass::event, "22021", "the event cannot be read");
        return false;
    }
    const Payload payload = {current_->number, current_->bytes, current_->invalid};
    static_assert(sizeof(payload) == sizeof(value_));
    std::memcpy(&value_, &payload, sizeof(payload));
    record = {};
    record.topic = topic_;
    record.key = key_;
    record.value = &value_;
    record.value_size = static_cast<std::size_t>(current_->bytes);
    return true;
}

void
SimSource::note_removed(const EventNumbers &numbers) noexcept
{
    trace_.say("the relay finds no event with seq %lld", static_cast<long long>(numbers.seq));
}

SaveResult
SimSource::save(const Position &position, std::int64_t published_total)
{
    if (database_.is_locked(Table::position))
        return SaveResult::locked;
    store_.begin_transaction();
    store_.statement(RelayStore::Statement::writes);
    store_.change().position = {position.from, position.to, position.last_seq, published_total};
    store_.end_transaction();
    written_ = true;
    saves_++;
    trace_.say("the position is %s | %s | %lld", position.from.to_text().c_str(),
               position.to.to_text().c_str(), static_cast<long long>(position.last_seq));
    return SaveResult::done;
}

void
SimSource::tick(const XidSnapshot &snapshot)
{
    tick_ = snapshot;
    if (database_.is_locked(Table::ticks))
        return;
    store_.statement(RelayStore::Statement::writes);
    if (filters_.is_default())
        database_.add_tick(snapshot);
}

void
SimSource::show_backlog(std::uint64_t base, bool counted) noexcept
{
    backlog_ = {base, counted};
}

bool
SimSource::routes_changed() const noexcept
{
    return loaded_version_ != database_.routes_version();
}

RoutesRead
SimSource::load_routes()
{
    if (database_.is_locked(Table::routes))
        return RoutesRead::locked;
    store_.statement(RelayStore::Statement::reads);
    loaded_version_ = database_.routes_version();
    topics_ = database_.routes().topics;
    blocks_ = database_.routes().blocks;
    return RoutesRead::current;
}

void
SimSource::log(const LogLine &line) noexcept
{
    trace_.say("log: %s", line.text);
}

bool
SimSource::take_tick(XidSnapshot &tick) noexcept
{
    if (!tick_)
        return false;
    tick = std::move(*tick_);
    tick_.reset();
    return true;
}

bool
SimSource::take_written() noexcept
{
    const bool written = written_;
    written_ = false;
    return written;
}

} // namespace outbox::sim
