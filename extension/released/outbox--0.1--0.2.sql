-- outbox: from 0.1 to 0.2. A line "-- include x" stands for sql/x.sql; see "Change the schema" in CONTRIBUTING.md.
\echo Use "ALTER EXTENSION outbox UPDATE" to load this file. \quit


-- An older library lacks functions that this script names, and must not work on tables that it does not know.
do $$
begin
  if pg_catalog.string_to_array(outbox.version(), '.')::int[] operator(pg_catalog.<)
     pg_catalog.string_to_array('0.2', '.')::int[] then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = pg_catalog.format('the outbox library in use is version %s, older than 0.2', outbox.version()),
      hint = 'Restart PostgreSQL so that it loads the library of the installed package, then try again.';
  end if;
end
$$;

-- What changes in objects that 0.1 has.

-- Objects that are new, in the order of SQL_PARTS in the Makefile.
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
  'Trigger: checks what is written into outbox.routes and tells the relay and all sessions when it commits.';

create trigger before_change before insert or update or delete on outbox.routes
  for each row execute function outbox.on_route_change();
create trigger after_change after insert or update or truncate on outbox.routes
  for each statement execute function outbox.on_route_change();
-- Also in sessions with session_replication_role = replica: nobody would hear of the change.
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
comment on column outbox.replay_requests.missing is 'So many were not there any more.';
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
create function outbox.replayable_events(
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
    and not exists (select from outbox.deliveries d where d.seq operator(pg_catalog.=) e.seq)
$$;
comment on function outbox.replayable_events(text, text, text, timestamptz, timestamptz) is
  'For outbox.replay(): the published events that match; null stands for all. Neither refused nor discarded ones, nor those that wait.';

create function outbox.replay(
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
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  database constant oid := (select d.oid from pg_database d where d.datname = current_database());
  matched bigint;
begin
  if replay.dry_run is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'dry_run must not be null',
      hint = 'true counts the events, false replays them.';
  elsif replay.max_count is null or replay.max_count not between 1 and 1000000 then
    raise exception using errcode = 'invalid_parameter_value', message = 'max_count must be 1 to 1000000',
      hint = 'What is left out can be replayed after that, with since.';
  elsif replay.rate_per_second is null or replay.rate_per_second not between 1 and 10000 then
    raise exception using errcode = 'invalid_parameter_value', message = 'rate_per_second must be 1 to 10000';
  elsif replay.since >= replay.until then
    raise exception using errcode = 'invalid_parameter_value', message = 'since must be before until',
      detail = format('since is %s, until is %s.', replay.since, replay.until);
  end if;
  perform outbox.check_topic_name(replay.topic);
  replay_id := outbox.uuid_v7();
  if replay.dry_run then
    select count(*) into matched
      from outbox.replayable_events(replay.aggregate_type, replay.event_type, replay.aggregate_id, replay.since, replay.until);
  else
    -- One asks after the other, which the relay does not notice.
    lock table outbox.replay_requests in share update exclusive mode;
    if (select count(*) from outbox.replay_requests r where r.state in ('QUEUED', 'RUNNING')) >= 16 then
      raise exception using errcode = 'configuration_limit_exceeded', message = '16 replays wait or run already',
        hint = 'Wait for one to end, or cancel one with outbox.cancel_replay(); see outbox.replays.';
    end if;
    -- Whoever reads outbox.events keeps the relay from emptying a partition up to the end of the transaction,
    -- and from then on the rows made here do.
    with chosen as (
      select o.seq, o.xid, o.slot, row_number() over (order by o.seq, o.xid) - 1 as n
      from (select t.seq, t.xid, t.slot
            from outbox.replayable_events(replay.aggregate_type, replay.event_type, replay.aggregate_id, replay.since, replay.until) t
            order by t.seq, t.xid limit replay.max_count + 1) o),
    listed as (
      insert into outbox.replay_events (replay_id, chunk, held_slots, seqs, xids, slots)
      select replay.replay_id, c.n / 1000, array_agg(distinct c.slot), array_agg(c.seq order by c.n),
        array_agg(c.xid order by c.n), array_agg(c.slot order by c.n)
      from chosen c where c.n < replay.max_count group by c.n / 1000)
    select count(*) into matched from chosen;
  end if;
  insert into outbox.replay_requests (id, state, aggregate_type, event_type, aggregate_id, since, until, max_count,
      rate_per_second, topic, matching, total, ended_at, database_oid)
    values (replay.replay_id, case when replay.dry_run then 'DRY_RUN' when matched = 0 then 'DONE' else 'QUEUED' end,
      replay.aggregate_type, replay.event_type, replay.aggregate_id, replay.since, replay.until, replay.max_count,
      replay.rate_per_second, replay.topic, case when replay.dry_run or matched <= replay.max_count then matched end,
      least(matched, replay.max_count), case when replay.dry_run or matched = 0 then clock_timestamp() end, database);
  delete from outbox.replay_requests r where r.id in (
    select o.id from outbox.replay_requests o where o.state not in ('QUEUED', 'RUNNING')
    order by o.requested_at desc offset 1000);
  if replay.dry_run then
    raise notice using message = format('%s of %s matching events would be replayed', least(matched, replay.max_count), matched),
      hint = 'Say dry_run => false to replay them.';
  else
    perform outbox.notify_relay();
  end if;
end
$$;
comment on function outbox.replay(text, text, text, timestamptz, timestamptz, int, int, boolean, text) is
  'Publishes events again that were published and are still kept: those that match (null: all), the oldest first, at most max_count, at most rate_per_second, with their ids and the header replay_id. With dry_run, the default, it only counts them. Returns the id of a row of outbox.replays; the relay begins when the transaction has committed.';

create function outbox.cancel_replay(replay_id uuid)
returns boolean
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  current_state text;
begin
  if cancel_replay.replay_id is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'replay_id must not be null',
      hint = 'The view outbox.replays shows the ids.';
  end if;
  select r.state into current_state from outbox.replay_requests r where r.id = cancel_replay.replay_id for update;
  if not found then
    raise exception using errcode = 'undefined_object',
      message = format('there is no replay with id %s', cancel_replay.replay_id),
      hint = 'The view outbox.replays shows the ids.';
  elsif current_state not in ('QUEUED', 'RUNNING') then
    return false;
  end if;
  update outbox.replay_requests r set state = 'CANCELLED', ended_at = clock_timestamp(), cancelled_by = session_user
    where r.id = cancel_replay.replay_id;
  delete from outbox.replay_events e where e.replay_id = cancel_replay.replay_id;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.cancel_replay(uuid) is
  'Ends a replay that waits or runs, when the transaction commits; what is on its way to Kafka by then may still arrive. False when it had ended before.';

-- Functions only, each "create or replace": what roles may be granted.

-- Roles get what they need by explicit grants. Upgrades run this file too: "or replace" everywhere.

-- The groups of rights, disjoint but for the schema and outbox.version().
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

-- With the caller's rights: whoever may not grant, grants nothing.
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

-- Start closed: nothing for PUBLIC. Only what this script has made is changed, because PostgreSQL takes the rights
-- that an extension's script leaves on an object for the initial ones, which pg_dump does not write: an upgrade
-- that went over older objects too would keep what people were granted on them out of every later dump.
do $$
declare
  object text;
begin
  for object in
    select pg_catalog.format('function %s', p.oid::regprocedure)
    from pg_catalog.pg_proc p
    left join pg_catalog.pg_init_privs i
      on i.objoid operator(pg_catalog.=) p.oid and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::regclass
    where p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
      and exists (
        select from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
        where a.grantee operator(pg_catalog.=) 0)
      -- Older, and given to PUBLIC by somebody since: theirs to decide.
      and (i.objoid is null or exists (
        select from pg_catalog.aclexplode(i.initprivs) a where a.grantee operator(pg_catalog.=) 0))
    union all
    select pg_catalog.format('table %s', c.oid::regclass)
    from pg_catalog.pg_class c
    where c.relnamespace operator(pg_catalog.=) 'outbox'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
      and not exists (
        select from pg_catalog.pg_init_privs i
        where i.objoid operator(pg_catalog.=) c.oid and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_class'::regclass
          and i.objsubid operator(pg_catalog.=) 0)
  loop
    execute pg_catalog.format('revoke all on %s from public', object);
  end loop;
end
$$;

-- Last: the relay, which waited for this version, goes on when the update commits.
select outbox.request_relay();
