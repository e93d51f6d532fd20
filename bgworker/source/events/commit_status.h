// How transactions ended, as PostgreSQL's commit log knows it.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// The latest commit record that asynchronous commits of these transactions wrote.
struct CommitLog
{
    uint64 last_group;
    XLogRecPtr latest;
};

// Raises log->latest to the commit record of this transaction, if that may not be flushed yet.
void add_commit(CommitLog *log, uint64 xid);

// Whether a transaction that has ended was committed.
bool has_committed(uint64 xid);

} // namespace outbox
