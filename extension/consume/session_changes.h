// outbox.session_changes: what a handler has left in its session, for a client that calls several
// of them in a transaction.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Defines the setting. Called once from _PG_init, before the prefix of settings is reserved.
void define_session_changes();

// What is there now is no change. Later calls in the same transaction do nothing.
void watch_session();

// Of the utility command, before it is run, at whatever depth.
void record_command(const Node *command);

// Whether the command sets outbox.refuse_commit while the session is watched. If it is on then,
// finish_handler() is due behind the command, outside of any other.
bool begins_next_handler(const Node *command);

// Does for the handler that has worked so far what a commit would do: runs deferred triggers,
// closes cursors, carries out ON COMMIT of temporary tables, releases advisory locks of the
// session.
void finish_handler();

} // namespace outbox
