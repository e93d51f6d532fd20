// Inserting rows and index entries, whatever PostgreSQL's version.
#pragma once

#include "pg.h"

namespace outbox
{

inline List *
insert_index_tuples(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate, bool speculative,
                    bool *conflict)
{
#if PG_VERSION_NUM >= 160000
    return ExecInsertIndexTuples(relation, slot, estate, false, speculative, conflict, NIL, false);
#elif PG_VERSION_NUM >= 140000
    return ExecInsertIndexTuples(relation, slot, estate, false, speculative, conflict, NIL);
#else
    estate->es_result_relation_info = relation;
    return ExecInsertIndexTuples(slot, estate, speculative, conflict, NIL);
#endif
}

// Inserts the row's index entries; the table has no unique constraint to be deferred.
inline void
insert_index_entries(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate)
{
    list_free(insert_index_tuples(relation, slot, estate, false, nullptr));
}

// Inserts the row's index entries. False when another row has, or may come to have, the same unique
// key; the entries are there all the same.
inline bool
insert_unique_entries(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate)
{
    bool conflict = false;
    list_free(insert_index_tuples(relation, slot, estate, true, &conflict));
    return !conflict;
}

// Inserts the row as logical replication does: with generated columns, constraints and the triggers
// for rows.
inline void
insert_by_rules(Relation table, TupleTableSlot *row, EState *estate)
{
    RangeTblEntry *entry = makeNode(RangeTblEntry);
    entry->rtekind = RTE_RELATION;
    entry->relid = RelationGetRelid(table);
    entry->relkind = table->rd_rel->relkind;
    entry->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 160000
    List *permissions = NIL;
    addRTEPermissionInfo(&permissions, entry);
#endif
#if PG_VERSION_NUM >= 180000
    ExecInitRangeTable(estate, list_make1(entry), permissions, bms_make_singleton(1));
#elif PG_VERSION_NUM >= 160000
    ExecInitRangeTable(estate, list_make1(entry), permissions);
#else
    ExecInitRangeTable(estate, list_make1(entry));
#endif
    ResultRelInfo *result = makeNode(ResultRelInfo);
    InitResultRelInfo(result, table, 1, nullptr, 0);
    estate->es_output_cid = GetCurrentCommandId(true);
#if PG_VERSION_NUM >= 140000
    estate->es_opened_result_relations = lappend(estate->es_opened_result_relations, result);
#else
    estate->es_result_relations = result;
    estate->es_num_result_relations = 1;
    estate->es_result_relation_info = result;
#endif
    AfterTriggerBeginQuery();
    ExecOpenIndices(result, false);
#if PG_VERSION_NUM >= 140000
    ExecSimpleRelationInsert(result, estate, row);
#else
    ExecSimpleRelationInsert(estate, row);
#endif
    ExecCloseIndices(result);
    AfterTriggerEndQuery(estate);
    ExecResetTupleTable(estate->es_tupleTable, false);
}

// One entry of an index that is not unique. Index and info keep what is found out for the next
// entry, until end_index_inserts().
inline void
insert_index_entry(Relation index, Datum *values, bool *nulls, ItemPointer place, Relation table,
                   IndexInfo *info)
{
#if PG_VERSION_NUM >= 140000
    (void) index_insert(index, values, nulls, place, table, UNIQUE_CHECK_NO, false, info);
#else
    (void) index_insert(index, values, nulls, place, table, UNIQUE_CHECK_NO, info);
#endif
}

inline void
end_index_inserts(Relation index, IndexInfo *info)
{
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(index, info);
#else
    (void) index;
    (void) info;
#endif
}

} // namespace outbox
