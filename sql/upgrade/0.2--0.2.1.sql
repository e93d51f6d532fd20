-- outbox: from 0.2 to 0.2.1. A line "-- include x" stands for sql/x.sql; see "Change the schema" in CONTRIBUTING.md.
\echo Use "ALTER EXTENSION outbox UPDATE" to load this file. \quit

-- include library
-- include older_objects

-- What changes in objects that 0.2 has. First the trigger: it waits for those that emit, who may wait for what is
-- locked after it. Before PostgreSQL 15 the partitions' triggers do not follow.
do $$
declare
  part record;
begin
  alter trigger before_insert on outbox.events rename to "~before_insert";
  for part in
    select t.tgrelid::regclass as name from pg_catalog.pg_trigger t
    where t.tgname operator(pg_catalog.=) 'before_insert' and t.tgfoid operator(pg_catalog.=) 'outbox.before_event_insert'::regproc
    order by t.tgrelid
  loop
    execute pg_catalog.format('alter trigger before_insert on %s rename to "~before_insert"', part.name);
  end loop;
end
$$;
alter view outbox.dead_letters set (security_barrier);
create index deliveries_slot on outbox.deliveries (slot, state);
alter table outbox.deliveries add emitted_at timestamptz;
-- include delivery_columns
create index relay_position_database on outbox.relay_position (database_oid);
create index deliveries_keys on outbox.deliveries (pg_catalog.hashtextextended(partition_key, 0), seq) where state <> 'DISCARDED';
alter table outbox.relay_position add rows_counted boolean;
-- include position_columns
-- include relay_status
-- include event_status
-- include replayable_events
comment on function outbox.is_processed(uuid, text) is
  'Whether this consumer has processed the event, as far as the caller''s snapshot shows. Does not wait, and so does not replace outbox.mark_processed().';
comment on function outbox.record_offset(text, text, int, bigint) is
  'Stores how far the consumer has come, in the transaction of its effects: the offset of the last record, plus one. False, and nothing stored, when the stored offset is there already or further: another process has processed these records, so roll back.';
comment on function outbox.stored_offsets(text) is
  'Where the consumer continues in each partition that it has recorded an offset of.';
comment on function outbox.on_route_change() is
  'Trigger: checks what is written into outbox.routes and notifies the relay and all sessions when it commits.';
comment on column outbox.replay_requests.missing is 'So many no longer existed.';
comment on function outbox.data_directory() is
  'A number that a copy of the data directory, unlike the directory itself, does not have: from the inode of its control file and the time when that was made.';

-- What 0.2 does not have.
-- include lane_key
-- include restore
-- include identity

-- Functions only, each "create or replace": what operators call, and what roles may be granted.
-- include operating
-- include grants
-- include closed

-- Last: the relay, which waited for this version, continues when the update commits.
select outbox.request_relay();
