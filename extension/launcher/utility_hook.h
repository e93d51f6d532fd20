// Utility commands that the relay must know of: COMMIT PREPARED, and those that need a database
// for themselves.
#pragma once

namespace outbox
{

// Once, from _PG_init.
void install_utility_hook();

} // namespace outbox
