-- Upgrades run this file too.

-- A barrier: a condition of the reader's must not be evaluated first and see other events' payloads.
create or replace view outbox.dead_letters with (security_barrier) as
select
  d.event_id, e.aggregate_type, e.aggregate_id, e.event_type, d.topic, d.partition_key, d.attempts, d.last_error,
  d.failed_at,
  (select pg_catalog.count(*) from outbox.deliveries w
    where w.subscription operator(pg_catalog.=) d.subscription and w.lane operator(pg_catalog.=) d.lane
      and w.state operator(pg_catalog.=) 'WAITING') as waiting_behind,
  e.created_at, e.payload, e.payload_bytes, e.headers, d.seq,
  d.subscription
from outbox.deliveries d
left join outbox.events e
  on e.xid operator(pg_catalog.=) d.xid and e.seq operator(pg_catalog.=) d.seq and e.slot operator(pg_catalog.=) d.slot
where d.state operator(pg_catalog.=) 'FAILED';
comment on view outbox.dead_letters is
  'Events that Kafka refused outbox.max_attempts times, and how many wait behind each. Settle them with outbox.retry() or outbox.discard().';
