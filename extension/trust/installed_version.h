// Which version of the extension this database has. The library serves one, its own; what it does
// for another is in docs/upgrades.md.
#pragma once

#include "extension/server/pg.h"
#include "extension/shared/for_relay.h"

namespace outbox
{

enum class Installed
{
    missing, // the extension is not in this database
    older,   // ALTER EXTENSION outbox UPDATE is to be run
    same,
    newer // the library is an older one than the extension
};

// Looks into pg_extension; the version's text goes to `version`, empty when missing. In a
// transaction. Raises PostgreSQL's errors.
OUTBOX_FOR_RELAY Installed installed_version(char *version, size_t size);

// What an operator is to do about an older or a newer one.
OUTBOX_FOR_RELAY const char *version_remedy(Installed installed);

} // namespace outbox
