#include "relay_store.h"

#include "bgworker/engine/source.h"

#include <algorithm>

namespace outbox::sim
{

RelayStore::RelayStore(Database &database, SimClock &clock, Random &random, Trace &trace,
                       const RelayTables &tables)
    : database_(database), clock_(clock), random_(random), trace_(trace), tables_(tables)
{
    begin_anew(database_.flushed(), database_.next_xid());
    database_.add(*this);
}

RelayStore::~RelayStore()
{
    database_.remove(*this);
}

void
RelayStore::statement(Statement kind)
{
    clock_.advance(5 + random_.below(20) +
                   (kind == Statement::sets_aside ? database_.cost_of_a_row() : 0));
    if (kill_after_ >= 0 && kill_after_-- == 0)
    {
        trace_.say("the relay is killed at a statement");
        throw Killed();
    }
    if (kind == Statement::reads || !writes_fail())
        return;
    if (writes_before_failure_ > 0)
    {
        writes_before_failure_--;
        return;
    }
    failing_ -= failing_ > 0 ? 1 : 0;
    failed_ = true;
    trace_.say("a statement fails: no space left on device");
    // Some errors are others, and the engine does not know them.
    constexpr int kOthers = 20;
    if (kind == Statement::sets_aside && !random_.percent(kOthers))
        throw NotWritten();
    throw DatabaseError();
}

bool
RelayStore::take_failed() noexcept
{
    const bool failed = failed_;
    failed_ = false;
    return failed;
}

void
RelayStore::begin_transaction()
{
    changed_ = false;
    undo_ = std::nullopt;
    in_transaction_ = true;
    writes_before_failure_ = failing_ > 0 && random_.percent(70) ? random_.below(8) : 0;
}

RelayTables &
RelayStore::change()
{
    if (!changed_)
        undo_ = tables_;
    changed_ = true;
    return tables_;
}

void
RelayStore::end_transaction()
{
    in_transaction_ = false;
    if (changed_)
    {
        database_.spend_xid();
        log_tables();
    }
    changed_ = false;
    undo_.reset();
}

void
RelayStore::roll_back()
{
    if (changed_)
        tables_ = std::move(*undo_);
    in_transaction_ = false;
    changed_ = false;
    undo_.reset();
}

void
RelayStore::log_tables()
{
    const Lsn lsn = database_.write_log();
    versions_.push_back({lsn, database_.next_xid(), tables_});
}

void
RelayStore::flushed(Lsn lsn)
{
    std::size_t old = 0;
    while (old + 1 < versions_.size() && versions_[old + 1].lsn <= lsn)
        old++;
    versions_.erase(versions_.begin(), versions_.begin() + static_cast<std::ptrdiff_t>(old));
}

Xid
RelayStore::crash()
{
    undo_.reset();
    in_transaction_ = false;
    changed_ = false;
    held_.clear();
    tables_ = versions_.front().tables;
    return versions_.front().next_xid;
}

void
RelayStore::begin_anew(Lsn lsn, Xid next_xid)
{
    versions_.clear();
    versions_.push_back({lsn, next_xid, tables_});
}

} // namespace outbox::sim
