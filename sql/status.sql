-- What the relay is doing, and what became of events.

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

create view outbox.relay_status as
select
  r.state,
  r.pid,
  r.backlog_events,
  r.oldest_event_at,
  pg_catalog.clock_timestamp() operator(pg_catalog.-) r.oldest_event_at as backlog_age,
  r.in_flight_events,
  r.in_flight_bytes,
  coalesce((select pg_catalog.max(p.published_total) from outbox.relay_position p), 0) as published_total,
  r.last_published_at,
  (select pg_catalog.count(*) from outbox.deliveries d where d.state operator(pg_catalog.=) 'FAILED') as failed_events,
  r.consecutive_failures,
  r.next_attempt_at,
  r.last_error,
  r.last_error_at,
  r.config_error
from outbox.relay_state() r;
comment on view outbox.relay_status is
  'One row: what this database''s relay is doing, how far it is behind and what went wrong last.';

create view outbox.event_status as
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
left join outbox.deliveries d on d.seq operator(pg_catalog.=) e.seq
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

create view outbox.dead_letters as
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
