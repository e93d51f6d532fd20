// What has come of a restored dump. restore.cpp settles it.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// A position that is not of this cluster, or not where the relay put it, and not settled. Dumps
// have none of other subscriptions. The first condition is always true; for its sake the index is
// used where dead versions fill the table.
#define RESTORED                                                                                   \
    "p.database_oid >= 0 "                                                                         \
    "and (p.system_identifier <> outbox.system_identifier() or p.xmin <> p.written_by::xid) "      \
    "and p.rows_counted is distinct from false and p.subscription = 'default'"

// Whether a dump has counted any of these.
#define COUNTED(what)                                                                              \
    "exists (select from outbox.dump_rows d where d.table_name = '" what "' "                      \
    " group by d.bit having count(*) > 1)"

// No database counts so far, so that the sequence never gets to its end, whatever a dump says.
#define LAST_POSSIBLE "4611686018427387904"

struct WhatCame
{
    bool events;
    int64 positions;
    bool counted; // the position says so
    bool has_own; // there is the position that the relay of this database wrote
    bool edited;  // the only position of this database is not as the relay wrote it
    bool deliveries;
    bool counts;
    bool unsettled; // rows that another dump had brought are among them
};

// All that decides about a dump, and all that is done with it, sees the same rows of it: those of
// this snapshot. What is committed meanwhile is for the next look.
void look_at_dump_as_of(Snapshot snapshot);
void execute_on_dump(const char *statement, int count, Oid *types, Datum *values, int expected);

// Of the first row of a result; a null is 0, and false.
int64 number_of(int column);
bool truth_of(int column);

// All but `events`, which the caller finds.
void read_what_came(WhatCame *came);

// Whether there are numbers that must not be believed: the sequence would follow them to its end.
// Nothing is settled then, as each row can change what is to be done with the others.
bool is_impossible(const WhatCame &came, char *problem, size_t problem_size);
// Whether something of a counted dump is still to come.
bool is_incomplete(const WhatCame &came, char *problem, size_t problem_size);
// Whether the rows are of two databases: the position says what one of them had published.
bool is_unsettled(const WhatCame &came, char *problem, size_t problem_size);

} // namespace outbox
