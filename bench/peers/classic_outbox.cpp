#include "classic_outbox.h"

#include <fmt/format.h>

#include "bench/support/backlog.h"

namespace outbox::bench
{

void
make_classic_outbox(const Database &database)
{
    test::Db db = database.connect();
    db.exec("create table classic_outbox ("
            "id uuid primary key, "
            "aggregate_type text not null, "
            "aggregate_id text not null, "
            "type text not null, "
            "payload jsonb, "
            "status text not null default 'NEW', "
            "created_at timestamptz not null default clock_timestamp())");
    db.exec("create index on classic_outbox (created_at) where status = 'NEW'");
}

void
fill_classic_outbox(const Database &database, int64_t events)
{
    fill(database, events,
         "insert into classic_outbox (id, aggregate_type, aggregate_id, type, payload) "
         "select gen_random_uuid(), $1, key, $2, payload from bench_inputs "
         "where n between $3 and $4 order by n");
    database.connect().exec("vacuum analyze classic_outbox");
}

} // namespace outbox::bench
