// The objects that a check of trust.cpp has visited. Once one of them changes, the check's verdict
// is out of date.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Begins a check: no object is visited yet. It is up to date until something changes, or
// set_out_of_date().
void begin_visits();

bool is_up_to_date();
void set_out_of_date();

// Remembers an object. One that is neither a relation nor a function, type or operator changes with
// one of these, a schema or a role.
void visit(Oid catalog, Oid object);

// The relations that were visited, in that order. More are added while a check goes through them.
int visited_relations();
Oid visited_relation(int number);

} // namespace outbox
