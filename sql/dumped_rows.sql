-- What dumps take of tables that have rows of several subscriptions: those of the default one. The others are created
-- again after a restore. While the default one is detached its position has passed what it never sent, and no dump says
-- so: without a position nothing of the dump counts as published.
select pg_catalog.pg_extension_config_dump('outbox.deliveries', $$ where subscription operator(pg_catalog.=) 'default' $$);
select pg_catalog.pg_extension_config_dump('outbox.pauses', $$ where subscription operator(pg_catalog.=) 'default' $$);
select pg_catalog.pg_extension_config_dump('outbox.relay_position',
  $$ where subscription operator(pg_catalog.=) 'default' and not exists (select from outbox.subscription_history h where h.subscription operator(pg_catalog.=) 'default' and not h.takes
    and h.number operator(pg_catalog.=) (select pg_catalog.max(o.number) from outbox.subscription_history o where o.subscription operator(pg_catalog.=) 'default')) $$);
-- What another dump had brought, and nobody has settled yet: of its events it is not known whether they were published.
comment on column outbox.dump_rows.table_name is
  'Table in the schema outbox; dump: is always 1; unsettled: rows that another dump had brought, not settled when this one was made.';
insert into outbox.dump_rows (table_name, bit)
select 'unsettled', b.bit from pg_catalog.generate_series(0, 39) b (bit);
select pg_catalog.pg_extension_config_dump('outbox.dump_rows', $filter$
  where (table_name, bit) in (
    select c.table_name, b.bit from (
    select 'dump' as table_name, 1::bigint as n
    union all select 'events_0', pg_catalog.count(*) from outbox.events_0
    union all select 'events_1', pg_catalog.count(*) from outbox.events_1
    union all select 'events_2', pg_catalog.count(*) from outbox.events_2
    union all select 'events_3', pg_catalog.count(*) from outbox.events_3
    union all select 'events_4', pg_catalog.count(*) from outbox.events_4
    union all select 'events_5', pg_catalog.count(*) from outbox.events_5
    union all select 'events_6', pg_catalog.count(*) from outbox.events_6
    union all select 'events_7', pg_catalog.count(*) from outbox.events_7
    union all select 'deliveries', (select pg_catalog.count(*) from outbox.deliveries d where d.subscription operator(pg_catalog.=) 'default')
      operator(pg_catalog.+) (select pg_catalog.count(*) from outbox.restored_deliveries)
    union all select 'relay_position', pg_catalog.count(*) from outbox.relay_position p where p.rows_counted is distinct from false
      and p.subscription operator(pg_catalog.=) 'default' and not exists (select from outbox.subscription_history h where h.subscription operator(pg_catalog.=) 'default' and not h.takes
        and h.number operator(pg_catalog.=) (select pg_catalog.max(o.number) from outbox.subscription_history o where o.subscription operator(pg_catalog.=) 'default'))
    union all select 'unsettled', (select pg_catalog.count(*) from outbox.events e where e.xid operator(pg_catalog.<) 0)
      operator(pg_catalog.+) (select pg_catalog.count(*) from outbox.restored_deliveries)
      operator(pg_catalog.+) (select pg_catalog.count(*) from outbox.relay_position p where p.rows_counted is distinct from false
        and p.subscription operator(pg_catalog.=) 'default' and p.xmin operator(pg_catalog.<>) p.written_by::xid)
    ) c cross join pg_catalog.generate_series(0, 39) b (bit)
    where (c.n operator(pg_catalog.>>) b.bit) operator(pg_catalog.&) 1 operator(pg_catalog.=) 1)
$filter$);
