#pragma once

#include <cstdint>
#include <string>

#include "servers.h"

namespace outbox::bench
{

// Commits a backlog in short transactions of several clients, whose numbers therefore mix. `sql`
// writes an event for each input from number $3 to $4, of aggregate type $1 and event type $2.
void fill(const Database &database, int64_t events, const std::string &sql);

} // namespace outbox::bench
