// The tables are gone through block by block, round and round. An index on the time would make
// every outbox.mark_processed() dearer; this costs nothing there, and a few pages a second here,
// as many as it takes to come round within a tenth of the time that rows are kept.

#include "expiry.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/spi_call.h"

#include "extension/core/steady.h"
#include "extension/server/pg_scan.h"
#include "extension/shared/settings.h"

namespace outbox
{

namespace
{

constexpr int64 kSecondUs = 1000000;
// A step holds its locks on rows that it removes no longer than this, but does one block at least.
constexpr int64 kStepUs = 20 * 1000;
constexpr int64 kAheadUs = 60 * kSecondUs;
constexpr BlockNumber kMinBlocks = 32;   // 256 kB, one step for a small table
constexpr BlockNumber kMaxBlocks = 2048; // 16 MB
constexpr int kKeysRoundS = 60 * 60;
// Shorter than what most topics keep, and than a weekend's outage of a consumer.
constexpr int kRiskyRetentionS = 24 * 60 * 60;

// A table whose rows expire by a time in one of their columns.
struct ExpiringTable
{
    const char *name;
    const char *column;
    const char *stamped;    // when the row was written; it cannot be later than now
    const char *is_now;     // of the rows in $1, that time becomes now
    BlockNumber next_block; // InvalidBlockNumber: not begun
};

// Rows that another session has locked are left for the next time.
ExpiringTable processed_events = {
    "processed_events", "processed_at", "processed_at",
    "update outbox.processed_events x set processed_at = clock_timestamp() "
    "where x.ctid = any (array(select y.ctid from outbox.processed_events y "
    " where y.ctid = any ($1) for no key update skip locked))",
    InvalidBlockNumber};
ExpiringTable idempotency_keys = {
    "idempotency_keys", "expires_at", "started_at",
    "update outbox.idempotency_keys x set started_at = clock_timestamp(), "
    "lease_until = clock_timestamp() + (x.lease_until - x.started_at), "
    "expires_at = clock_timestamp() + (x.expires_at - x.started_at) "
    "where x.ctid = any (array(select y.ctid from outbox.idempotency_keys y "
    " where y.ctid = any ($1) for no key update skip locked))",
    InvalidBlockNumber};

bool
delete_row(Relation relation, TupleTableSlot *slot)
{
    TM_FailureData unused;
    // A row that another transaction has locked or changed is left alone.
    return table_tuple_delete(relation, &slot->tts_tid, GetCurrentCommandId(true),
                              GetActiveSnapshot(), InvalidSnapshot, false, &unused, false) == TM_Ok;
}

// Times of a clock that was ahead; a minute is none of it.
bool
is_later_than_now(TupleTableSlot *slot, AttrNumber column)
{
    bool is_null;
    const Datum time = slot_getattr(slot, column, &is_null);
    return !is_null && DatumGetTimestampTz(time) > GetCurrentTimestamp() + kAheadUs;
}

void
make_now(const ExpiringTable &table, Datum *places, int count)
{
    Oid types[] = {get_array_type(TIDOID)};
    Datum values[] = {PointerGetDatum(
        construct_array(places, count, TIDOID, sizeof(ItemPointerData), false, 's'))};
    spi_connect();
    spi_execute(table.is_now, 1, types, values, SPI_OK_UPDATE);
    (void) SPI_finish();
}

struct Columns
{
    AttrNumber expires;
    AttrNumber stamped;
};

int64
remove_from_block(const ExpiringTable &table, Relation relation, BlockNumber block,
                  const Columns &columns, TimestampTz expired, TupleTableSlot *slot)
{
    TableScanDesc scan = begin_block_scan(relation, GetActiveSnapshot(), block);
    static ItemPointerData places[MaxHeapTuplesPerPage];
    static Datum later[MaxHeapTuplesPerPage];
    int count = 0;
    int64 removed = 0;
    while (next_of_block(scan, slot))
    {
        bool is_null;
        const Datum time = slot_getattr(slot, columns.expires, &is_null);
        if (!is_null && DatumGetTimestampTz(time) <= expired && delete_row(relation, slot))
            removed++;
        else if (count < MaxHeapTuplesPerPage && is_later_than_now(slot, columns.stamped))
        {
            places[count] = slot->tts_tid;
            later[count] = PointerGetDatum(&places[count]);
            count++;
        }
    }
    table_endscan(scan);
    if (count > 0)
        make_now(table, later, count);
    return removed;
}

// The blocks of this step, such that all are seen within `round_s`.
BlockNumber
blocks_of_step(BlockNumber blocks, int round_s)
{
    const BlockNumber even = blocks / static_cast<BlockNumber>(Max(round_s, 1)) + 1;
    return Min(Min(Max(even, kMinBlocks), kMaxBlocks), blocks);
}

AttrNumber
column_of(const ExpiringTable &table, Relation relation, const char *name)
{
    const AttrNumber column = get_attnum(RelationGetRelid(relation), name);
    if (column == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("outbox relay: outbox.%s has no column %s", table.name, name)));
    return column;
}

int64
remove_from_table(ExpiringTable *table, Relation relation, TimestampTz expired, int round_s)
{
    const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
    if (blocks == 0)
        return 0;
    // A relay that is often started anew would otherwise see the first blocks only.
    if (table->next_block == InvalidBlockNumber)
        table->next_block = static_cast<BlockNumber>(random_bits() % blocks);
    const Columns columns = {column_of(*table, relation, table->column),
                             column_of(*table, relation, table->stamped)};
    TupleTableSlot *slot = table_slot_create(relation, nullptr);
    const int64 end = steady_now() + kStepUs;
    int64 removed = 0;
    for (BlockNumber left = blocks_of_step(blocks, round_s); left > 0; left--)
    {
        CHECK_FOR_INTERRUPTS();
        if (table->next_block >= blocks)
            table->next_block = 0;
        removed += remove_from_block(*table, relation, table->next_block++, columns, expired, slot);
        if (steady_now() >= end)
            break;
    }
    ExecDropSingleTupleTableSlot(slot);
    return removed;
}

void
count_removed(const char *table, int64 removed)
{
    Oid types[] = {TEXTOID, INT8OID};
    Datum values[] = {CStringGetTextDatum(table), Int64GetDatum(removed)};
    spi_connect();
    spi_execute("update outbox.expiry set removed_total = removed_total + $2, "
                "last_removed_at = clock_timestamp() where table_name = $1",
                2, types, values, SPI_OK_UPDATE);
    (void) SPI_finish();
}

// The table, if it is not locked.
Relation
open_if_free(const char *name)
{
    const Oid table = find_own_relation(name);
    return lock_table(table, RowExclusiveLock) == OpenResult::opened ? table_open(table, NoLock)
                                                                     : nullptr;
}

void
step(ExpiringTable *table, TimestampTz expired, int round_s)
{
    begin_transaction();
    // All locks before the first row is removed: DROP EXTENSION takes the same ones in its own
    // order.
    Relation counters =
        OidIsValid(get_extension_oid("outbox", true)) ? open_if_free("expiry") : nullptr;
    Relation relation = counters != nullptr ? open_if_free(table->name) : nullptr;
    if (relation != nullptr)
    {
        const int64 removed = remove_from_table(table, relation, expired, round_s);
        table_close(relation, NoLock);
        if (removed > 0)
            count_removed(table->name, removed);
    }
    if (counters != nullptr)
        table_close(counters, NoLock);
    end_transaction();
}

void
warn_of_short_retention(int retention_s)
{
    static int warned_of = 0;
    if (retention_s == warned_of)
        return;
    warned_of = retention_s;
    if (retention_s < kRiskyRetentionS)
        ereport(WARNING,
                (errcode(ERRCODE_WARNING),
                 errmsg("outbox.processed_retention is shorter than a day"),
                 errdetail("An event that Kafka delivers again after %d seconds acts again.",
                           retention_s),
                 errhint("Keep processed events longer than Kafka keeps the topics.")));
}

} // namespace

void
remove_expired()
{
    const TimestampTz now = GetCurrentTimestamp();
    const int retention_s = settings.processed_retention_s;
    if (retention_s > 0)
    {
        warn_of_short_retention(retention_s);
        step(&processed_events, now - retention_s * kSecondUs, retention_s / 10);
    }
    step(&idempotency_keys, now, kKeysRoundS);
}

} // namespace outbox
