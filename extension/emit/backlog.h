// Backpressure: events are refused while too many wait to be published.
#pragma once

#include "extension/server/pg.h"
#include "extension/shared/for_relay.h"

namespace outbox
{

// Called before an event is written. With outbox.max_backlog_events set, raises
// configuration_limit_exceeded while the committed events that are not published, and those that
// this transaction has emitted so far, are that many; warns the client, at most once a minute,
// from four fifths of it on. One look into shared memory, no lock; without an entry there (library
// not preloaded, no relay since the server started) nothing is known and nothing is refused.
void check_backlog();

// From how many events on it warns; 0 without a limit.
OUTBOX_FOR_RELAY int64 backlog_warning_level(int64 limit);

} // namespace outbox
