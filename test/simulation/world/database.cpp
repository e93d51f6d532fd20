#include "database.h"

#include "bgworker/engine/source.h"

#include <algorithm>

namespace outbox::sim
{

Database::Database(SimClock &clock, Random &random, Trace &trace, EventFate &fate, int types)
    : clock_(clock), random_(random), trace_(trace), fate_(fate)
{
    for (int type = 0; type < types; type++)
    {
        tables_.topics.push_back("topic" + std::to_string(type));
        tables_.blocks.push_back(true);
    }
    versions_.push_back({0, next_xid_, tables_});
}

bool
Database::has_transaction(int session) const
{
    return sessions_.count(session) > 0;
}

void
Database::begin(int session)
{
    sessions_.try_emplace(session);
}

Xid
Database::assign_xid(Transaction &transaction)
{
    if (transaction.xid == 0)
    {
        transaction.xid = next_xid_++;
        running_.insert(transaction.xid);
    }
    return transaction.xid;
}

// The id comes before the number, and other sessions may draw theirs in between.
void
Database::emit(int session, EventRow row)
{
    const auto found = sessions_.find(session);
    if (found == sessions_.end() || found->second.state != Transaction::State::open)
        return;
    Transaction &transaction = found->second;
    row.xid = assign_xid(transaction);
    row.seq = next_seq_++;
    row.slot = current_slot_;
    row.emitted_at = clock_.wall();
    row.number = static_cast<int>(rows_.size());
    rows_.push_back(row);
    alive_.push_back(1);
    index_[row.slot][{row.xid, row.seq}] = row.number;
    transaction.events.push_back(row.number);
    next_lsn_++;
    trace_.say("session %d emits event %d (xid %llu, seq %lld, type %d, key %d%s)", session,
               row.number, static_cast<unsigned long long>(row.xid),
               static_cast<long long>(row.seq), row.type, row.key,
               row.invalid      ? ", invalid"
               : row.unreadable ? ", unreadable"
                                : "");
    fate_.emitted(row);
}

// A subtransaction has an id of its own, which nobody lists.
void
Database::savepoint(int session)
{
    const auto found = sessions_.find(session);
    if (found == sessions_.end() || found->second.state != Transaction::State::open)
        return;
    (void) assign_xid(found->second);
    next_xid_++;
    found->second.savepoints.push_back(found->second.events.size());
}

void
Database::take_back(int event)
{
    alive_[static_cast<std::size_t>(event)] = 0;
    fate_.vanished(event);
}

void
Database::rollback_to_savepoint(int session)
{
    const auto found = sessions_.find(session);
    if (found == sessions_.end() || found->second.savepoints.empty())
        return;
    Transaction &transaction = found->second;
    trace_.say("session %d rolls back to its savepoint", session);
    while (transaction.events.size() > transaction.savepoints.back())
    {
        take_back(transaction.events.back());
        transaction.events.pop_back();
    }
    transaction.savepoints.pop_back();
}

void
Database::prepare(int session)
{
    const auto found = sessions_.find(session);
    if (found == sessions_.end() || found->second.xid == 0)
        return;
    trace_.say("session %d prepares", session);
    found->second.state = Transaction::State::prepared;
    flush_log(++next_lsn_);
}

// Its record first, then it is on disk if somebody waits for that, then it is visible.
void
Database::commit(int session, bool synchronous)
{
    const auto found = sessions_.find(session);
    if (found == sessions_.end())
        return;
    Transaction &transaction = found->second;
    if (transaction.xid != 0)
    {
        transaction.commit_lsn = ++next_lsn_;
        commits_[transaction.xid] = transaction.commit_lsn;
        if (synchronous || transaction.state == Transaction::State::prepared)
            flush_log(transaction.commit_lsn);
        trace_.say("session %d commits %zu events%s", session, transaction.events.size(),
                   synchronous ? "" : ", asynchronously");
        finish(transaction, true);
    }
    sessions_.erase(found);
}

void
Database::rollback(int session)
{
    const auto found = sessions_.find(session);
    if (found == sessions_.end())
        return;
    trace_.say("session %d rolls back", session);
    finish(found->second, false);
    sessions_.erase(found);
}

void
Database::finish(Transaction &transaction, bool committed)
{
    if (transaction.xid == 0)
        return;
    running_.erase(transaction.xid);
    latest_completed_ = std::max(latest_completed_, transaction.xid);
    if (committed)
        committed_events_ += transaction.events.size();
    transaction.state = committed ? Transaction::State::committed : Transaction::State::aborted;
    for (const int event : transaction.events)
        if (committed)
            fate_.committed(event);
        else
            take_back(event);
}

void
Database::flush_log(Lsn lsn)
{
    if (lsn <= flushed_)
        return;
    flushed_ = lsn;
    if (!standby_lags_)
        on_standby_ = flushed_;
    while (versions_.size() > 1 && versions_[1].lsn <= flushed_)
        versions_.erase(versions_.begin());
}

void
Database::set_standby_lag(bool lags)
{
    standby_lags_ = lags;
    if (!lags)
        on_standby_ = flushed_;
}

void
Database::log_tables()
{
    versions_.push_back({++next_lsn_, next_xid_, tables_});
}

void
Database::crash()
{
    flush_log(flushed_ +
              static_cast<Lsn>(random_.below(static_cast<std::int64_t>(next_lsn_ - flushed_ + 1))));
    trace_.say("the server crashes; its log is on disk up to %llu of %llu",
               static_cast<unsigned long long>(flushed_),
               static_cast<unsigned long long>(next_lsn_));
    undo_.reset();
    in_transaction_ = false;
    changed_ = false;
    held_.clear();
    for (Time &until : locked_until_)
        until = 0;
    committed_events_ = 0;
    tables_ = versions_.front().tables;
    next_xid_ =
        std::max(versions_.front().next_xid, next_xid_ - static_cast<Xid>(random_.below(8)));
    for (auto session = sessions_.begin(); session != sessions_.end();)
        if (session->second.state == Transaction::State::prepared)
            ++session;
        else
        {
            finish(session->second, false);
            session = sessions_.erase(session);
        }
    // Commits that nobody waited for are taken back, and their ids may be given out again.
    Xid highest = 0;
    for (auto commit = commits_.begin(); commit != commits_.end();)
    {
        if (commit->second <= flushed_)
        {
            highest = commit->first;
            ++commit;
            continue;
        }
        for (auto &index : index_)
            for (auto at = index.lower_bound({commit->first, INT64_MIN});
                 at != index.end() && at->first.first == commit->first; at = index.erase(at))
                if (alive_[static_cast<std::size_t>(at->second)] != 0)
                    take_back(at->second);
        commit = commits_.erase(commit);
    }
    for (const Xid xid : running_)
        highest = std::max(highest, xid);
    next_xid_ = std::max<Xid>(highest + 1, next_xid_);
    versions_ = {{flushed_, next_xid_, tables_}};
    latest_completed_ = next_xid_ - 1;
    for (auto &index : index_)
        for (auto at = index.lower_bound({next_xid_, INT64_MIN}); at != index.end();)
            at = index.erase(at);
    next_seq_ += random_.below(33);
    next_lsn_ = flushed_ + 1;
    routes_version_++;
}

void
Database::rotate()
{
    const int next = (current_slot_ + 1) % kSlots;
    if (!index_[next].empty())
        return;
    trace_.say("new events go to slot %d", next);
    current_slot_ = next;
}

// By truth, not by ticks: that the ring decides rightly is proven elsewhere.
bool
Database::empty_one_slot()
{
    for (int slot = 0; slot < kSlots; slot++)
    {
        if (slot == current_slot_ || index_[slot].empty())
            continue;
        bool old = true;
        for (const auto &entry : index_[slot])
            old = old && tables_.position.from.visible(entry.first.first) &&
                  tables_.deliveries.count(entry.first.second) == 0 &&
                  running_.count(entry.first.first) == 0;
        // A position that a crash may take back does not count.
        if (!old || in_relay_transaction())
            continue;
        flush_log(next_lsn_);
        trace_.say("slot %d is emptied", slot);
        for (const auto &entry : index_[slot])
            if (alive_[static_cast<std::size_t>(entry.second)] != 0)
            {
                alive_[static_cast<std::size_t>(entry.second)] = 0;
                fate_.removed(entry.second);
            }
        index_[slot].clear();
        return true;
    }
    return false;
}

// --- The relay ---

void
Database::statement(Statement kind)
{
    clock_.advance(5 + random_.below(20) + (kind == Statement::sets_aside ? cost_of_a_row_ : 0));
    if (kill_after_ >= 0 && kill_after_-- == 0)
    {
        trace_.say("the relay is killed at a statement");
        throw Killed();
    }
    if (kind == Statement::reads || failing_ == 0)
        return;
    if (writes_before_failure_ > 0)
    {
        writes_before_failure_--;
        return;
    }
    failing_--;
    failed_ = true;
    trace_.say("a statement fails: no space left on device");
    // Some errors are others, and the engine does not know them.
    constexpr int kOthers = 20;
    if (kind == Statement::sets_aside && !random_.percent(kOthers))
        throw NotWritten();
    throw DatabaseError();
}

bool
Database::take_failed() noexcept
{
    const bool failed = failed_;
    failed_ = false;
    return failed;
}

void
Database::begin_relay_transaction()
{
    changed_ = false;
    undo_ = std::nullopt;
    in_transaction_ = true;
    writes_before_failure_ = failing_ > 0 && random_.percent(70) ? random_.below(8) : 0;
}

RelayTables &
Database::change()
{
    if (!changed_)
        undo_ = tables_;
    changed_ = true;
    return tables_;
}

void
Database::end_relay_transaction()
{
    in_transaction_ = false;
    if (changed_)
    {
        // A transaction that writes has an id.
        latest_completed_ = std::max(latest_completed_, next_xid_);
        next_xid_++;
        log_tables();
    }
    changed_ = false;
    undo_.reset();
}

void
Database::roll_back_relay()
{
    if (changed_)
        tables_ = std::move(*undo_);
    in_transaction_ = false;
    changed_ = false;
    undo_.reset();
}

// As GetSnapshotData() does: what began after the last transaction that has ended is not listed.
XidSnapshot
Database::snapshot() const
{
    const Xid xmax = latest_completed_ + 1;
    Xid xmin = xmax;
    std::string running;
    for (const Xid xid : running_)
    {
        if (xid >= xmax)
            break;
        xmin = std::min(xmin, xid);
        running += (running.empty() ? "" : ",") + std::to_string(xid);
    }
    XidSnapshot result;
    (void) XidSnapshot::parse(std::to_string(xmin) + ':' + std::to_string(xmax) + ':' + running,
                              result);
    return result;
}

const EventRow *
Database::fetch(Locator locator) const
{
    const auto event = static_cast<std::size_t>(locator);
    const EventRow &row = rows_[event];
    if (alive_[event] == 0 || commits_.count(row.xid) == 0)
        return nullptr;
    return &row;
}

const EventRow *
Database::find(int slot, Xid xid, Seq seq) const
{
    for (int i = 0; i < kSlots; i++)
    {
        const auto &index = index_[(slot + i) % kSlots];
        const auto found = index.find({xid, seq});
        if (found != index.end())
            return fetch(static_cast<Locator>(found->second));
    }
    return nullptr;
}

Lsn
Database::commit_lsn(Xid xid) const
{
    const auto found = commits_.find(xid);
    return found == commits_.end() ? 0 : found->second;
}

bool
Database::is_committed(int event) const
{
    return fetch(static_cast<Locator>(event)) != nullptr;
}

// Also of an event whose slot was emptied: a broker may come to a late copy of it.
bool
Database::is_durable(int event) const
{
    const Lsn commit = commit_lsn(row(event).xid);
    return commit != 0 && commit <= flushed_;
}

} // namespace outbox::sim
