#include "durability.h"

extern "C"
{
#include "access/xlog_internal.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
}

namespace outbox
{

namespace
{

bool
synchronous_standbys()
{
    return SyncRepStandbyNames != nullptr && SyncRepStandbyNames[0] != '\0';
}

// The insert position can lie just behind the header of a page on which nothing is written yet;
// flushing up to there fails.
XLogRecPtr
end_of_written_wal()
{
    const XLogRecPtr lsn = GetXLogInsertRecPtr();
    if (XLogSegmentOffset(lsn, wal_segment_size) == SizeOfXLogLongPHD)
        return lsn - SizeOfXLogLongPHD;
    if (lsn % XLOG_BLCKSZ == SizeOfXLogShortPHD)
        return lsn - SizeOfXLogShortPHD;
    return lsn;
}

} // namespace

void
make_durable_here(XLogRecPtr commit_lsn)
{
    if (!XLogRecPtrIsInvalid(commit_lsn) && XLogNeedsFlush(commit_lsn))
        XLogFlush(commit_lsn);
}

XLogRecPtr
needed_on_standbys()
{
    if (max_wal_senders == 0 || !synchronous_standbys())
        return InvalidXLogRecPtr;
    const XLogRecPtr lsn = end_of_written_wal();
    make_durable_here(lsn);
    return lsn;
}

bool
is_durable_on_standbys(XLogRecPtr lsn)
{
    // The setting may have been emptied meanwhile, because the standbys are gone for good.
    if (XLogRecPtrIsInvalid(lsn) || !synchronous_standbys())
        return true;
    LWLockAcquire(SyncRepLock, LW_SHARED);
    const XLogRecPtr flushed = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH];
    LWLockRelease(SyncRepLock);
    return lsn <= flushed;
}

} // namespace outbox
