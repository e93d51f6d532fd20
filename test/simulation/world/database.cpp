#include "relay_store.h"

#include <algorithm>

namespace outbox::sim
{

Database::Database(SimClock &clock, Random &random, Trace &trace, EventFate &fate, int types,
                   const SipKey &lane_key)
    : clock_(clock), random_(random), trace_(trace), fate_(fate), lane_key_(lane_key)
{
    for (int type = 0; type < types; type++)
    {
        routes_.topics.push_back("topic" + std::to_string(type));
        routes_.blocks.push_back(true);
    }
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

void
Database::assign_xid(int session)
{
    (void) assign_xid(sessions_.at(session));
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
