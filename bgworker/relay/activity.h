// What pg_stat_activity shows of the relay.
#pragma once

#include "extension/shared/shared_state.h"

namespace outbox
{

// Shows what the relay is about to wait for: state, query and, from PostgreSQL 17 on, the name of
// the wait event. `caught_up`: nothing is left to publish. Costs nothing unless it has changed.
void report_activity(RelayState state, bool caught_up);

// How the destination is named; `title` must last.
void set_activity_destination(const char *title);

// For the wait that follows.
uint32 activity_wait_event();

} // namespace outbox
