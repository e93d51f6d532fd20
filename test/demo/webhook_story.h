// The demo's other story: a transaction's event becomes a signed request.
#pragma once

#include "screen.h"

namespace outbox::demo
{

// Starts a PostgreSQL and an endpoint of its own. Throws BrokenPromise, SqlError or Interrupted.
void run_webhook_demo(const Screen &screen, bool once);

} // namespace outbox::demo
