// Inserts a row without the executor.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

constexpr int kMaxIndexes = 8;

struct OpenIndexes
{
    int count;
    Relation indexes[kMaxIndexes];
    IndexInfo *infos[kMaxIndexes];
};

// Opens the indexes of a table that is locked, and locks them to the end of the transaction.
// Returns false, and has none open, when one of them is for the executor.
bool open_indexes(Relation table, OpenIndexes *open);
void close_indexes(OpenIndexes *open);

// Inserts the row and its index entries, as an INSERT by the table's owner does after triggers and
// constraints. For tables that have neither, the executor's preparations cost half as much as the
// insertion itself; indexes with expressions or a predicate, which need them, get them. Locks on
// indexes are kept to the end of the transaction, as the one on the table is.
void insert_row(Relation table, TupleTableSlot *row);

// The same, with the indexes that are open already.
void insert_row(Relation table, TupleTableSlot *row, OpenIndexes *indexes);

} // namespace outbox
