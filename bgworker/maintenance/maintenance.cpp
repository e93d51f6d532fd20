#include "maintenance.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"

#include "extension/core/steady.h"
#include "extension/emit/event_table.h"

namespace outbox
{

namespace
{

// As the indexes are made in sql/events.sql.
constexpr BlockNumber kBlocksPerRange = 32;

// 16 MB: some fifty thousand events to read when one of the latest is looked up.
constexpr BlockNumber kEnoughBlocks = 2048;

// What a call may take: publishing waits meanwhile.
constexpr long kSummarizeMs = 5;

// In a partition's index, all ranges before this block have their summary.
BlockNumber summarized[kRingSlots];

// Summarizes whole ranges until the time is over. Returns whether there are more.
bool
summarize_ranges(Oid index, BlockNumber blocks, BlockNumber *next, std::int64_t began)
{
    while (blocks - *next >= kBlocksPerRange)
    {
        if (ShutdownRequestPending || steady_now() - began >= kSummarizeMs * 1000)
            return true;
        (void) OidFunctionCall2(F_BRIN_SUMMARIZE_RANGE, ObjectIdGetDatum(index),
                                Int64GetDatum(*next));
        *next += kBlocksPerRange;
    }
    return false;
}

bool
summarize_slot(Oid schema, int slot, int current, std::int64_t began)
{
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "events_%d", slot);
    const Oid table = get_relname_relid(name, schema);
    snprintf(name, sizeof(name), "events_%d_id", slot);
    const Oid index = get_relname_relid(name, schema);
    // The locks of brin_summarize_range().
    if (lock_relation(table, ShareUpdateExclusiveLock) != OpenResult::opened ||
        lock_relation(index, ShareUpdateExclusiveLock) != OpenResult::opened)
        return false;
    Relation relation = table_open(table, NoLock);
    const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
    table_close(relation, NoLock);
    if (blocks < summarized[slot])
        summarized[slot] = 0; // truncated since
    // Nothing follows in a partition that was left.
    if (blocks - summarized[slot] < (slot == current ? kEnoughBlocks : kBlocksPerRange))
        return false;
    return summarize_ranges(index, blocks, &summarized[slot], began);
}

} // namespace

void
forget_summaries(int slot)
{
    summarized[slot] = 0;
}

bool
summarize_new_blocks(int current_slot)
{
    const std::int64_t began = steady_now();
    bool more = false;
    begin_transaction();
    const Oid schema = get_namespace_oid("outbox", true);
    for (int slot = 0; OidIsValid(schema) && slot < kRingSlots && !more; slot++)
        more = summarize_slot(schema, slot, current_slot, began);
    end_transaction();
    return more;
}

} // namespace outbox
