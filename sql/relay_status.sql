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
    where p.database_oid operator(pg_catalog.>) 0 and p.subscription operator(pg_catalog.=) 'default'), 0) as published_total,
  r.last_published_at,
  (select pg_catalog.count(*) from outbox.deliveries d where d.subscription operator(pg_catalog.=) 'default'
    and d.state operator(pg_catalog.=) 'FAILED') as failed_events,
  r.consecutive_failures,
  r.next_attempt_at,
  r.last_error,
  r.last_error_at,
  r.config_error,
  -- There may be millions, as after a day with a topic that is missing.
  (select pg_catalog.count(*)
    from (select from outbox.deliveries d where d.subscription operator(pg_catalog.=) 'default'
    and d.state operator(pg_catalog.=) 'RETRYING' limit 100000) t)
    as retrying_events,
  (select pg_catalog.count(*)
    from (select from outbox.deliveries d where d.subscription operator(pg_catalog.=) 'default'
    and d.state operator(pg_catalog.=) 'WAITING' limit 100000) w)
    as waiting_events,
  (select pg_catalog.min(o.emitted_at)
    from (select d.emitted_at from outbox.deliveries d where d.subscription operator(pg_catalog.=) 'default'
    and d.state operator(pg_catalog.=) 'WAITING' limit 100000) o)
    as oldest_waiting_at
from outbox.relay_state() r;
comment on view outbox.relay_status is
  'One row: what this database''s relay is doing, how far it is behind and what went wrong last.';
comment on column outbox.relay_status.failed_events is 'Events that are FAILED in outbox.deliveries: they wait for outbox.retry() or outbox.discard().';
comment on column outbox.relay_status.retrying_events is 'Events that are RETRYING in outbox.deliveries: refused, and tried again by themselves; counted up to 100000.';
comment on column outbox.relay_status.waiting_events is 'Events that are WAITING in outbox.deliveries, behind others that are RETRYING, FAILED or being found out; counted up to 100000.';
comment on column outbox.relay_status.oldest_waiting_at is 'When the first of the waiting events was emitted; of the 100000 that are counted. Null of events that were set aside before 0.2.1.';
