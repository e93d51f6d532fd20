// What tests ask about the ring of partitions.
#pragma once

#include <string>

#include "support/pg.h"

namespace outbox::test
{

// The number that a query of one row and one column returns.
inline long
number(Db &db, const std::string &query)
{
    return std::stol(db.value(query));
}

// How often the ring has turned to its next partition, ever.
inline long
turns(Db &db)
{
    return number(db, "select done_total from outbox.maintenance_status where task = 'rotation'");
}

} // namespace outbox::test
