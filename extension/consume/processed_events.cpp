// INSERT ... ON CONFLICT DO NOTHING looks into the index, inserts a provisional row, and confirms
// it. Here rows are inserted as they stay, many at once. A lock on each event, held from the look
// to the insert, keeps others who do the same away. What meets the statement's insert of the same
// event takes its row back and leaves the decision to the statement, which waits. So what is common
// is cheap, and what is rare is right.
//
// Without the locks two who both lose to a third would wait for the end of each other's
// transaction: an ordinary row that was taken back still stands in the way until then.

#include "processed_events.h"

#include "extension/server/pg_insert.h"
#include "extension/server/pg_scan.h"
#include "extension/shared/lock_spaces.h"
#include "extension/trust/kept_statement.h"
#include "extension/trust/own_relations.h"

extern "C"
{
#include "common/hashfn.h"
}

namespace outbox
{

namespace
{

constexpr AttrNumber kConsumer = 1;
constexpr AttrNumber kEventId = 2;
constexpr int kColumns = 3;
// Rows inserted at once.
constexpr int kRunLength = 64;

const Oid kTypes[] = {TEXTOID, UUIDOID};
KeptStatement insert_statement = {"insert into outbox.processed_events (consumer, event_id) "
                                  "values ($1, $2) on conflict do nothing",
                                  "insert into outbox.processed_events", 2, kTypes, nullptr};

// The locks of a run of events. Taken in the order of the ids, so that they cannot deadlock.
struct EventLocks
{
    LOCKTAG tags[kRunLength];
    int count;
};

// A collision of the hash lets two events wait for each other for a moment.
void
lock_event(EventLocks *locks, Datum consumer, Datum id)
{
    const text *name = DatumGetTextPP(consumer);
    const uint64 seed =
        hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(name)),
                            static_cast<int>(VARSIZE_ANY_EXHDR(name)), 0);
    const uint64 hash = hash_bytes_extended(DatumGetUUIDP(id)->data, UUID_LEN, seed);
    LOCKTAG *tag = &locks->tags[locks->count++];
    SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, static_cast<uint32>(hash >> 32),
                         static_cast<uint32>(hash), kLocksOfProcessedEvents);
    (void) LockAcquire(tag, ExclusiveLock, false, false);
}

void
unlock_events(EventLocks *locks)
{
    while (locks->count > 0)
        (void) LockRelease(&locks->tags[--locks->count], ExclusiveLock, false);
}

enum class Presence
{
    absent,
    present,
    undecided // another transaction's insert or delete
};

// The open table. Everything is in the estate's memory context.
struct Target
{
    Relation relation;
    EState *estate;
    ResultRelInfo *result;
    SnapshotData dirty;
    ScanKeyData keys[2];
    IndexScanDesc scan;
    TupleTableSlot *found;
    TupleTableSlot *rows[kRunLength]; // made when they are needed
    int made;
};

Relation
primary_key(const ResultRelInfo *result)
{
    for (int i = 0; i < result->ri_NumIndices; i++)
    {
        const Form_pg_index index = result->ri_IndexRelationDescs[i]->rd_index;
        if (index->indisprimary && index->indnkeyatts == 2 && index->indkey.values[0] == kEventId &&
            index->indkey.values[1] == kConsumer)
            return result->ri_IndexRelationDescs[i];
    }
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("the primary key of outbox.processed_events is not (event_id, consumer)"),
             errhint("Recreate it as the extension did.")));
}

// Whether nothing was added to the table that an insert has to look at, but indexes.
bool
is_as_made(Relation table)
{
    const TupleDesc desc = RelationGetDescr(table);
    constexpr Oid kMade[kColumns] = {TEXTOID, UUIDOID, TIMESTAMPTZOID};
    bool same =
        desc->natts == kColumns && (desc->constr == nullptr || desc->constr->num_check == 0);
    for (int i = 0; i < kColumns && same; i++)
        same = TupleDescAttr(desc, i)->atttypid == kMade[i];
    return same;
}

void
open_target(Target *target, Relation table, Datum consumer)
{
    target->relation = table;
    target->estate = CreateExecutorState();
    target->result = makeNode(ResultRelInfo);
    InitResultRelInfo(target->result, target->relation, 1, nullptr, 0);
    ExecOpenIndices(target->result, false);
    target->found = table_slot_create(target->relation, nullptr);
    target->made = 0;

    Relation index = primary_key(target->result);
    InitDirtySnapshot(target->dirty);
    // The order of the primary key's columns: ids are quick to tell apart.
    ScanKeyInit(&target->keys[0], 1, BTEqualStrategyNumber, F_UUID_EQ, static_cast<Datum>(0));
    ScanKeyInit(&target->keys[1], 2, BTEqualStrategyNumber, F_TEXTEQ, consumer);
    target->keys[1].sk_collation = index->rd_indcollation[1];
    target->scan = begin_index_scan(target->relation, index, &target->dirty, 2);
}

void
close_target(Target *target)
{
    index_endscan(target->scan);
    for (int i = 0; i < target->made; i++)
        ExecDropSingleTupleTableSlot(target->rows[i]);
    ExecDropSingleTupleTableSlot(target->found);
    ExecCloseIndices(target->result);
    table_close(target->relation, NoLock);
    FreeExecutorState(target->estate);
}

Presence
find_marked(Target *target, Datum id)
{
    target->keys[0].sk_argument = id;
    index_rescan(target->scan, target->keys, 2, nullptr, 0);
    if (!index_getnext_slot(target->scan, ForwardScanDirection, target->found))
        return Presence::absent;
    const bool undecided =
        TransactionIdIsValid(target->dirty.xmin) || TransactionIdIsValid(target->dirty.xmax);
    ExecClearTuple(target->found);
    return undecided ? Presence::undecided : Presence::present;
}

// Before a wait: VACUUM needs the index's pages without our pins.
void
let_go(Target *target)
{
    index_rescan(target->scan, target->keys, 2, nullptr, 0);
}

void
fill_row(Target *target, int n, Datum consumer, Datum id)
{
    if (n == target->made)
        target->rows[target->made++] =
            MakeSingleTupleTableSlot(RelationGetDescr(target->relation), &TTSOpsVirtual);
    TupleTableSlot *row = target->rows[n];
    ExecClearTuple(row);
    row->tts_values[0] = consumer;
    row->tts_values[1] = id;
    row->tts_values[2] = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
    memset(row->tts_isnull, 0, kColumns * sizeof(bool));
    ExecStoreVirtualTuple(row);
    row->tts_tableOid = RelationGetRelid(target->relation);
}

// Inserts the first `count` rows; returns how many of them the index took. The next one, if any,
// was being inserted by another session, and it and the rest are gone again.
int
insert_rows(Target *target, int count)
{
    const CommandId command = GetCurrentCommandId(true);
    if (count == 1)
        table_tuple_insert(target->relation, target->rows[0], command, 0, nullptr);
    else
        table_multi_insert(target->relation, target->rows, count, command, 0, nullptr);
    int taken = 0;
    while (taken < count &&
           insert_unique_entries(target->result, target->rows[taken], target->estate))
        taken++;
    if (taken == count)
        return taken;
    CommandCounterIncrement(); // what this command inserted, it cannot delete
    for (int i = taken; i < count; i++)
        simple_heap_delete(target->relation, &target->rows[i]->tts_tid);
    return taken;
}

} // namespace

bool
insert_processed_by_statement(Datum consumer, Datum id)
{
    HeapTuple table = SearchSysCache1(RELOID, ObjectIdGetDatum(processed_events_table()));
    if (!HeapTupleIsValid(table))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("relation \"outbox.processed_events\" does not exist")));
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(table))->relowner;
    ReleaseSysCache(table);

    // As in a security definer function. An error restores the user together with the rest of the
    // transaction's state.
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE);
    connect_spi();
    Datum values[] = {consumer, id};
    const bool inserted = run_statement(&insert_statement, values, nullptr, SPI_OK_INSERT) == 1;
    finish_spi();
    SetUserIdAndSecContext(user, context);
    return inserted;
}

void
insert_each(Datum consumer, Datum *ids, int count, bool *is_new)
{
    for (int i = 0; i < count; i++)
    {
        CHECK_FOR_INTERRUPTS();
        is_new[i] = insert_processed_by_statement(consumer, ids[i]);
    }
}

void
insert_processed(Datum consumer, Datum *ids, int count, bool *is_new)
{
    Relation table = table_open(processed_events_table(), RowExclusiveLock);
    refuse_unlogged("processed_events",
                    "A crash would empty it, and events would be processed again.");
    // What is attached to the table runs with the caller's rights: expressions of its indexes
    // are evaluated here. With the lock, so that nothing more is attached.
    require_trusted_objects();
    if (!is_as_made(table))
    {
        table_close(table, NoLock);
        insert_each(consumer, ids, count, is_new);
        return;
    }
    Target target;
    EventLocks locks;
    locks.count = 0;
    open_target(&target, table, consumer);
    int next = 0;
    while (next < count)
    {
        CHECK_FOR_INTERRUPTS();
        // A run goes up to an event that has to be waited for.
        int places[kRunLength];
        int rows = 0;
        Presence last = Presence::absent;
        for (; next < count && locks.count < kRunLength; next++)
        {
            lock_event(&locks, consumer, ids[next]);
            last = find_marked(&target, ids[next]);
            if (last == Presence::undecided)
                break;
            is_new[next] = false;
            if (last == Presence::present)
                continue;
            fill_row(&target, rows, consumer, ids[next]);
            places[rows++] = next;
        }
        const int taken = rows > 0 ? insert_rows(&target, rows) : 0;
        unlock_events(&locks);
        for (int i = 0; i < taken; i++)
            is_new[places[i]] = true;
        if (taken < rows)
            next = places[taken];
        else if (last != Presence::undecided)
            continue;
        let_go(&target);
        is_new[next] = insert_processed_by_statement(consumer, ids[next]);
        next++;
    }
    close_target(&target);
}

} // namespace outbox
