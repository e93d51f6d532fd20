#include "classic_outbox.h"

#include <fmt/format.h>

#include "bench/support/backlog.h"

namespace outbox::bench
{

namespace
{

const std::string kColumns = "id uuid not null, "
                             "aggregate_type text not null, "
                             "aggregate_id text not null, "
                             "type text not null, "
                             "payload jsonb, "
                             "status text not null default 'NEW', "
                             "created_at timestamptz not null default clock_timestamp(), ";

} // namespace

void
make_classic_outbox(const Database &database)
{
    test::Db db = database.connect();
    db.exec("create table classic_outbox (" + kColumns + "primary key (id))");
    db.exec("create index on classic_outbox (created_at) where status = 'NEW'");
}

void
make_partitioned_outbox(const Database &database)
{
    test::Db db = database.connect();
    db.exec("create table partitioned_outbox (" + kColumns +
            "primary key (id, created_at)) partition by range (created_at)");
    db.exec("create index on partitioned_outbox (created_at) where status = 'NEW'");
    db.exec("do $$ begin for n in 0..7 loop execute format("
            "'create table partitioned_outbox_%s partition of partitioned_outbox "
            "for values from (%L) to (%L)', n, current_date + n - 3, current_date + n - 2); "
            "end loop; end $$");
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
