// Lines of the server's log that are worth an alarm and belong to no single failure.
#pragma once

#include "extension/shared/shared_state.h"

namespace outbox
{

// Writes a line when something begins and one when it ends: the oldest unpublished event is older
// than outbox.lag_warning, the relay is paused; of `default` also: the backlog nears or
// reaches outbox.max_backlog_events. To be called once a round.
void log_alerts(DatabaseSlot *slot, const RelayReport &report);

} // namespace outbox
