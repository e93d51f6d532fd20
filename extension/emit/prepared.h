// How many events each prepared transaction has: another session may commit it, and does not know.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// While preloading: asks for the memory, and sets it up.
void request_prepared_memory();
void start_prepared_memory();

// The session is about to prepare a transaction by this name, when its next statement has ended.
void expect_prepare(const char *gid);

// That transaction, with `events` of this database, or with rows of a dump, is being prepared; it
// may fail yet. Nothing is noted when there is no room, or it has none: the count is a hint.
void begin_prepare(uint64 events, bool restored);
// It is prepared, or it failed. Neither raises an error.
void end_prepare(bool prepared);

// What begin_prepare() noted; null: nothing is known of it.
struct PreparedCount;
PreparedCount *find_prepared(const char *gid);

// It is committed, or rolled back.
void forget_prepared(PreparedCount *entry, bool committed);

} // namespace outbox
