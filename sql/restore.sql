-- What keeps the rows of a restored dump apart until the relay has looked at them, and shows it when they are all there.

-- Restored rows of outbox.deliveries: their numbers may be those of events of this database.
create table outbox.restored_deliveries (like outbox.deliveries including comments);
comment on table outbox.restored_deliveries is
  'Rows of outbox.deliveries that a dump brought. The relay gives them back to their events when all of the dump is there.';
select pg_catalog.pg_extension_config_dump('outbox.restored_deliveries', '');

create function outbox.before_delivery_insert()
returns trigger
language c
as 'MODULE_PATHNAME', 'outbox_before_delivery_insert';
comment on function outbox.before_delivery_insert() is
  'Trigger: puts a row that belongs to no event of this database into outbox.restored_deliveries instead.';
create trigger before_insert before insert on outbox.deliveries
  for each row execute function outbox.before_delivery_insert();
alter table outbox.deliveries enable always trigger before_insert;

-- The tables of a dump come one by one, in any order, and nothing in PostgreSQL says which is the last. So a dump
-- counts its rows: of these rows it has those whose bits are set in the counts. The others, which every database
-- has, are there to be chosen from; a row that is there twice came with a dump.
create table outbox.dump_rows (
  table_name text collate "C" not null,
  bit smallint not null
);
comment on table outbox.dump_rows is
  'For dumps: how many rows the dumped tables have, as binary numbers. A row that is there twice came with a dump.';
comment on column outbox.dump_rows.bit is 'A binary digit of the count; a dump has the row when the digit is 1.';
insert into outbox.dump_rows (table_name, bit)
select t.name, b.bit
from pg_catalog.unnest('{dump,events_0,events_1,events_2,events_3,events_4,events_5,events_6,events_7,deliveries,relay_position}'::text[]) t (name)
cross join pg_catalog.generate_series(0, 39) b (bit);
-- include dumped_rows

-- include restored_rows

create event trigger outbox_keep_triggers on ddl_command_end when tag in ('ALTER TABLE')
  execute function outbox.keep_triggers();
comment on event trigger outbox_keep_triggers is
  'Keeps pg_dump --disable-triggers from switching off what stamps restored events; see outbox.keep_triggers().';
alter event trigger outbox_keep_triggers enable always;
