-- The table of events: insert-only, a ring of list partitions.

-- CACHE 1: numbers must follow time across sessions, the order per key rests on it.
create sequence outbox.events_seq as bigint cache 1;
comment on sequence outbox.events_seq is
  'Emission order of events. Never set it back.';

create function outbox.uuid_v7()
returns uuid
language c volatile parallel safe
as 'MODULE_PATHNAME', 'outbox_uuid_v7';
comment on function outbox.uuid_v7() is
  'A new UUID of version 7 (RFC 9562), increasing within a session.';

create function outbox.current_slot()
returns smallint
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_current_slot';
comment on function outbox.current_slot() is
  'Number of the partition of outbox.events that new events go to; see outbox.ring.';

-- Fixed-width columns first: no padding between them. seq and xid are filled by the trigger (or by
-- emit()); only the owner may give them, which is what a restored dump does.
create table outbox.events (
  seq bigint not null,
  xid bigint not null,
  created_at timestamptz not null default pg_catalog.clock_timestamp(),
  id uuid not null default outbox.uuid_v7(),
  schema_version int,
  slot smallint not null default outbox.current_slot(),
  aggregate_type text not null,
  aggregate_id text not null,
  event_type text not null,
  partition_key text,
  payload jsonb,
  payload_bytes bytea,
  headers jsonb
) partition by list (slot);

comment on table outbox.events is
  'Events, insert-only. Use outbox.emit() or a plain INSERT; delivery state is in the view outbox.event_status.';
comment on column outbox.events.seq is 'Emission order, from outbox.events_seq.';
comment on column outbox.events.xid is 'Top-level transaction id (64 bit) of the emitting transaction; negative: from a restored dump, not yet looked at; 0: from a dump, published before.';
comment on column outbox.events.created_at is 'When the event was emitted; the Kafka record''s timestamp.';
comment on column outbox.events.id is 'Event id, the same on every copy of the event; a UUIDv7 unless given.';
comment on column outbox.events.schema_version is 'Version of the payload''s schema, sent as a header when set.';
comment on column outbox.events.slot is 'Partition of the ring; filled by default.';
comment on column outbox.events.aggregate_type is 'Kind of the thing that the event is about; names the topic.';
comment on column outbox.events.aggregate_id is 'Which one; the Kafka key unless partition_key is set.';
comment on column outbox.events.event_type is 'What happened.';
comment on column outbox.events.partition_key is 'Kafka key when it must differ from aggregate_id.';
comment on column outbox.events.payload is 'JSON payload; sent as its text. NULL in both payload columns is a tombstone.';
comment on column outbox.events.payload_bytes is 'Binary payload (Avro, Protobuf, ...); sent as it is.';
comment on column outbox.events.headers is 'Flat JSON object of strings and numbers, sent as Kafka headers.';

create function outbox.before_event_insert()
returns trigger
language c
as 'MODULE_PATHNAME', 'outbox_before_event_insert';
comment on function outbox.before_event_insert() is
  'Trigger: gives a plain INSERT into outbox.events the checks, numbers and wake-up of outbox.emit().';

-- One statement each: members of the extension, so that pg_dump takes their rows with it.
create table outbox.events_0 partition of outbox.events for values in (0);
create table outbox.events_1 partition of outbox.events for values in (1);
create table outbox.events_2 partition of outbox.events for values in (2);
create table outbox.events_3 partition of outbox.events for values in (3);
create table outbox.events_4 partition of outbox.events for values in (4);
create table outbox.events_5 partition of outbox.events for values in (5);
create table outbox.events_6 partition of outbox.events for values in (6);
create table outbox.events_7 partition of outbox.events for values in (7);

do $$
declare
  part text;
begin
  for n in 0..7 loop
    part := pg_catalog.format('outbox.events_%s', n);
    execute pg_catalog.format('comment on table %s is ''Partition %s of the ring of outbox.events.''', part, n);
    -- Windows are read by (xid, seq). The block range index finds an event by its id, which follows time; the
    -- relay summarizes new blocks (autosummarize would log a line whenever autovacuum is behind).
    execute pg_catalog.format('create index events_%s_xid_seq on %s using btree (xid, seq)', n, part);
    execute pg_catalog.format(
      'create index events_%s_id on %s using brin (id) with (pages_per_range = 32)', n, part);
    -- Rows never die: the insert-triggered vacuums only have the visibility map to gain.
    execute pg_catalog.format(
      'alter table %s set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000)', part);
  end loop;
end
$$;

-- By its name the last of the triggers before insert: none of a user's changes what it has checked and numbered. One
-- whose name comes later still is refused by the function.
create trigger "~before_insert" before insert on outbox.events
  for each row execute function outbox.before_event_insert();

-- Also in sessions with session_replication_role = replica: an event that is not stamped is never published.
do $$
begin
  for n in 0..7 loop
    execute pg_catalog.format('alter table outbox.events_%s enable always trigger "~before_insert"', n);
  end loop;
end
$$;

select pg_catalog.pg_extension_config_dump('outbox.events_seq', '');
select pg_catalog.pg_extension_config_dump('outbox.events_0', '');
select pg_catalog.pg_extension_config_dump('outbox.events_1', '');
select pg_catalog.pg_extension_config_dump('outbox.events_2', '');
select pg_catalog.pg_extension_config_dump('outbox.events_3', '');
select pg_catalog.pg_extension_config_dump('outbox.events_4', '');
select pg_catalog.pg_extension_config_dump('outbox.events_5', '');
select pg_catalog.pg_extension_config_dump('outbox.events_6', '');
select pg_catalog.pg_extension_config_dump('outbox.events_7', '');
