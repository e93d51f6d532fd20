#include "maintenance.h"

#include "short_transaction.h"

#include "../extension/event_table.h"

namespace outbox
{

namespace
{

// 16 MB: some fifty thousand events to read when one of the latest is looked up.
constexpr BlockNumber kEnoughBlocks = 2048;

BlockNumber summarized[kRingSlots];

// The lock of brin_summarize_new_values(), if it is free; held to the end of the transaction.
bool
lock_for_summary(Oid table)
{
    return ConditionalLockRelationOid(table, ShareUpdateExclusiveLock) &&
           SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table));
}

void
summarize_slot(Oid schema, int slot)
{
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "events_%d", slot);
    const Oid table = get_relname_relid(name, schema);
    snprintf(name, sizeof(name), "events_%d_id", slot);
    const Oid index = get_relname_relid(name, schema);
    if (!OidIsValid(table) || !OidIsValid(index) || !lock_for_summary(table))
        return;
    Relation relation = table_open(table, NoLock);
    const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
    table_close(relation, NoLock);
    if (blocks < summarized[slot])
        summarized[slot] = 0; // truncated since
    if (blocks - summarized[slot] < kEnoughBlocks)
        return;
    (void) OidFunctionCall1(F_BRIN_SUMMARIZE_NEW_VALUES, ObjectIdGetDatum(index));
    summarized[slot] = blocks;
}

} // namespace

void
summarize_new_blocks()
{
    begin_transaction();
    const Oid schema = get_namespace_oid("outbox", true);
    for (int slot = 0; OidIsValid(schema) && slot < kRingSlots; slot++)
        summarize_slot(schema, slot);
    end_transaction();
}

} // namespace outbox
