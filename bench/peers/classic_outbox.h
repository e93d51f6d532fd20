// The table that relays other than ours read: the transactional outbox as it is usually written.
#pragma once

#include <cstdint>

#include "bench/support/servers.h"

namespace outbox::bench
{

constexpr const char *kClassicTable = "classic_outbox";

// Writes the rows of "input", of aggregate type $1 and event type $2: see transactions().
constexpr const char *kClassicInsertInput =
    "insert into classic_outbox (id, aggregate_type, aggregate_id, type, payload) "
    "select gen_random_uuid(), $1, aggregate_id, $2, payload from input";

// Makes the table with its primary key and, for relays that ask for what is new, an index on just
// that.
void make_classic_outbox(const Database &database);

// The same in partitions by day, as many as outbox.events has, of which old ones can be emptied as
// that table's are. Its name is partitioned_outbox.
void make_partitioned_outbox(const Database &database);

// Commits events to it, as outbox.emit() gets them for the relay: see fill().
void fill_classic_outbox(const Database &database, int64_t events);

} // namespace outbox::bench
