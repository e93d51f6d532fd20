// Inserts a row without the executor.
#pragma once

#include "pg.h"

namespace outbox
{

// Inserts the row and its index entries, as an INSERT by the table's owner does after triggers and
// constraints. For tables that have neither, the executor's preparations cost half as much as the
// insertion itself; indexes with expressions or a predicate, which need them, get them. Locks on
// indexes are kept to the end of the transaction, as the one on the table is.
void insert_row(Relation table, TupleTableSlot *row);

} // namespace outbox
