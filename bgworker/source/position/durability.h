// Nothing reaches Kafka that the database may still lose.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Flushes the commit records up to the position, if they are not flushed yet. An asynchronous
// commit can be seen by others before it is safe from a crash.
void make_durable_here(XLogRecPtr commit_lsn);

// A position behind every commit that is visible now, when there are synchronous standbys; else
// InvalidXLogRecPtr. Commits that waited for the standbys became visible afterwards; those with
// synchronous_commit = local or off, and those whose wait was cancelled, did not.
XLogRecPtr needed_on_standbys();

// Whether the synchronous standbys have flushed up to the position. Does not wait.
bool is_durable_on_standbys(XLogRecPtr lsn);

} // namespace outbox
