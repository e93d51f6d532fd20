#include "commit_status.h"

extern "C"
{
#include "access/clog.h"
}

namespace outbox
{

namespace
{

// Whether the server still knows how this transaction ended. Ids are compared in their 64-bit form:
// a backlog may be older than what the 32-bit form distinguishes from the future. Hold
// XactTruncationLock to use the answer.
bool
has_commit_status(uint64 xid)
{
    const uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
    const uint64 age = static_cast<uint32>(static_cast<uint32>(next) - oldest_known_xid());
    return xid < next && xid + age >= next && TransactionIdIsNormal(static_cast<uint32>(xid));
}

// The server keeps one commit record per group of neighbouring ids, so one look per group is
// enough.
constexpr uint64 kXidsPerLsnGroup = 32;

} // namespace

void
add_commit(CommitLog *log, uint64 xid)
{
    const uint64 group = xid / kXidsPerLsnGroup;
    if (group == log->last_group)
        return;
    log->last_group = group;
    // The status of very old transactions is gone, and with it any doubt about their durability. It
    // must not go while it is looked at.
    XLogRecPtr lsn = InvalidXLogRecPtr;
    LWLockAcquire(XactTruncationLock, LW_SHARED);
    // Not TransactionIdGetCommitLSN(): what that remembers of this id may be older than the commits
    // of its neighbours.
    if (has_commit_status(xid))
        (void) TransactionIdGetStatus(static_cast<TransactionId>(xid), &lsn);
    LWLockRelease(XactTruncationLock);
    if (lsn > log->latest)
        log->latest = lsn;
}

bool
has_committed(uint64 xid)
{
    static uint64 last = 0;
    static bool last_committed = false;
    if (xid == last)
        return last_committed;
    LWLockAcquire(XactTruncationLock, LW_SHARED);
    // The rows of what was rolled back are removed before its status is.
    const bool committed =
        !has_commit_status(xid) || TransactionIdDidCommit(static_cast<TransactionId>(xid));
    LWLockRelease(XactTruncationLock);
    last = xid;
    last_committed = committed;
    return committed;
}

} // namespace outbox
