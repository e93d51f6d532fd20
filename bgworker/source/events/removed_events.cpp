#include "removed_events.h"

#include "bgworker/source/subscription.h"

namespace outbox
{

namespace
{

struct Removed
{
    uint64 count;
    uint64 before; // as of the last call of log_removed()
    int slot;
    int64 first;
    int64 last;
};
Removed removed = {};

} // namespace

void
count_removed(int slot, int64 seq) noexcept
{
    if (removed.count == 0)
        removed.first = removed.last = seq;
    removed.count++;
    removed.slot = slot;
    removed.first = Min(removed.first, seq);
    removed.last = Max(removed.last, seq);
}

void
log_removed()
{
    if (removed.count == 0)
        return;
    if (removed.count != removed.before)
    {
        removed.before = removed.count;
        return;
    }
    const Removed found = removed;
    removed = {};
    ereport(WARNING,
            (errcode(ERRCODE_NO_DATA_FOUND),
             errmsg("%s: " UINT64_FORMAT " events were gone before they were published",
                    relay_title(), found.count),
             errdetail("Their rows are no longer in outbox.events, the last in outbox.events_%d; "
                       "numbers (seq) " INT64_FORMAT " to " INT64_FORMAT ".",
                       found.slot, found.first, found.last),
             errhint("TRUNCATE and DELETE remove events for good; the relay empties partitions "
                     "by itself. Rows of rolled-back savepoints that VACUUM removed may be among "
                     "them.")));
}

} // namespace outbox
