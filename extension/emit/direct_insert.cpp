#include "direct_insert.h"

#include "extension/server/pg_insert.h"

namespace outbox
{

namespace
{

bool
is_plain(const IndexInfo *info)
{
    return info->ii_Expressions == NIL && info->ii_Predicate == NIL &&
           info->ii_ExclusionOps == nullptr && !info->ii_Unique;
}

void
insert_entries(Relation table, TupleTableSlot *row, OpenIndexes *open)
{
    for (int i = 0; i < open->count; i++)
    {
        IndexInfo *info = open->infos[i];
        if (!info->ii_ReadyForInserts)
            continue;
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        FormIndexDatum(info, row, nullptr, values, nulls);
        insert_index_entry(open->indexes[i], values, nulls, &row->tts_tid, table, info);
    }
}

void
insert_by_executor(Relation table, TupleTableSlot *row)
{
    row->tts_tableOid = RelationGetRelid(table);
    EState *estate = CreateExecutorState();
    ResultRelInfo *result = makeNode(ResultRelInfo);
    InitResultRelInfo(result, table, 1, nullptr, 0);
    ExecOpenIndices(result, false);
    table_tuple_insert(table, row, GetCurrentCommandId(true), 0, nullptr);
    insert_index_entries(result, row, estate);
    ExecCloseIndices(result);
    FreeExecutorState(estate);
}

} // namespace

void
close_indexes(OpenIndexes *open)
{
    for (int i = 0; i < open->count; i++)
    {
        end_index_inserts(open->indexes[i], open->infos[i]);
        index_close(open->indexes[i], NoLock);
    }
    open->count = 0;
}

bool
open_indexes(Relation table, OpenIndexes *open)
{
    open->count = 0;
    List *list = RelationGetIndexList(table);
    bool plain = list_length(list) <= kMaxIndexes;
    for (int i = 0; plain && i < list_length(list); i++)
    {
        Relation index = index_open(list_nth_oid(list, i), RowExclusiveLock);
        IndexInfo *info = BuildIndexInfo(index);
        open->indexes[open->count] = index;
        open->infos[open->count++] = info;
        plain = is_plain(info);
    }
    list_free(list);
    if (!plain)
        close_indexes(open);
    return plain;
}

void
insert_row(Relation table, TupleTableSlot *row, OpenIndexes *indexes)
{
    row->tts_tableOid = RelationGetRelid(table);
    table_tuple_insert(table, row, GetCurrentCommandId(true), 0, nullptr);
    insert_entries(table, row, indexes);
}

void
insert_row(Relation table, TupleTableSlot *row)
{
    OpenIndexes open;
    if (!open_indexes(table, &open))
        return insert_by_executor(table, row);
    insert_row(table, row, &open);
    close_indexes(&open);
}

} // namespace outbox
