// The launcher: one process that keeps a relay alive in each database that has the extension.
#pragma once

namespace outbox
{

// Registers the launcher; from _PG_init while preloading.
void register_launcher();

} // namespace outbox
