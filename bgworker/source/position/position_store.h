// The relay's position in its table.
#pragma once

#include "bgworker/engine/source.h"

#include "extension/server/pg.h"

namespace outbox
{

// All of these need a transaction with an active snapshot, and raise PostgreSQL's errors.

enum class LoadResult
{
    loaded,
    broken, // `problem` says how; nothing was changed
    missing // a subscription besides `default` has none here: it is made with it
};

// What is wrong with a row of this database that another one than the relay wrote, or a command
// that rewrites the table.
constexpr const char *kPositionChanged =
    "it was changed, and not by the relay; if it is right, call outbox.adopt_position()";

// Reads this database's position; makes one where there is none:
// - at first, and after a restore, one from which every event of this database is still to come;
// - in a database that was copied from a template, one that leaves the copied events to the
// original.
LoadResult load_position(StoredPosition *stored, char *problem, size_t problem_size);

// Writes the position. Returns false when the row is gone: the extension was created again, or the
// table was changed by hand.
bool save_position(const Position &position, int64 published_total);

// Adds to published_total, and leaves the position as it is.
void add_published(int64 count);

// Records that everything visible in the snapshot is published by now.
void save_tick(const XidSnapshot &snapshot);

} // namespace outbox
