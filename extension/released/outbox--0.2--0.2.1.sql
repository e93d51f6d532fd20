-- outbox: from 0.2 to 0.2.1. A line "-- include x" stands for sql/x.sql; see "Change the schema" in CONTRIBUTING.md.
\echo Use "ALTER EXTENSION outbox UPDATE" to load this file. \quit


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
-- What there is before a script makes more; sql/closed.sql needs it, and removes it.
create temp table outbox_older as
select d.classid, d.objid
from pg_catalog.pg_depend d join pg_catalog.pg_extension x on x.oid operator(pg_catalog.=) d.refobjid
where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::regclass and d.deptype operator(pg_catalog.=) 'e'
  and x.extname operator(pg_catalog.=) 'outbox';

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
comment on column outbox.deliveries.emitted_at is 'When the event was emitted: its created_at, but not later than when it was set aside. Null in rows of before 0.2.1.';
create index relay_position_database on outbox.relay_position (database_oid);
create index deliveries_keys on outbox.deliveries (pg_catalog.hashtextextended(partition_key, 0), seq) where state <> 'DISCARDED';
alter table outbox.relay_position add rows_counted boolean;
comment on column outbox.relay_position.rows_counted is 'True: a dump with this row has outbox.dump_rows, which shows whether it was restored as a whole. False: what was restored with it is settled.';
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

-- Functions only, each "create or replace": what operators call, and what roles may be granted.
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

-- Last: the relay, which waited for this version, continues when the update commits.
select outbox.request_relay();
