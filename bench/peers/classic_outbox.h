// The table that relays other than ours read: the transactional outbox as it is usually written.
#pragma once

#include <cstdint>

#include "bench/support/servers.h"

namespace outbox::bench
{

constexpr const char *kClassicTable = "classic_outbox";

// Writes one event: $1 aggregate type, $2 aggregate id, $3 event type, $4 payload.
constexpr const char *kClassicInsert =
    "insert into classic_outbox (id, aggregate_type, aggregate_id, type, payload) "
    "values (gen_random_uuid(), $1, $2, $3, $4)";

// Makes the table with its primary key and, for relays that ask for what is new, an index on just
// that.
void make_classic_outbox(const Database &database);

// Commits events to it, as outbox.emit() gets them for the relay: see fill().
void fill_classic_outbox(const Database &database, int64_t events);

} // namespace outbox::bench
