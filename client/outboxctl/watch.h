// outboxctl status --watch
#pragma once

#include "commands.h"
#include "relay_view.h"

#include <optional>

namespace outbox::ctl
{

// The state of a relay as a list for a person; `rate` is events published in a second.
List describe(const RelayView &view, std::optional<double> rate);

// Shows it until it is ended; reconnects when the connection is lost.
int watch_status(const Context &context, Database &database, double interval);

} // namespace outbox::ctl
