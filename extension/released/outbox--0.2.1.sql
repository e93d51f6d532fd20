-- What there is before a script makes more; sql/closed.sql needs it, and removes it.
create temp table outbox_older as
select d.classid, d.objid
from pg_catalog.pg_depend d join pg_catalog.pg_extension x on x.oid operator(pg_catalog.=) d.refobjid
where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::regclass and d.deptype operator(pg_catalog.=) 'e'
  and x.extname operator(pg_catalog.=) 'outbox';
-- outbox: transactional outbox inside PostgreSQL
\echo Use "CREATE EXTENSION outbox" to load this file. \quit

create schema outbox;
comment on schema outbox is
  'Transactional outbox: events emitted in a transaction are published to Kafka once it has committed.';
revoke all on schema outbox from public;

create function outbox.version()
returns text
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'outbox_version';
comment on function outbox.version() is
  'Version of the loaded outbox library, for example 0.1.';

-- An older library lacks functions that this script names, and must not work on tables that it does not know.
do $$
begin
  if pg_catalog.string_to_array(outbox.version(), '.')::int[] operator(pg_catalog.<)
     pg_catalog.string_to_array('0.2.1', '.')::int[] then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = pg_catalog.format('the outbox library in use is version %s, older than 0.2.1', outbox.version()),
      hint = 'Restart PostgreSQL so that it loads the library of the installed package, then try again.';
  end if;
end
$$;
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
-- Emitting events.

create function outbox.emit(
  aggregate_type text,
  aggregate_id text,
  event_type text,
  payload jsonb,
  headers jsonb default null,
  partition_key text default null,
  event_id uuid default null,
  schema_version int default null)
returns uuid
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_emit';
comment on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int) is
  'Emits an event with a JSON payload in the current transaction and returns its id. It is published if and only if the transaction commits. A NULL payload is a tombstone.';

create function outbox.emit_bytes(
  aggregate_type text,
  aggregate_id text,
  event_type text,
  payload bytea,
  headers jsonb default null,
  partition_key text default null,
  event_id uuid default null,
  schema_version int default null)
returns uuid
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_emit_bytes';
comment on function outbox.emit_bytes(text, text, text, bytea, jsonb, text, uuid, int) is
  'As outbox.emit(), with a binary payload (Avro, Protobuf, ...) that is sent as it is.';
-- Routes: what becomes of events of certain types, other than the settings say.

create table outbox.routes (
  aggregate_type text collate "C" not null default '*',
  event_type text collate "C" not null default '*',
  topic text,
  on_failure text,
  headers_format text,
  constraint routes_pkey primary key (aggregate_type, event_type)
);
comment on table outbox.routes is
  'Topic, on_failure and headers of events by their types. Written by operators; checked when written, and taken up by the relay when the transaction commits. The most specific row counts: both types, then aggregate_type, then event_type, then neither.';
comment on column outbox.routes.aggregate_type is 'Of the events; * (or null, when written): any.';
comment on column outbox.routes.event_type is 'Of the events; * (or null, when written): any.';
comment on column outbox.routes.topic is 'Kafka topic; {aggregate_type} and {event_type} are replaced. Null: as outbox.topic_template says.';
comment on column outbox.routes.on_failure is 'block or skip. Null: as outbox.on_failure says.';
comment on column outbox.routes.headers_format is 'debezium, cloudevents or both. Null: as outbox.headers_format says.';
select pg_catalog.pg_extension_config_dump('outbox.routes', '');

create function outbox.on_route_change()
returns trigger
language c
as 'MODULE_PATHNAME', 'outbox_on_route_change';
comment on function outbox.on_route_change() is
  'Trigger: checks what is written into outbox.routes and notifies the relay and all sessions when it commits.';

create trigger before_change before insert or update or delete on outbox.routes
  for each row execute function outbox.on_route_change();
create trigger after_change after insert or update or truncate on outbox.routes
  for each statement execute function outbox.on_route_change();
-- Also in sessions with session_replication_role = replica: no session would notice the change.
alter table outbox.routes enable always trigger before_change;
alter table outbox.routes enable always trigger after_change;

create function outbox.route_of(
  aggregate_type text,
  event_type text,
  out route_aggregate_type text,
  out route_event_type text,
  out topic text,
  out on_failure text,
  out headers_format text)
returns record
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_route_of';
comment on function outbox.route_of(text, text) is
  'What becomes of events of these types: the row of outbox.routes that counts (nulls: none does) and the topic, on_failure and headers that follow from it and the settings.';
-- What the relay remembers, and what it shows.

-- No unique constraint: a restored dump brings its row beside the one of this database, and the install
-- script inserts nothing for the same reason. The relay knows its own row by the cluster, the database and
-- written_by: the row's xmin is that transaction exactly as long as the row is where the relay put it.
create function outbox.system_identifier()
returns bigint
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_system_identifier';
comment on function outbox.system_identifier() is
  'Identifier of this database cluster, as in pg_control_system().';

create function outbox.data_directory()
returns bigint
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_data_directory';
comment on function outbox.data_directory() is
  'A number that a copy of the data directory, unlike the directory itself, does not have: from the inode of its control file and the time when that was made.';

create function outbox.timeline()
returns int
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_timeline';
comment on function outbox.timeline() is
  'The timeline that this server writes.';

create table outbox.relay_position (
  system_identifier bigint not null,
  database_oid oid not null,
  timeline int not null,
  data_directory bigint not null,
  written_by xid8 not null,
  from_snapshot pg_snapshot not null,
  to_snapshot pg_snapshot not null,
  last_seq bigint not null,
  published_total bigint not null,
  updated_at timestamptz not null,
  rows_counted boolean
) with (fillfactor = 50);
-- For one row, as its versions may be millions: while an old snapshot keeps them, and in their place until the table is
-- written anew.
create index relay_position_database on outbox.relay_position (database_oid);
comment on table outbox.relay_position is
  'How far the relay has published. Written by the relay only; one row, and another one after a restore.';
comment on column outbox.relay_position.system_identifier is 'Cluster that the position belongs to.';
comment on column outbox.relay_position.database_oid is 'Database that the position belongs to.';
comment on column outbox.relay_position.timeline is 'Timeline of the cluster when the row was written.';
comment on column outbox.relay_position.data_directory is 'Which data directory it was, see outbox.data_directory().';
comment on column outbox.relay_position.written_by is 'Transaction that wrote this row; differs from xmin in a restored row.';
comment on column outbox.relay_position.from_snapshot is 'Every event visible in this snapshot is published.';
comment on column outbox.relay_position.to_snapshot is 'Of those visible only in this one, the events up to last_seq are published.';
comment on column outbox.relay_position.last_seq is 'See to_snapshot.';
comment on column outbox.relay_position.published_total is 'Events published since the extension was created.';
comment on column outbox.relay_position.updated_at is 'When the relay wrote this row.';
comment on column outbox.relay_position.rows_counted is 'True: a dump with this row has outbox.dump_rows, which shows whether it was restored as a whole. False: what was restored with it is settled.';
select pg_catalog.pg_extension_config_dump('outbox.relay_position', '');

create table outbox.ticks (
  next_xid bigint not null,
  snapshot pg_snapshot not null,
  published_at timestamptz not null,
  written_by xid8 not null default pg_catalog.pg_current_xact_id()
);
create index ticks_next_xid on outbox.ticks (next_xid);
create index ticks_published_at on outbox.ticks (published_at);
comment on table outbox.ticks is
  'At most about once a second: every event visible in the snapshot was published at that time or before.';
comment on column outbox.ticks.next_xid is 'First transaction id that the snapshot does not see (its xmax), for look-ups by an event''s xid.';
comment on column outbox.ticks.snapshot is 'Every event visible in it was published by published_at.';
comment on column outbox.ticks.published_at is 'When this was known.';
comment on column outbox.ticks.written_by is 'Transaction that wrote this row; differs from xmin in a restored row, whose snapshot is of another history.';
select pg_catalog.pg_extension_config_dump('outbox.ticks', '');

create function outbox.visible_in(xid bigint, snapshot pg_snapshot)
returns boolean
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'outbox_visible_in';
comment on function outbox.visible_in(bigint, pg_snapshot) is
  'Whether the transaction had ended when the snapshot was taken; pg_visible_in_snapshot() for the bigint that events carry.';

create view outbox.current_position as
select p.from_snapshot, p.to_snapshot, p.last_seq, p.published_total, p.updated_at
from outbox.relay_position p
where p.system_identifier operator(pg_catalog.=) outbox.system_identifier()
  and p.database_oid operator(pg_catalog.=) (
    select d.oid from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())
  and p.xmin operator(pg_catalog.=) p.written_by::xid;
comment on view outbox.current_position is
  'The row of outbox.relay_position that is this database''s; none before the relay first ran.';

-- Last statement about the relay: it asks the launcher for one as soon as this transaction commits.
create function outbox.request_relay()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_request_relay';
comment on function outbox.request_relay() is
  'Starts this database''s relay when the current transaction commits; CREATE EXTENSION calls it.';
select outbox.request_relay();
-- The exceptions: events that Kafka refused, and those that wait behind them.

create table outbox.deliveries (
  seq bigint not null,
  xid bigint not null,
  slot smallint not null,
  event_id uuid not null,
  lane bigint not null,
  topic text not null,
  partition_key text not null,
  state text not null,
  blocking boolean not null,
  attempts int not null default 0,
  next_attempt_at timestamptz,
  last_error text,
  failed_at timestamptz,
  settled_by name,
  settled_at timestamptz,
  reason text,
  emitted_at timestamptz,
  constraint deliveries_pkey primary key (seq),
  constraint deliveries_state_check check (state in ('WAITING', 'RETRYING', 'FAILED', 'DISCARDED'))
);
create index deliveries_event_id on outbox.deliveries (event_id);
create index deliveries_waiting on outbox.deliveries (lane, seq) where state = 'WAITING';
create index deliveries_blockers on outbox.deliveries (lane, seq) where state in ('RETRYING', 'FAILED');
create index deliveries_due on outbox.deliveries (next_attempt_at) where state = 'RETRYING';
create index deliveries_slot on outbox.deliveries (slot, state);
-- By hash, as an index takes no key of any size.
create index deliveries_keys on outbox.deliveries (pg_catalog.hashtextextended(partition_key, 0), seq) where state <> 'DISCARDED';
create index deliveries_settled on outbox.deliveries (seq) where not blocking and state <> 'WAITING';
select pg_catalog.pg_extension_config_dump('outbox.deliveries', '');

comment on table outbox.deliveries is
  'Only the exceptions: events that Kafka refused, and events that wait behind one. A row goes when its event is published. Written by the relay and by outbox.retry() and outbox.discard().';
comment on column outbox.deliveries.seq is 'The event''s emission number.';
comment on column outbox.deliveries.xid is 'The event''s transaction id; with seq it finds the row in outbox.events.';
comment on column outbox.deliveries.slot is 'The event''s partition of the ring.';
comment on column outbox.deliveries.event_id is 'The event''s id.';
comment on column outbox.deliveries.topic is 'The Kafka topic.';
comment on column outbox.deliveries.partition_key is 'The Kafka key.';
comment on column outbox.deliveries.state is 'RETRYING: refused, tried again at next_attempt_at. FAILED: given up after outbox.max_attempts. WAITING: behind such an event of its lane. DISCARDED: by an operator.';
comment on column outbox.deliveries.blocking is 'Whether later events of the lane wait for this one.';
comment on column outbox.deliveries.attempts is 'How often Kafka refused the event.';
comment on column outbox.deliveries.next_attempt_at is 'When it is tried again.';
comment on column outbox.deliveries.last_error is 'Kafka''s name for the last error, and its text.';
comment on column outbox.deliveries.failed_at is 'When it was refused first.';
comment on column outbox.deliveries.settled_by is 'Who discarded it.';
comment on column outbox.deliveries.settled_at is 'When it was discarded.';
comment on column outbox.deliveries.reason is 'Why it was discarded.';
comment on column outbox.deliveries.emitted_at is 'When the event was emitted: its created_at, but not later than when it was set aside. Null in rows of before 0.2.1.';

-- A row: the relay is paused.
create table outbox.pauses (
  paused_at timestamptz not null default pg_catalog.now(),
  paused_by name not null default session_user,
  reason text
);
comment on table outbox.pauses is 'Holds a row while the relay is paused; see outbox.pause().';
comment on column outbox.pauses.paused_at is 'Since when.';
comment on column outbox.pauses.paused_by is 'By whom.';
comment on column outbox.pauses.reason is 'Why.';
select pg_catalog.pg_extension_config_dump('outbox.pauses', '');

create function outbox.notify_relay()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_notify_relay';
comment on function outbox.notify_relay() is
  'Makes the relay look at outbox.deliveries and outbox.pauses when the current transaction commits.';

-- Locks and returns the row of an event; raises an error that says why there is nothing to settle.
create function outbox.delivery_to_settle(event_id uuid)
returns outbox.deliveries
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries;
begin
  if delivery_to_settle.event_id is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'event_id must not be null',
      hint = 'The view outbox.dead_letters shows the ids of failed events.';
  end if;
  select d.* into delivery from outbox.deliveries d
    where d.event_id = delivery_to_settle.event_id order by d.seq limit 1 for update;
  if found then
    return delivery;
  end if;
  if exists (select from outbox.events e where e.id = delivery_to_settle.event_id) then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s has not failed', delivery_to_settle.event_id),
      detail = format('Its status is %s.', (select s.status from outbox.event_status s where s.id = delivery_to_settle.event_id limit 1)),
      hint = 'The view outbox.dead_letters shows the events that have.';
  end if;
  raise exception using errcode = 'undefined_object',
    message = format('there is no event with id %s', delivery_to_settle.event_id),
    hint = 'The view outbox.dead_letters shows the ids of failed events.';
end
$$;
comment on function outbox.delivery_to_settle(uuid) is
  'For outbox.retry() and outbox.discard(): the locked row of outbox.deliveries.';
-- The secret by which outbox.deliveries.lane is a hash. Not part of a dump: rows that come with one get their lanes by
-- the secret of the database that they come to, see bgworker/engine/stream/route_change.h.
create table outbox.lane_key (
  key uuid not null,
  one boolean not null default true,
  constraint lane_key_pkey primary key (one),
  constraint lane_key_one_check check (one)
);
comment on table outbox.lane_key is
  'The secret of this database by which events get the lanes of outbox.deliveries, so that nobody can construct an event that holds up another topic or key. Made by the relay when it starts and there is none.';
comment on column outbox.lane_key.key is 'Random.';
comment on column outbox.lane_key.one is 'Always true: there is one row.';

comment on column outbox.deliveries.lane is
  'What waits in order: a hash of topic and key; or of topic and partition, or of the topic alone, when all of that is refused. By the secret of outbox.lane_key.';
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
comment on column outbox.dump_rows.table_name is 'Table in the schema outbox; dump: is always 1.';
comment on column outbox.dump_rows.bit is 'A binary digit of the count; a dump has the row when the digit is 1.';
insert into outbox.dump_rows (table_name, bit)
select t.name, b.bit
from pg_catalog.unnest('{dump,events_0,events_1,events_2,events_3,events_4,events_5,events_6,events_7,deliveries,relay_position}'::text[]) t (name)
cross join pg_catalog.generate_series(0, 39) b (bit);
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
    union all select 'deliveries', pg_catalog.count(*) from outbox.deliveries
    union all select 'relay_position', pg_catalog.count(*) from outbox.relay_position p where p.rows_counted is distinct from false
    ) c cross join pg_catalog.generate_series(0, 39) b (bit)
    where (c.n operator(pg_catalog.>>) b.bit) operator(pg_catalog.&) 1 operator(pg_catalog.=) 1)
$filter$);

-- pg_dump --disable-triggers switches all triggers of a table off while it fills it, and all on afterwards, but not
-- as they were. Rows that are not stamped would never be published. Every ALTER TABLE of the database passes here: of a table
-- that is not outbox's only the catalogues are read, and a role that may not even read those is let pass. Of outbox's own,
-- the altered table and its partitions are put right, as far as they are the caller's to alter.
create function outbox.keep_triggers()
returns event_trigger
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  altered oid[];
  kept record;
begin
  begin
    select array_agg(c.objid) into altered from pg_event_trigger_ddl_commands() c
      where c.classid = 'pg_class'::regclass and c.schema_name = 'outbox';
  exception when insufficient_privilege then
    return;
  end;
  if altered is null then
    return;
  end if;
  for kept in
    select c.relname, t.tgname
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid and c.relkind = 'r' and pg_has_role(c.relowner, 'usage')
    join pg_depend m on m.classid = 'pg_class'::regclass and m.objid = c.oid and m.deptype = 'e' and m.refclassid = 'pg_extension'::regclass
    join pg_extension x on x.oid = m.refobjid and x.extname = 'outbox'
    join pg_namespace s on s.oid = c.relnamespace and s.nspname = 'outbox'
    join pg_proc p on p.oid = t.tgfoid and p.pronamespace = s.oid
    where p.proname in ('before_event_insert', 'before_delivery_insert') and t.tgenabled <> 'A'
      and (c.oid = any (altered) or exists (select from pg_inherits i where i.inhrelid = c.oid and i.inhparent = any (altered)))
  loop
    execute format('alter table outbox.%I enable always trigger %I', kept.relname, kept.tgname);
  end loop;
end
$$;
comment on function outbox.keep_triggers() is
  'Event trigger: the triggers that stamp events, and that keep restored rows apart, stay enabled always.';
create event trigger outbox_keep_triggers on ddl_command_end when tag in ('ALTER TABLE')
  execute function outbox.keep_triggers();
comment on event trigger outbox_keep_triggers is
  'Keeps pg_dump --disable-triggers from switching off what stamps restored events; see outbox.keep_triggers().';
alter event trigger outbox_keep_triggers enable always;
-- What the relay is doing, and what became of events; the view relay_status is in a file of its own.

create function outbox.relay_state(
  out state text,
  out pid int,
  out backlog_events bigint,
  out oldest_event_at timestamptz,
  out in_flight_events int,
  out in_flight_bytes bigint,
  out published_since_start bigint,
  out last_published_at timestamptz,
  out consecutive_failures int,
  out next_attempt_at timestamptz,
  out last_error text,
  out last_error_at timestamptz,
  out config_error text)
returns record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_relay_state';
comment on function outbox.relay_state() is
  'State of this database''s relay, from shared memory. Use the view outbox.relay_status.';

-- A barrier: a condition of the reader's must not be evaluated first and see other events' payloads.
create view outbox.dead_letters with (security_barrier) as
select
  d.event_id, e.aggregate_type, e.aggregate_id, e.event_type, d.topic, d.partition_key, d.attempts, d.last_error,
  d.failed_at,
  (select pg_catalog.count(*) from outbox.deliveries w
    where w.lane operator(pg_catalog.=) d.lane and w.state operator(pg_catalog.=) 'WAITING') as waiting_behind,
  e.created_at, e.payload, e.payload_bytes, e.headers, d.seq
from outbox.deliveries d
left join outbox.events e
  on e.xid operator(pg_catalog.=) d.xid and e.seq operator(pg_catalog.=) d.seq and e.slot operator(pg_catalog.=) d.slot
where d.state operator(pg_catalog.=) 'FAILED';
comment on view outbox.dead_letters is
  'Events that Kafka refused outbox.max_attempts times, and how many wait behind each. Settle them with outbox.retry() or outbox.discard().';

create function outbox.wait_published(event_id uuid, timeout interval default '10 s')
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_wait_published';
comment on function outbox.wait_published(uuid, interval) is
  'Waits until Kafka has acknowledged the event; false when the timeout passes first. Call it after the emitting transaction has committed, and within outbox.retention.';

-- Without sequential scans plans look expensive to the compiler of expressions.
create function outbox.drain(timeout interval default '1 min')
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as 'MODULE_PATHNAME', 'outbox_drain';
comment on function outbox.drain(interval) is
  'Waits until no committed event is unpublished; false when the timeout passes first. Stop what emits before. Failed events are not waited for.';
-- Upgrades run this file too.

create or replace view outbox.relay_status as
select
  r.state,
  r.pid,
  r.backlog_events,
  r.oldest_event_at,
  pg_catalog.clock_timestamp() operator(pg_catalog.-) r.oldest_event_at as backlog_age,
  r.in_flight_events,
  r.in_flight_bytes,
  -- Every row has one, and only so the index is used, see outbox.relay_position.
  coalesce((select pg_catalog.max(p.published_total) from outbox.relay_position p
    where p.database_oid operator(pg_catalog.>) 0), 0) as published_total,
  r.last_published_at,
  (select pg_catalog.count(*) from outbox.deliveries d where d.state operator(pg_catalog.=) 'FAILED') as failed_events,
  r.consecutive_failures,
  r.next_attempt_at,
  r.last_error,
  r.last_error_at,
  r.config_error,
  -- There may be millions, as after a day with a topic that is missing.
  (select pg_catalog.count(*)
    from (select from outbox.deliveries d where d.state operator(pg_catalog.=) 'RETRYING' limit 100000) t)
    as retrying_events,
  (select pg_catalog.count(*)
    from (select from outbox.deliveries d where d.state operator(pg_catalog.=) 'WAITING' limit 100000) w)
    as waiting_events,
  (select pg_catalog.min(o.emitted_at)
    from (select d.emitted_at from outbox.deliveries d where d.state operator(pg_catalog.=) 'WAITING' limit 100000) o)
    as oldest_waiting_at
from outbox.relay_state() r;
comment on view outbox.relay_status is
  'One row: what this database''s relay is doing, how far it is behind and what went wrong last.';
comment on column outbox.relay_status.failed_events is 'Events that are FAILED in outbox.deliveries: they wait for outbox.retry() or outbox.discard().';
comment on column outbox.relay_status.retrying_events is 'Events that are RETRYING in outbox.deliveries: refused, and tried again by themselves; counted up to 100000.';
comment on column outbox.relay_status.waiting_events is 'Events that are WAITING in outbox.deliveries, behind others that are RETRYING, FAILED or being found out; counted up to 100000.';
comment on column outbox.relay_status.oldest_waiting_at is 'When the first of the waiting events was emitted; of the 100000 that are counted. Null of events that were set aside before 0.2.1.';
-- Upgrades run this file too.

create or replace view outbox.event_status as
select
  e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.payload_bytes, e.headers,
  e.partition_key, e.schema_version, e.created_at, e.seq,
  case when d.state operator(pg_catalog.=) 'FAILED' or d.state operator(pg_catalog.=) 'DISCARDED' then d.state
       when d.seq is not null or not v.passed then 'NEW'
       else 'PUBLISHED' end as status,
  -- What the relay tries in vain while Kafka cannot be reached is the head of the line.
  case when d.seq is not null then d.attempts
       when v.passed then 1
       when v.head then r.consecutive_failures
       else 0 end as attempts,
  case when d.seq is not null then d.next_attempt_at
       when v.head then r.next_attempt_at end as next_attempt_at,
  case when v.passed and d.seq is null and e.xid operator(pg_catalog.>) 0 then
    coalesce(
      (select t.published_at from outbox.ticks t
        where t.next_xid operator(pg_catalog.>) e.xid and outbox.visible_in(e.xid, t.snapshot)
          and t.xmin operator(pg_catalog.=) t.written_by::xid
        order by t.next_xid limit 1),
      p.updated_at) end as published_at,
  case when d.seq is not null then d.last_error
       when v.head then r.last_error end as last_error
from outbox.events e
left join outbox.current_position p on true
-- A restored event may have the number of another one.
left join outbox.deliveries d on d.seq operator(pg_catalog.=) e.seq and d.event_id operator(pg_catalog.=) e.id
cross join outbox.relay_state() r
cross join lateral (
  select coalesce(outbox.visible_in(e.xid, p.from_snapshot)
                  or (e.seq operator(pg_catalog.<=) p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)), false)
) as w (passed)
cross join lateral (
  select w.passed, not w.passed and r.consecutive_failures operator(pg_catalog.>) 0
                   and e.created_at operator(pg_catalog.<=) r.last_error_at
) as v (passed, head);
comment on view outbox.event_status is
  'Every event with its delivery status: NEW, PUBLISHED, FAILED or DISCARDED, attempts, next_attempt_at, published_at, last_error.';
-- Effect once for consumers: which events each has processed, and how far it has come.

create table outbox.processed_events (
  consumer text collate "C" not null,
  event_id uuid not null,
  processed_at timestamptz not null default pg_catalog.now(),
  constraint processed_events_pkey primary key (event_id, consumer)
);
comment on table outbox.processed_events is
  'Events that consumers of this database have processed, for outbox.processed_retention; written by outbox.mark_processed().';
comment on column outbox.processed_events.consumer is 'Name of the consumer.';
comment on column outbox.processed_events.event_id is 'Id of the event, from the Kafka record''s header id.';
comment on column outbox.processed_events.processed_at is 'Start of the transaction that processed it.';
select pg_catalog.pg_extension_config_dump('outbox.processed_events', '');

create function outbox.mark_processed(event_id uuid, consumer text)
returns boolean
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_mark_processed';
comment on function outbox.mark_processed(uuid, text) is
  'True the first time that this consumer sees the event, in the caller''s transaction; false for every repetition. A concurrent duplicate waits for the first to end.';

create function outbox.mark_processed_many(event_ids uuid[], consumer text)
returns setof uuid
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_mark_processed_many';
comment on function outbox.mark_processed_many(uuid[], text) is
  'outbox.mark_processed() for many events in one statement: returns each of those that are new to this consumer once, in no particular order. Consumers that mark the same events in other orders do not deadlock.';

-- Sequential scans are off so that no plan made for a small table is used for a large one, and a
-- serializable transaction is not in the way of those that it has nothing to do with.
create function outbox.is_processed(event_id uuid, consumer text)
returns boolean
language c stable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_is_processed';
comment on function outbox.is_processed(uuid, text) is
  'Whether this consumer has processed the event, as far as the caller''s snapshot shows. Does not wait, and so does not replace outbox.mark_processed().';

create table outbox.consumer_offsets (
  consumer text collate "C" not null,
  topic text collate "C" not null,
  kafka_partition int not null,
  next_offset bigint not null,
  recorded_at timestamptz not null default pg_catalog.now(),
  constraint consumer_offsets_pkey primary key (consumer, topic, kafka_partition)
) with (fillfactor = 50);
comment on table outbox.consumer_offsets is
  'How far consumers of this database have come in Kafka''s topics; written by outbox.record_offset(). Delete a row to let its consumer begin again.';
comment on column outbox.consumer_offsets.consumer is 'Name of the consumer.';
comment on column outbox.consumer_offsets.topic is 'Kafka topic.';
comment on column outbox.consumer_offsets.kafka_partition is 'Partition of the topic.';
comment on column outbox.consumer_offsets.next_offset is 'Offset of the next record to be processed.';
comment on column outbox.consumer_offsets.recorded_at is 'Start of the transaction that recorded it.';
select pg_catalog.pg_extension_config_dump('outbox.consumer_offsets', '');

create function outbox.record_offset(consumer text, topic text, kafka_partition int, next_offset bigint)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_record_offset';
comment on function outbox.record_offset(text, text, int, bigint) is
  'Stores how far the consumer has come, in the transaction of its effects: the offset of the last record, plus one. False, and nothing stored, when the stored offset is there already or further: another process has processed these records, so roll back.';

create function outbox.stored_offsets(consumer text)
returns table (topic text, kafka_partition int, next_offset bigint)
language c stable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_stored_offsets';
comment on function outbox.stored_offsets(text) is
  'Where the consumer continues in each partition that it has recorded an offset of.';
-- Effect once for inbound requests: a key for each, with the response of the first.

create table outbox.idempotency_keys (
  scope text collate "C" not null,
  key text collate "C" not null,
  request_hash bytea not null,
  owner uuid not null,
  started_at timestamptz not null,
  lease_until timestamptz,
  completed_at timestamptz,
  expires_at timestamptz not null,
  status int,
  response bytea,
  content_type text,
  headers jsonb,
  constraint idempotency_keys_pkey primary key (scope, key)
);
comment on table outbox.idempotency_keys is
  'Keys of inbound requests, until they expire; written by outbox.idempotency_begin(), idempotency_complete() and idempotency_release().';
comment on column outbox.idempotency_keys.scope is 'Whose key it is: the client, the operation.';
comment on column outbox.idempotency_keys.key is 'The request''s Idempotency-Key.';
comment on column outbox.idempotency_keys.request_hash is 'What the request asked for, as SHA-256.';
comment on column outbox.idempotency_keys.owner is 'Who may complete or release it; another one after each start and takeover.';
comment on column outbox.idempotency_keys.started_at is 'When this owner began.';
comment on column outbox.idempotency_keys.lease_until is 'When another caller may take it over; null in mode single_tx and once it is completed.';
comment on column outbox.idempotency_keys.completed_at is 'When its response was stored.';
comment on column outbox.idempotency_keys.expires_at is 'When the key is forgotten.';
comment on column outbox.idempotency_keys.status is 'HTTP status of the response.';
comment on column outbox.idempotency_keys.response is 'Body of the response.';
comment on column outbox.idempotency_keys.content_type is 'Content type of the response.';
comment on column outbox.idempotency_keys.headers is 'Further headers of the response, as a JSON object.';
select pg_catalog.pg_extension_config_dump('outbox.idempotency_keys', '');

create function outbox.request_hash(method text, path text, body bytea)
returns bytea
language c immutable parallel safe
as 'MODULE_PATHNAME', 'outbox_request_hash';
comment on function outbox.request_hash(text, text, bytea) is
  'SHA-256 of method, path and body: of each, its length in 8 bytes, most significant first, and then its bytes, text in UTF-8. A null body is an empty one.';

-- Sequential scans are off so that no plan made for a small table is used for a large one, and
-- serializable transactions with other keys do not meet.
create function outbox.idempotency_begin(
  scope text, key text, request_hash bytea, ttl interval default '24 h', mode text default 'single_tx',
  lease interval default '1 min',
  out outcome text, out owner uuid, out status int, out response bytea, out content_type text,
  out headers jsonb, out retry_after interval)
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_idempotency_begin';
comment on function outbox.idempotency_begin(text, text, bytea, interval, text, interval) is
  'Whether the caller is to do the work of this request: started and taken_over: yes, as owner; replay: it is done, here is the response; in_progress: another caller is at it; mismatch: the key belongs to another request. Never waits for another caller. See docs/idempotency.md.';

create function outbox.idempotency_complete(
  scope text, key text, owner uuid, status int, response bytea, content_type text, headers jsonb)
returns void
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_idempotency_complete';
comment on function outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb) is
  'Stores the response that later callers get, in the caller''s transaction; an error if the key is no longer held by this owner.';

create function outbox.idempotency_release(scope text, key text, owner uuid)
returns void
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_idempotency_release';
comment on function outbox.idempotency_release(text, text, uuid) is
  'Forgets a key that is not completed, so that the next caller starts; an error if it is no longer held by this owner.';
-- What the relay removes when it has expired.

-- Not part of a dump: a restored database counts from 0.
create table outbox.expiry (
  table_name text collate "C" not null,
  removed_total bigint not null default 0,
  last_removed_at timestamptz,
  constraint expiry_pkey primary key (table_name)
) with (fillfactor = 10);
comment on table outbox.expiry is
  'What the relay has removed: processed events after outbox.processed_retention, idempotency keys after their ttl.';
comment on column outbox.expiry.table_name is 'Table in the schema outbox.';
comment on column outbox.expiry.removed_total is 'Rows removed so far.';
comment on column outbox.expiry.last_removed_at is 'When rows were removed last.';
insert into outbox.expiry (table_name) values ('processed_events'), ('idempotency_keys');
-- The ring: which partition of outbox.events new events go to, and what the relay did with the others.

-- Not part of a dump: a restored database begins its own turn.
create table outbox.ring (
  slot smallint not null,
  is_current boolean not null default false,
  turns bigint not null default 0,
  began_at timestamptz,
  ended_at timestamptz,
  truncations bigint not null default 0,
  truncated_at timestamptz,
  restored_at timestamptz,
  held_back_by text collate "C",
  held_back_since timestamptz,
  constraint ring_pkey primary key (slot)
) with (fillfactor = 20);
comment on table outbox.ring is
  'One row for each partition of outbox.events. Written by the relay only; see outbox.maintenance_status.';
comment on column outbox.ring.slot is 'Which partition: outbox.events_<slot>.';
comment on column outbox.ring.is_current is 'Whether new events go to it; true for one.';
comment on column outbox.ring.turns is 'How often it became the current one.';
comment on column outbox.ring.began_at is 'When it became the current one last.';
comment on column outbox.ring.ended_at is 'When it ceased to be the current one last.';
comment on column outbox.ring.truncations is 'How often it was truncated.';
comment on column outbox.ring.truncated_at is 'When it was truncated last.';
comment on column outbox.ring.restored_at is 'When the events of a dump were settled last; their age counts from then.';
comment on column outbox.ring.held_back_by is 'What keeps the relay from truncating it, or from leaving it for the next one, although it is time.';
comment on column outbox.ring.held_back_since is 'Since when.';
insert into outbox.ring (slot, is_current, began_at)
select s, s operator(pg_catalog.=) 0, case when s operator(pg_catalog.=) 0 then pg_catalog.clock_timestamp() end
from pg_catalog.generate_series(0, 7) s;

create view outbox.maintenance_status as
select 'rotation' as task, 'events'::text as table_name,
  (select pg_catalog.sum(t.turns) from outbox.ring t)::bigint as done_total,
  case when r.turns operator(pg_catalog.>) 0 then r.began_at end as last_done_at,
  r.held_back_by, r.held_back_since
from outbox.ring r where r.is_current
union all
select 'truncation', 'events_' operator(pg_catalog.||) r.slot::text, r.truncations, r.truncated_at,
  case when not r.is_current then r.held_back_by end, case when not r.is_current then r.held_back_since end
from outbox.ring r
union all
select 'expiry', x.table_name, x.removed_total, x.last_removed_at, null, null
from outbox.expiry x;
comment on view outbox.maintenance_status is
  'What the relay''s maintenance has done and when (rotation: events go to the next partition; truncation of each partition; expiry: rows removed), and what holds it back and since when.';
-- What the relay has counted, and backpressure: all of it from shared memory.

create function outbox.topic_stats(
  out topic text,
  out published bigint,
  out bytes bigint,
  out refused bigint,
  out failed bigint,
  out retried bigint,
  out batches bigint,
  out batch_events_p50 bigint,
  out batch_events_p95 bigint,
  out batch_events_p99 bigint,
  out batch_events_max bigint,
  out created_to_acked_ms_p50 double precision,
  out created_to_acked_ms_p95 double precision,
  out created_to_acked_ms_p99 double precision,
  out created_to_acked_ms_max double precision,
  out created_to_acked_ms_sum double precision,
  out sent_to_acked_ms_p50 double precision,
  out sent_to_acked_ms_p95 double precision,
  out sent_to_acked_ms_p99 double precision,
  out sent_to_acked_ms_max double precision,
  out sent_to_acked_ms_sum double precision,
  out last_published_at timestamptz,
  out stats_reset timestamptz)
returns setof record
language c volatile parallel restricted rows 10
as 'MODULE_PATHNAME', 'outbox_topic_stats';
comment on function outbox.topic_stats() is
  'What this database''s relay has counted, by topic. Use the view outbox.stats.';

create function outbox.database_stats(
  out topics int,
  out published bigint,
  out bytes bigint,
  out refused bigint,
  out failed bigint,
  out retried bigint,
  out batches bigint,
  out batch_events_p50 bigint,
  out batch_events_p95 bigint,
  out batch_events_p99 bigint,
  out batch_events_max bigint,
  out created_to_acked_ms_p50 double precision,
  out created_to_acked_ms_p95 double precision,
  out created_to_acked_ms_p99 double precision,
  out created_to_acked_ms_max double precision,
  out created_to_acked_ms_sum double precision,
  out sent_to_acked_ms_p50 double precision,
  out sent_to_acked_ms_p95 double precision,
  out sent_to_acked_ms_p99 double precision,
  out sent_to_acked_ms_max double precision,
  out sent_to_acked_ms_sum double precision,
  out last_published_at timestamptz,
  out stats_reset timestamptz)
returns record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_database_stats';
comment on function outbox.database_stats() is
  'What this database''s relay has counted, all topics together. Use the view outbox.stats_total.';

create function outbox.latency_histograms(
  out measure text,
  out le_seconds double precision,
  out events bigint)
returns setof record
language c volatile parallel restricted rows 60
as 'MODULE_PATHNAME', 'outbox_latency_histograms';
comment on function outbox.latency_histograms() is
  'Cumulative histograms of the latencies of all topics. Use the view outbox.stats_histogram.';

create function outbox.stats_reset()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_stats_reset';
comment on function outbox.stats_reset() is
  'Sets all statistics of this database (outbox.stats, stats_total, stats_histogram) to zero, at once and not only at commit.';

create view outbox.stats as
select
  s.topic, s.published, s.bytes, s.refused, s.failed, s.retried, s.batches,
  s.batch_events_p50, s.batch_events_p95, s.batch_events_p99, s.batch_events_max,
  s.created_to_acked_ms_p50, s.created_to_acked_ms_p95, s.created_to_acked_ms_p99, s.created_to_acked_ms_max, s.created_to_acked_ms_sum,
  s.sent_to_acked_ms_p50, s.sent_to_acked_ms_p95, s.sent_to_acked_ms_p99, s.sent_to_acked_ms_max, s.sent_to_acked_ms_sum,
  s.last_published_at, s.stats_reset
from outbox.topic_stats() s;
comment on view outbox.stats is
  'A row for each Kafka topic: what the relay has published since stats_reset, and how fast. 64 topics; all others are in the row (other topics).';
comment on column outbox.stats.topic is 'Kafka topic; (other topics) are all beyond the first 64, ? are events whose topic name cannot be made.';

create view outbox.stats_total as
select
  s.topics, s.published, s.bytes, s.refused, s.failed, s.retried, s.batches,
  s.batch_events_p50, s.batch_events_p95, s.batch_events_p99, s.batch_events_max,
  s.created_to_acked_ms_p50, s.created_to_acked_ms_p95, s.created_to_acked_ms_p99, s.created_to_acked_ms_max, s.created_to_acked_ms_sum,
  s.sent_to_acked_ms_p50, s.sent_to_acked_ms_p95, s.sent_to_acked_ms_p99, s.sent_to_acked_ms_max, s.sent_to_acked_ms_sum,
  s.last_published_at, s.stats_reset
from outbox.database_stats() s;
comment on view outbox.stats_total is
  'One row: outbox.stats with all topics together.';
comment on column outbox.stats_total.topics is 'Rows of outbox.stats.';

create view outbox.stats_histogram as
select h.measure, h.le_seconds, h.events
from outbox.latency_histograms() h;
comment on view outbox.stats_histogram is
  'How many events took less than le_seconds, cumulative, for the measures created_to_acked and sent_to_acked of all topics together.';
comment on column outbox.stats_histogram.measure is 'created_to_acked or sent_to_acked, as in outbox.stats_total.';
comment on column outbox.stats_histogram.le_seconds is 'Upper bound: powers of two of a microsecond from 128 us to 9.5 hours, then Infinity.';
comment on column outbox.stats_histogram.events is 'Events that took less.';

do $$
declare
  stats text;
  name text;
  meaning text;
begin
  foreach stats in array array['outbox.stats', 'outbox.stats_total'] loop
    for name, meaning in values
      ('published', 'Events that Kafka has acknowledged; repeats count again.'),
      ('bytes', 'Of those: keys, values and headers, before compression.'),
      ('refused', 'How often Kafka refused an event, for its own or for its topic''s sake.'),
      ('failed', 'Events given up after outbox.max_attempts.'),
      ('retried', 'How often an event was handed to Kafka again: after a refusal, or because the producer had to start over.'),
      ('batches', 'Batches that Kafka has acknowledged.'),
      ('batch_events_p50', 'Events in a batch: the median.'),
      ('batch_events_p95', 'Likewise, not exceeded by 95 % of the batches.'),
      ('batch_events_p99', 'Likewise, by 99 %.'),
      ('batch_events_max', 'The largest batch.'),
      ('created_to_acked_ms_p50', 'From the event''s created_at to Kafka''s acknowledgement, in ms: the median.'),
      ('created_to_acked_ms_p95', 'Likewise, not exceeded by 95 % of the events.'),
      ('created_to_acked_ms_p99', 'Likewise, by 99 %.'),
      ('created_to_acked_ms_max', 'The longest.'),
      ('created_to_acked_ms_sum', 'Of all published events together.'),
      ('sent_to_acked_ms_p50', 'From handing the event to the Kafka client to the acknowledgement, in ms: the median.'),
      ('sent_to_acked_ms_p95', 'Likewise, not exceeded by 95 % of the events.'),
      ('sent_to_acked_ms_p99', 'Likewise, by 99 %.'),
      ('sent_to_acked_ms_max', 'The longest.'),
      ('sent_to_acked_ms_sum', 'Of all published events together.'),
      ('last_published_at', 'When Kafka has acknowledged the last one.'),
      ('stats_reset', 'Since when this is counted.')
    loop
      execute pg_catalog.format('comment on column %s.%I is %L', stats, name, meaning);
    end loop;
  end loop;
end
$$;

create function outbox.backlog_state(
  out max_backlog_events int,
  out warn_at bigint,
  out backlog_events bigint,
  out counted boolean,
  out level text)
returns record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_backlog_state';
comment on function outbox.backlog_state() is
  'How near this database is to outbox.max_backlog_events. Use the view outbox.backpressure.';

create view outbox.backpressure as
select b.max_backlog_events, b.warn_at, b.backlog_events, b.counted, b.level
from outbox.backlog_state() b;
comment on view outbox.backpressure is
  'One row: how many committed events wait to be published, and whether that makes emit() warn or refuse.';
comment on column outbox.backpressure.max_backlog_events is 'The setting outbox.max_backlog_events, as this session has it; 0: no limit.';
comment on column outbox.backpressure.warn_at is 'From how many on emit() warns.';
comment on column outbox.backpressure.backlog_events is 'Committed events that are not published; those in outbox.deliveries do not count.';
comment on column outbox.backpressure.counted is 'False until a relay has counted what there was when the server started; backlog_events is a lower bound till then.';
comment on column outbox.backpressure.level is 'off, ok, warning or refusing.';
-- Replays: events that were published, and are still kept, go to Kafka once more.

-- Not part of a dump: a restored database continues no replay.
create table outbox.replay_requests (
  id uuid not null,
  state text collate "C" not null,
  aggregate_type text,
  event_type text,
  aggregate_id text,
  since timestamptz,
  until timestamptz,
  max_count int not null,
  rate_per_second int not null,
  topic text,
  matching bigint,
  total int not null,
  published int not null default 0,
  refused int not null default 0,
  missing int not null default 0,
  last_error text,
  requested_by name not null default session_user,
  requested_at timestamptz not null default pg_catalog.clock_timestamp(),
  started_at timestamptz,
  ended_at timestamptz,
  cancelled_by name,
  system_identifier bigint not null default outbox.system_identifier(),
  database_oid oid not null,
  constraint replay_requests_pkey primary key (id),
  constraint replay_requests_state_check
    check (state in ('DRY_RUN', 'QUEUED', 'RUNNING', 'DONE', 'CANCELLED', 'FAILED'))
) with (fillfactor = 50);
create index replay_requests_active on outbox.replay_requests (requested_at, id) where state in ('QUEUED', 'RUNNING');

comment on table outbox.replay_requests is
  'Replays and dry runs that were asked for; the last thousand that have ended stay. Written by outbox.replay(), outbox.cancel_replay() and the relay; see the view outbox.replays.';
comment on column outbox.replay_requests.id is 'Id of the replay, sent as the header replay_id.';
comment on column outbox.replay_requests.state is 'DRY_RUN: only counted. QUEUED: waits for those before it. RUNNING. DONE. CANCELLED: by an operator. FAILED: given up, see last_error.';
comment on column outbox.replay_requests.aggregate_type is 'Only events of this aggregate type; null: of all.';
comment on column outbox.replay_requests.event_type is 'Only events of this type; null: of all.';
comment on column outbox.replay_requests.aggregate_id is 'Only events of this aggregate; null: of all.';
comment on column outbox.replay_requests.since is 'Only events created then or later; null: from the first.';
comment on column outbox.replay_requests.until is 'Only events created before; null: to the last.';
comment on column outbox.replay_requests.max_count is 'At most so many events, the oldest.';
comment on column outbox.replay_requests.rate_per_second is 'At most so many events a second.';
comment on column outbox.replay_requests.topic is 'Topic for all of them; null: each goes where outbox.topic_template says.';
comment on column outbox.replay_requests.matching is 'How many events matched; null when they were more than max_count, and were not counted as it was no dry run.';
comment on column outbox.replay_requests.total is 'How many events are, or would be, replayed.';
comment on column outbox.replay_requests.published is 'Of these, so many have been acknowledged by Kafka.';
comment on column outbox.replay_requests.refused is 'So many were refused by Kafka and left out.';
comment on column outbox.replay_requests.missing is 'So many no longer existed.';
comment on column outbox.replay_requests.last_error is 'What Kafka refused last and why, what is in the way, or why the replay failed.';
comment on column outbox.replay_requests.requested_by is 'Who asked for it.';
comment on column outbox.replay_requests.requested_at is 'When.';
comment on column outbox.replay_requests.started_at is 'When the relay began.';
comment on column outbox.replay_requests.ended_at is 'When it was over.';
comment on column outbox.replay_requests.cancelled_by is 'Who cancelled it.';
comment on column outbox.replay_requests.system_identifier is 'Cluster in which it was asked for.';
comment on column outbox.replay_requests.database_oid is 'Database in which it was asked for: a copy of it continues no replay.';

-- The list is made once, by the session that asks, so that the relay has nothing to search for.
create table outbox.replay_events (
  replay_id uuid not null,
  chunk int not null,
  held_slots smallint[] not null,
  seqs bigint[] not null,
  xids bigint[] not null,
  slots smallint[] not null,
  constraint replay_events_pkey primary key (replay_id, chunk)
);
comment on table outbox.replay_events is
  'The events of replays that have not ended, a thousand a row. Their partitions of outbox.events are kept meanwhile.';
comment on column outbox.replay_events.replay_id is 'Which replay.';
comment on column outbox.replay_events.chunk is 'Number of the row, from 0; it goes when all of its events are through.';
comment on column outbox.replay_events.held_slots is 'The partitions of outbox.events that its events are in.';
comment on column outbox.replay_events.seqs is 'Emission numbers of the events, in order.';
comment on column outbox.replay_events.xids is 'Their transaction ids; with seq they find the rows in outbox.events.';
comment on column outbox.replay_events.slots is 'Their partitions of outbox.events.';

create view outbox.replays as
select
  r.id as replay_id,
  r.state,
  r.total,
  r.published,
  r.refused,
  r.missing,
  case when r.state operator(pg_catalog.=) 'DRY_RUN' then null
       when r.total operator(pg_catalog.=) 0 then 100.0
       else pg_catalog.round(100.0 operator(pg_catalog.*) (r.published operator(pg_catalog.+) r.refused
              operator(pg_catalog.+) r.missing) operator(pg_catalog./) r.total, 1) end as percent,
  case when r.state operator(pg_catalog.=) any ('{DRY_RUN,QUEUED,RUNNING}') then
    pg_catalog.make_interval(secs => (r.total operator(pg_catalog.-) r.published operator(pg_catalog.-) r.refused
      operator(pg_catalog.-) r.missing)::double precision operator(pg_catalog./) r.rate_per_second) end as remaining,
  r.last_error,
  r.aggregate_type, r.event_type, r.aggregate_id, r.since, r.until, r.max_count, r.rate_per_second, r.topic,
  r.matching,
  r.requested_by, r.requested_at, r.started_at, r.ended_at, r.cancelled_by
from outbox.replay_requests r;
comment on view outbox.replays is
  'Every replay and dry run: state, how many events are through and how long the others take at the rate asked for, what went wrong, who asked for what and when.';

create function outbox.check_topic_name(topic text)
returns void
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'outbox_check_topic_name';
comment on function outbox.check_topic_name(text) is
  'Raises invalid_parameter_value for a text that Kafka takes for no topic name.';

-- Without settings of its own, so that it becomes a part of the query that asks it; everything is qualified.
create or replace function outbox.replayable_events(
  aggregate_type text, event_type text, aggregate_id text, since timestamptz, until timestamptz)
returns table (seq bigint, xid bigint, slot smallint)
language sql stable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
  select e.seq, e.xid, e.slot
  from outbox.events e left join outbox.current_position p on true
  where ($1 is null or e.aggregate_type operator(pg_catalog.=) $1)
    and ($2 is null or e.event_type operator(pg_catalog.=) $2)
    and ($3 is null or e.aggregate_id operator(pg_catalog.=) $3)
    and ($4 is null or e.created_at operator(pg_catalog.>=) $4)
    and ($5 is null or e.created_at operator(pg_catalog.<) $5)
    and case when e.xid operator(pg_catalog.<=) 0 then e.xid operator(pg_catalog.=) 0
             else outbox.visible_in(e.xid, p.from_snapshot)
                  or (e.seq operator(pg_catalog.<=) p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)) end
    and not exists (select from outbox.deliveries d where d.seq operator(pg_catalog.=) e.seq
      and d.event_id operator(pg_catalog.=) e.id)
$$;
comment on function outbox.replayable_events(text, text, text, timestamptz, timestamptz) is
  'For outbox.replay(): the published events that match; null stands for all. Neither refused nor discarded ones, nor those that wait.';
-- What operators call as the owner. The library first makes sure that no other code runs with the owner's rights
-- (extension/trust/as_owner.cpp), and then calls the function of the same name with the suffix _as_owner, which no role is granted.
-- Upgrades run this file too: "or replace" everywhere.

create or replace function outbox.retry_as_owner(event_id uuid)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries := outbox.delivery_to_settle(retry_as_owner.event_id);
begin
  if delivery.state = 'WAITING' then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s waits behind another one', retry_as_owner.event_id),
      detail = format('Event %s of its key or topic was refused before it.',
        (select b.event_id from outbox.deliveries b
          where b.lane = delivery.lane and b.state in ('RETRYING', 'FAILED') order by b.seq limit 1)),
      hint = 'Retry or discard that one.';
  elsif delivery.state = 'DISCARDED' then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s was discarded', retry_as_owner.event_id),
      detail = format('By %s at %s.', delivery.settled_by, delivery.settled_at),
      hint = 'Later events of its key may be published already; emit a new event instead.';
  end if;
  update outbox.deliveries d set state = 'RETRYING', next_attempt_at = clock_timestamp(),
      attempts = case when delivery.state = 'FAILED' then 0 else d.attempts end
    where d.seq = delivery.seq;
  perform outbox.notify_relay();
  return delivery.state = 'FAILED';
end
$$;
comment on function outbox.retry_as_owner(uuid) is
  'The body of outbox.retry().';

create or replace function outbox.retry(event_id uuid)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.retry(uuid) is
  'Tries a failed event again, at once and with a fresh count of attempts; what waits behind it follows when it is published. True when it had FAILED, false when it was being retried anyway.';

create or replace function outbox.retry_failed_as_owner(
  aggregate_type text,
  event_type text,
  since timestamptz,
  max int)
returns int
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  count int;
begin
  if retry_failed_as_owner.max is null or retry_failed_as_owner.max < 1 then
    raise exception using errcode = 'invalid_parameter_value', message = 'max must be at least 1';
  end if;
  with chosen as (
    select d.seq from outbox.deliveries d
      join outbox.events e on e.xid = d.xid and e.seq = d.seq and e.slot = d.slot
      where d.state = 'FAILED'
        and (retry_failed_as_owner.aggregate_type is null or e.aggregate_type = retry_failed_as_owner.aggregate_type)
        and (retry_failed_as_owner.event_type is null or e.event_type = retry_failed_as_owner.event_type)
        and (retry_failed_as_owner.since is null or d.failed_at >= retry_failed_as_owner.since)
      order by d.seq limit retry_failed_as_owner.max for update of d)
  update outbox.deliveries d set state = 'RETRYING', next_attempt_at = clock_timestamp(), attempts = 0
    from chosen where d.seq = chosen.seq;
  get diagnostics count = row_count;
  perform outbox.notify_relay();
  return count;
end
$$;
comment on function outbox.retry_failed_as_owner(text, text, timestamptz, int) is
  'The body of outbox.retry_failed().';

create or replace function outbox.retry_failed(
  aggregate_type text default null,
  event_type text default null,
  since timestamptz default null,
  max int default 1000)
returns int
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.retry_failed(text, text, timestamptz, int) is
  'As outbox.retry() for failed events of a type (null: all), first refused since a time, oldest first, at most max. Returns how many.';

create or replace function outbox.discard_as_owner(event_id uuid, reason text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries;
begin
  if discard_as_owner.reason is null or btrim(discard_as_owner.reason) = '' then
    raise exception using errcode = 'invalid_parameter_value', message = 'reason must not be empty',
      hint = 'It is kept with the event for later reference.';
  end if;
  delivery := outbox.delivery_to_settle(discard_as_owner.event_id);
  if delivery.state = 'DISCARDED' then
    return false;
  end if;
  update outbox.deliveries d set state = 'DISCARDED', blocking = false, next_attempt_at = null,
      settled_by = session_user, settled_at = clock_timestamp(), reason = discard_as_owner.reason
    where d.seq = delivery.seq;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.discard_as_owner(uuid, text) is
  'The body of outbox.discard().';

create or replace function outbox.discard(event_id uuid, reason text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.discard(uuid, text) is
  'Gives a refused or waiting event up for good; what waits behind it flows. It stays in outbox.deliveries with who, when and why. False when it was discarded before.';

create or replace function outbox.pause_as_owner(reason text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if length(pause_as_owner.reason) > 1000 then
    raise exception using errcode = 'string_data_right_truncation',
      message = 'reason is longer than 1000 characters',
      detail = format('It has %s characters.', length(pause_as_owner.reason)),
      hint = 'It is shown wherever the pause is; name a place where the rest can be read.';
  end if;
  lock table outbox.pauses in share row exclusive mode;
  if exists (select from outbox.pauses) then
    return false;
  end if;
  insert into outbox.pauses (reason) values (pause_as_owner.reason);
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.pause_as_owner(text) is
  'The body of outbox.pause().';

create or replace function outbox.pause(reason text default null)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.pause(text) is
  'Makes the relay stop publishing until outbox.resume(), also across restarts, for a reason of at most 1000 characters. Events are kept. False when it was paused already.';

create or replace function outbox.resume_as_owner()
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from outbox.pauses;
  if not found then
    return false;
  end if;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.resume_as_owner() is
  'The body of outbox.resume().';

create or replace function outbox.resume()
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.resume() is
  'Ends outbox.pause(). False when the relay was not paused.';

create or replace function outbox.replay_as_owner(
  aggregate_type text,
  event_type text,
  aggregate_id text,
  since timestamptz,
  until timestamptz,
  max_count int,
  rate_per_second int,
  dry_run boolean,
  topic text,
  out replay_id uuid)
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  database constant oid := (select d.oid from pg_database d where d.datname = current_database());
  matched bigint;
begin
  if replay_as_owner.dry_run is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'dry_run must not be null',
      hint = 'true counts the events, false replays them.';
  elsif replay_as_owner.max_count is null or replay_as_owner.max_count not between 1 and 1000000 then
    raise exception using errcode = 'invalid_parameter_value', message = 'max_count must be 1 to 1000000',
      hint = 'What is left out can be replayed after that, with since.';
  elsif replay_as_owner.rate_per_second is null or replay_as_owner.rate_per_second not between 1 and 10000 then
    raise exception using errcode = 'invalid_parameter_value', message = 'rate_per_second must be 1 to 10000';
  elsif replay_as_owner.since >= replay_as_owner.until then
    raise exception using errcode = 'invalid_parameter_value', message = 'since must be before until',
      detail = format('since is %s, until is %s.', replay_as_owner.since, replay_as_owner.until);
  end if;
  perform outbox.check_topic_name(replay_as_owner.topic);
  replay_id := outbox.uuid_v7();
  if replay_as_owner.dry_run then
    select count(*) into matched
      from outbox.replayable_events(replay_as_owner.aggregate_type, replay_as_owner.event_type, replay_as_owner.aggregate_id, replay_as_owner.since, replay_as_owner.until);
  else
    -- One asks after the other, which the relay does not notice.
    lock table outbox.replay_requests in share update exclusive mode;
    if (select count(*) from outbox.replay_requests r where r.state in ('QUEUED', 'RUNNING')) >= 16 then
      raise exception using errcode = 'configuration_limit_exceeded', message = '16 replays wait or run already',
        hint = 'Wait for one to end, or cancel one with outbox.cancel_replay(); see outbox.replays.';
    end if;
    -- A transaction that reads outbox.events keeps the relay from emptying a partition up to the end of the transaction,
    -- and from then on the rows made here do.
    with chosen as (
      select o.seq, o.xid, o.slot, row_number() over (order by o.seq, o.xid) - 1 as n
      from (select t.seq, t.xid, t.slot
            from outbox.replayable_events(replay_as_owner.aggregate_type, replay_as_owner.event_type, replay_as_owner.aggregate_id, replay_as_owner.since, replay_as_owner.until) t
            order by t.seq, t.xid limit replay_as_owner.max_count + 1) o),
    listed as (
      insert into outbox.replay_events (replay_id, chunk, held_slots, seqs, xids, slots)
      select replay_as_owner.replay_id, c.n / 1000, array_agg(distinct c.slot), array_agg(c.seq order by c.n),
        array_agg(c.xid order by c.n), array_agg(c.slot order by c.n)
      from chosen c where c.n < replay_as_owner.max_count group by c.n / 1000)
    select count(*) into matched from chosen;
  end if;
  insert into outbox.replay_requests (id, state, aggregate_type, event_type, aggregate_id, since, until, max_count,
      rate_per_second, topic, matching, total, ended_at, database_oid)
    values (replay_as_owner.replay_id, case when replay_as_owner.dry_run then 'DRY_RUN' when matched = 0 then 'DONE' else 'QUEUED' end,
      replay_as_owner.aggregate_type, replay_as_owner.event_type, replay_as_owner.aggregate_id, replay_as_owner.since, replay_as_owner.until, replay_as_owner.max_count,
      replay_as_owner.rate_per_second, replay_as_owner.topic, case when replay_as_owner.dry_run or matched <= replay_as_owner.max_count then matched end,
      least(matched, replay_as_owner.max_count), case when replay_as_owner.dry_run or matched = 0 then clock_timestamp() end, database);
  delete from outbox.replay_requests r where r.id in (
    select o.id from outbox.replay_requests o where o.state not in ('QUEUED', 'RUNNING')
    order by o.requested_at desc offset 1000);
  if replay_as_owner.dry_run then
    raise notice using message = format('%s of %s matching events would be replayed', least(matched, replay_as_owner.max_count), matched),
      hint = 'Say dry_run => false to replay them.';
  else
    perform outbox.notify_relay();
  end if;
end
$$;
comment on function outbox.replay_as_owner(text, text, text, timestamptz, timestamptz, int, int, boolean, text) is
  'The body of outbox.replay().';

create or replace function outbox.replay(
  aggregate_type text default null,
  event_type text default null,
  aggregate_id text default null,
  since timestamptz default null,
  until timestamptz default null,
  max_count int default 1000,
  rate_per_second int default 100,
  dry_run boolean default true,
  topic text default null,
  out replay_id uuid)
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.replay(text, text, text, timestamptz, timestamptz, int, int, boolean, text) is
  'Publishes events again that were published and are still kept: those that match (null: all), the oldest first, at most max_count, at most rate_per_second, with their ids and the header replay_id. With dry_run, the default, it only counts them. Returns the id of a row of outbox.replays; the relay begins when the transaction has committed.';

create or replace function outbox.cancel_replay_as_owner(replay_id uuid)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  current_state text;
begin
  if cancel_replay_as_owner.replay_id is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'replay_id must not be null',
      hint = 'The view outbox.replays shows the ids.';
  end if;
  select r.state into current_state from outbox.replay_requests r where r.id = cancel_replay_as_owner.replay_id for update;
  if not found then
    raise exception using errcode = 'undefined_object',
      message = format('there is no replay with id %s', cancel_replay_as_owner.replay_id),
      hint = 'The view outbox.replays shows the ids.';
  elsif current_state not in ('QUEUED', 'RUNNING') then
    return false;
  end if;
  update outbox.replay_requests r set state = 'CANCELLED', ended_at = clock_timestamp(), cancelled_by = session_user
    where r.id = cancel_replay_as_owner.replay_id;
  delete from outbox.replay_events e where e.replay_id = cancel_replay_as_owner.replay_id;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.cancel_replay_as_owner(uuid) is
  'The body of outbox.cancel_replay().';

create or replace function outbox.cancel_replay(replay_id uuid)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.cancel_replay(uuid) is
  'Ends a replay that waits or runs, when the transaction commits; what is on its way to Kafka by then may still arrive. False when it had ended before.';

create or replace function outbox.adopt_position_as_owner()
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  count int;
begin
  update outbox.relay_position p
    set written_by = pg_current_xact_id(), timeline = outbox.timeline(), data_directory = outbox.data_directory()
    where p.system_identifier = outbox.system_identifier()
      and p.database_oid = (select d.oid from pg_database d where d.datname = current_database())
      and p.rows_counted is distinct from false;
  get diagnostics count = row_count;
  if count > 1 then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = 'outbox.relay_position holds several rows of this database',
      hint = 'Delete all but the one that is right.';
  end if;
  -- In a subtransaction the row has an xmin of its own.
  update outbox.relay_position p set written_by = p.xmin::text::xid8
    where p.written_by = pg_current_xact_id() and p.xmin <> p.written_by::xid;
  -- Of a dump that was not restored as a whole, what is there counts as all of it.
  update outbox.relay_position p set rows_counted = null
    where p.rows_counted and (p.system_identifier <> outbox.system_identifier() or p.xmin <> p.written_by::xid);
  perform outbox.request_relay();
  return count = 1;
end
$$;
comment on function outbox.adopt_position_as_owner() is
  'The body of outbox.adopt_position().';

create or replace function outbox.adopt_position()
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.adopt_position() is
  'Lets a relay continue that has stopped because its position was changed by hand, or because the data directory is a copy: the row of outbox.relay_position counts as it is. Events of a dump that was restored in part are settled with what is there. False when this database has no position.';
-- What rows are called in a publication, as of one FOR ALL TABLES: PostgreSQL refuses UPDATE and DELETE of a published
-- table whose rows have no name there, and the relay could not work. A primary key is one; other tables have the whole row.
do $$
declare
  part regclass;
begin
  for part in
    select c.oid from pg_catalog.pg_class c
      where c.relnamespace operator(pg_catalog.=) 'outbox'::pg_catalog.regnamespace
        and c.relkind operator(pg_catalog.=) any ('{r,p}'::"char"[]) and c.relreplident operator(pg_catalog.=) 'd'
        and not exists (select from pg_catalog.pg_index i
          where i.indrelid operator(pg_catalog.=) c.oid and i.indisprimary)
      order by c.oid
  loop
    execute pg_catalog.format('alter table %s replica identity full', part);
  end loop;
end
$$;

-- Roles get what they need by explicit grants. Upgrades run this file too: "or replace" everywhere.

-- The groups of rights, disjoint except for the schema and outbox.version().
create or replace function outbox.rights_of(kind text)
returns setof text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select r.granted from (values
    ('emitter', 'execute on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int)'),
    ('emitter', 'execute on function outbox.emit_bytes(text, text, text, bytea, jsonb, text, uuid, int)'),
    ('emitter', 'insert (aggregate_type, aggregate_id, event_type, partition_key, payload, payload_bytes, headers, schema_version, id, created_at) on table outbox.events'),
    ('emitter', 'execute on function outbox.uuid_v7()'),
    ('emitter', 'execute on function outbox.current_slot()'),
    ('emitter', 'execute on function outbox.wait_published(uuid, interval)'),
    ('consumer', 'execute on function outbox.mark_processed(uuid, text)'),
    ('consumer', 'execute on function outbox.mark_processed_many(uuid[], text)'),
    ('consumer', 'execute on function outbox.is_processed(uuid, text)'),
    ('consumer', 'execute on function outbox.record_offset(text, text, int, bigint)'),
    ('consumer', 'execute on function outbox.stored_offsets(text)'),
    ('consumer', 'execute on function outbox.request_hash(text, text, bytea)'),
    ('consumer', 'execute on function outbox.idempotency_begin(text, text, bytea, interval, text, interval)'),
    ('consumer', 'execute on function outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb)'),
    ('consumer', 'execute on function outbox.idempotency_release(text, text, uuid)'),
    ('operator', 'execute on function outbox.retry(uuid)'),
    ('operator', 'execute on function outbox.retry_failed(text, text, timestamptz, int)'),
    ('operator', 'execute on function outbox.discard(uuid, text)'),
    ('operator', 'execute on function outbox.pause(text)'),
    ('operator', 'execute on function outbox.resume()'),
    ('operator', 'execute on function outbox.drain(interval)'),
    ('operator', 'execute on function outbox.replay(text, text, text, timestamptz, timestamptz, int, int, boolean, text)'),
    ('operator', 'execute on function outbox.cancel_replay(uuid)'),
    ('operator', 'select on table outbox.replays'),
    ('operator', 'select on table outbox.dead_letters'),
    ('operator', 'select on table outbox.pauses'),
    ('operator', 'select, insert, update, delete on table outbox.routes'),
    ('operator', 'execute on function outbox.route_of(text, text)'),
    ('operator', 'execute on function outbox.stats_reset()'),
    ('monitor', 'select on table outbox.relay_status'),
    ('monitor', 'select on table outbox.maintenance_status'),
    ('monitor', 'select (id, aggregate_type, aggregate_id, event_type, partition_key, schema_version, created_at, seq, status, attempts, next_attempt_at, published_at, last_error) on table outbox.event_status'),
    ('monitor', 'select (event_id, aggregate_type, aggregate_id, event_type, topic, partition_key, attempts, last_error, failed_at, waiting_behind, created_at, seq) on table outbox.dead_letters'),
    ('monitor', 'select (aggregate_type, event_type, topic, on_failure, headers_format) on table outbox.routes'),
    ('monitor', 'select (replay_id, state, total, published, refused, missing, percent, remaining, last_error, aggregate_type, event_type, aggregate_id, since, until, max_count, rate_per_second, topic, matching, requested_by, requested_at, started_at, ended_at, cancelled_by) on table outbox.replays'),
    ('monitor', 'select (seq, event_id, topic, partition_key, state, blocking, attempts, next_attempt_at, last_error, failed_at, settled_by, settled_at, reason) on table outbox.deliveries'),
    ('monitor', 'select on table outbox.stats'),
    ('monitor', 'select on table outbox.stats_total'),
    ('monitor', 'select on table outbox.stats_histogram'),
    ('monitor', 'select on table outbox.backpressure'),
    ('monitor', 'execute on function outbox.topic_stats()'),
    ('monitor', 'execute on function outbox.database_stats()'),
    ('monitor', 'execute on function outbox.latency_histograms()'),
    ('monitor', 'execute on function outbox.backlog_state()'),
    ('monitor', 'execute on function outbox.relay_state()'),
    ('monitor', 'execute on function outbox.system_identifier()'),
    ('monitor', 'execute on function outbox.visible_in(bigint, pg_snapshot)')
  ) r (kind, granted) where r.kind = rights_of.kind
$$;
comment on function outbox.rights_of(text) is
  'What outbox.grant_emitter(), grant_consumer(), grant_operator() and grant_monitor() grant.';

-- With the caller's rights: a role that may not grant grants nothing.
create or replace function outbox.change_rights(kind text, role regrole, grants boolean)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  granted text;
begin
  if role is null or role::oid = 0 then
    raise exception using errcode = 'null_value_not_allowed', message = 'role must not be null';
  end if;
  if grants then
    execute format('grant usage on schema outbox to %s', role);
    execute format('grant execute on function outbox.version() to %s', role);
  end if;
  for granted in select outbox.rights_of(kind) loop
    if grants then
      execute format('grant %s to %s', granted, role);
    else
      execute format('revoke %s from %s', granted, role);
    end if;
  end loop;
  -- A right on a table, taken back, takes those on its columns with it.
  if not grants and kind = 'operator' and exists (
      select from pg_proc p, aclexplode(p.proacl) a
      where p.oid = 'outbox.relay_state'::regproc and a.grantee = role) then
    perform outbox.change_rights('monitor', role, true);
  end if;
  -- The last group takes the schema with it.
  if not grants and not exists (
      select from pg_proc p, aclexplode(p.proacl) a
      where p.pronamespace = 'outbox'::regnamespace and p.proname <> 'version' and a.grantee = role)
    and not exists (
      select from pg_class c, aclexplode(c.relacl) a where c.relnamespace = 'outbox'::regnamespace and a.grantee = role)
    and not exists (
      select from pg_attribute t join pg_class c on c.oid = t.attrelid, aclexplode(t.attacl) a
      where c.relnamespace = 'outbox'::regnamespace and a.grantee = role)
  then
    execute format('revoke execute on function outbox.version() from %s', role);
    execute format('revoke usage on schema outbox from %s', role);
  end if;
end
$$;
comment on function outbox.change_rights(text, regrole, boolean) is
  'For outbox.grant_emitter() and the like.';

do $$
declare
  kind text;
begin
  foreach kind in array array['emitter', 'consumer', 'operator', 'monitor'] loop
    execute pg_catalog.format(
      'create or replace function outbox.grant_%s(role regrole) returns void language sql volatile parallel unsafe '
      'set search_path = pg_catalog, pg_temp as $f$ select outbox.change_rights(%L, role, true) $f$', kind, kind);
    execute pg_catalog.format(
      'create or replace function outbox.revoke_%s(role regrole) returns void language sql volatile parallel unsafe '
      'set search_path = pg_catalog, pg_temp as $f$ select outbox.change_rights(%L, role, false) $f$', kind, kind);
    execute pg_catalog.format(
      'comment on function outbox.revoke_%s(regrole) is ''Takes back what outbox.grant_%s() granted.''', kind, kind);
  end loop;
end
$$;
comment on function outbox.grant_emitter(regrole) is
  'Lets a role emit events, by function or INSERT, and wait for their being published; not read any, not choose topics.';
comment on function outbox.grant_consumer(regrole) is
  'Lets a role mark events as processed, record offsets, and use idempotency keys.';
comment on function outbox.grant_operator(regrole) is
  'Lets a role retry and discard failed events and see them with their payloads, replay published ones, pause and resume the relay, drain, change routes, and reset the statistics.';
comment on function outbox.grant_monitor(regrole) is
  'Lets a role see the state of the relay, of its maintenance, of replays and of each event, the routes and the statistics; no payloads and no headers.';
-- Start closed: nothing for PUBLIC, nor for whom the default privileges of the role that runs this script would give
-- something. Scripts grant nothing, so whatever an object is born with came from there or is PostgreSQL's default. Of an
-- object that is older than the update (sql/older_objects.sql) only those rights are taken away which it has had from
-- the beginning, and not where others' rights rest on them.
do $$
declare
  taken record;
begin
  for taken in
    with objects (kind, name, classid, objid, owner, acl) as (
      select 'schema', pg_catalog.quote_ident(n.nspname), 'pg_catalog.pg_namespace'::regclass, n.oid, n.nspowner,
        coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))
      from pg_catalog.pg_namespace n where n.oid operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select 'function', p.oid::regprocedure::text, 'pg_catalog.pg_proc'::regclass, p.oid, p.proowner,
        coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
      from pg_catalog.pg_proc p where p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text, 'pg_catalog.pg_class'::regclass, c.oid, c.relowner,
        coalesce(c.relacl, pg_catalog.acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))
      from pg_catalog.pg_class c
      where c.relnamespace operator(pg_catalog.=) 'outbox'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
      union all
      select 'type', pg_catalog.format('outbox.%I', t.typname), 'pg_catalog.pg_type'::regclass, t.oid, t.typowner,
        coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))
      from pg_catalog.pg_type t
      where t.typnamespace operator(pg_catalog.=) 'outbox'::regnamespace and t.typtype operator(pg_catalog.<>) 'b'
        and not exists (select from pg_catalog.pg_class c
          where c.reltype operator(pg_catalog.=) t.oid and c.relkind operator(pg_catalog.<>) 'c'))
    select o.kind, o.name, a.grantee, 'all' as rights
    from objects o
    cross join lateral (
      select e.grantee from pg_catalog.aclexplode(o.acl) e where e.grantee operator(pg_catalog.<>) o.owner
      -- So that there are initial rights from now on, even where PUBLIC has none.
      union select 0) a
    where not exists (select from pg_temp.outbox_older r
      where r.classid operator(pg_catalog.=) o.classid and r.objid operator(pg_catalog.=) o.objid)
    union all
    select o.kind, o.name, e.grantee, pg_catalog.string_agg(e.privilege_type, ', ')
    from objects o
    join pg_temp.outbox_older r on r.classid operator(pg_catalog.=) o.classid and r.objid operator(pg_catalog.=) o.objid
    join pg_catalog.pg_init_privs i on i.classoid operator(pg_catalog.=) o.classid and i.objoid operator(pg_catalog.=) o.objid
      and i.objsubid operator(pg_catalog.=) 0
    cross join lateral (
      select b.grantee, b.privilege_type from pg_catalog.aclexplode(i.initprivs) b
      intersect select c.grantee, c.privilege_type from pg_catalog.aclexplode(o.acl) c) e
    where e.grantee operator(pg_catalog.<>) o.owner
      and (e.grantee operator(pg_catalog.=) 0 or exists (select from pg_catalog.pg_roles m where m.oid operator(pg_catalog.=) e.grantee))
    group by 1, 2, 3
  loop
    begin
      execute pg_catalog.format('revoke %s on %s %s from %s', taken.rights, taken.kind, taken.name,
        case when taken.grantee operator(pg_catalog.=) 0 then 'public' else taken.grantee::regrole::text end);
    exception when dependent_objects_still_exist then
      raise warning using message = pg_catalog.format('%s on %s %s stay granted to %s, as others have them from there',
          taken.rights, taken.kind, taken.name, taken.grantee::regrole),
        hint = 'They came from default privileges. Take them away by hand if they are not wanted: revoke ... cascade.';
    end;
  end loop;
end
$$;
drop table pg_temp.outbox_older;

-- A GRANT or REVOKE in an extension's script makes all rights that the object has initial ones, those too that people
-- granted before: pg_dump would leave these out. So the owner's alone are initial.
do $$
declare
  object record;
begin
  for object in
    select i.classoid, i.objoid, i.objsubid, array(
        select r.item from pg_catalog.unnest(pg_catalog.acldefault(o.kind, o.owner)) r (item)
        where exists (select from pg_catalog.aclexplode(array[r.item]) a where a.grantee operator(pg_catalog.=) o.owner)) as owners
    from (
      select 'pg_catalog.pg_namespace'::regclass, n.oid, n.nspowner, 'n'::"char" from pg_catalog.pg_namespace n
        where n.oid operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select 'pg_catalog.pg_proc'::regclass, p.oid, p.proowner, 'f'::"char" from pg_catalog.pg_proc p
        where p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select 'pg_catalog.pg_class'::regclass, c.oid, c.relowner, (case c.relkind when 'S' then 's' else 'r' end)::"char" from pg_catalog.pg_class c
        where c.relnamespace operator(pg_catalog.=) 'outbox'::regnamespace) o (classid, objid, owner, kind)
    join pg_catalog.pg_init_privs i on i.classoid operator(pg_catalog.=) o.classid and i.objoid operator(pg_catalog.=) o.objid
    where exists (select from pg_catalog.aclexplode(i.initprivs) a where a.grantee operator(pg_catalog.<>) o.owner)
  loop
    if object.objsubid operator(pg_catalog.<>) 0 then -- of a column an owner has none by itself
      delete from pg_catalog.pg_init_privs i where i.classoid operator(pg_catalog.=) object.classoid
        and i.objoid operator(pg_catalog.=) object.objoid and i.objsubid operator(pg_catalog.=) object.objsubid;
    else
      update pg_catalog.pg_init_privs i set initprivs = object.owners where i.classoid operator(pg_catalog.=) object.classoid
        and i.objoid operator(pg_catalog.=) object.objoid and i.objsubid operator(pg_catalog.=) object.objsubid;
    end if;
  end loop;
  -- From PostgreSQL 17 on the roles in initial rights are noted.
  delete from pg_catalog.pg_shdepend d
    where d.dbid operator(pg_catalog.=) (select b.oid from pg_catalog.pg_database b where b.datname operator(pg_catalog.=) pg_catalog.current_database())
      and d.deptype operator(pg_catalog.=) 'i' and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_authid'::regclass
      and not exists (select from pg_catalog.pg_init_privs i cross join lateral pg_catalog.aclexplode(i.initprivs) a
        where i.classoid operator(pg_catalog.=) d.classid and i.objoid operator(pg_catalog.=) d.objid
          and i.objsubid operator(pg_catalog.=) d.objsubid
          and (a.grantee operator(pg_catalog.=) d.refobjid or a.grantor operator(pg_catalog.=) d.refobjid))
      and exists (select from pg_catalog.pg_depend m join pg_catalog.pg_extension x on x.oid operator(pg_catalog.=) m.refobjid
          and x.extname operator(pg_catalog.=) 'outbox'
        where m.classid operator(pg_catalog.=) d.classid and m.objid operator(pg_catalog.=) d.objid
          and m.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::regclass and m.deptype operator(pg_catalog.=) 'e');
end
$$;

-- A column of a table's row type, in a user's table, would block every later change. These types never
-- have default privileges, only PUBLIC can use them. Dumps take no rights of theirs, and pg_dump warns of each one that has
-- initial rights: so they have none, and a right that PUBLIC has is taken away whenever it was granted.
do $$
declare
  row_type record;
begin
  for row_type in
    select t.oid, t.typname as name from pg_catalog.pg_type t join pg_catalog.pg_class c on c.reltype operator(pg_catalog.=) t.oid
    where t.typnamespace operator(pg_catalog.=) 'outbox'::regnamespace and c.relkind operator(pg_catalog.<>) 'c' and exists (
      select from pg_catalog.aclexplode(coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))) a
      where a.grantee operator(pg_catalog.=) 0)
    order by t.oid
  loop
    execute pg_catalog.format('revoke all on type outbox.%I from public', row_type.name);
    delete from pg_catalog.pg_init_privs i
      where i.classoid operator(pg_catalog.=) 'pg_catalog.pg_type'::regclass and i.objoid operator(pg_catalog.=) row_type.oid;
    -- From PostgreSQL 17 on the roles in initial rights are noted.
    delete from pg_catalog.pg_shdepend d
      where d.dbid operator(pg_catalog.=) (select b.oid from pg_catalog.pg_database b where b.datname operator(pg_catalog.=) pg_catalog.current_database())
        and d.classid operator(pg_catalog.=) 'pg_catalog.pg_type'::regclass and d.objid operator(pg_catalog.=) row_type.oid and d.deptype operator(pg_catalog.=) 'i';
  end loop;
end
$$;
