-- Upgrades run this file too.

create or replace view outbox.event_status as
select
  e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.payload_bytes, e.headers,
  e.partition_key, e.schema_version, e.created_at, e.seq,
  case when d.state operator(pg_catalog.=) 'FAILED' or d.state operator(pg_catalog.=) 'DISCARDED' then d.state
       when d.seq is not null then 'NEW'
       when v.missed then 'MISSED'
       when not v.passed then 'NEW'
       else 'PUBLISHED' end as status,
  -- What the relay tries in vain while Kafka cannot be reached is the head of the line.
  case when d.seq is not null then d.attempts
       when v.missed then 0
       when v.passed then 1
       when v.head then r.consecutive_failures
       else 0 end as attempts,
  case when d.seq is not null then d.next_attempt_at
       when v.head then r.next_attempt_at end as next_attempt_at,
  case when v.passed and not v.missed and d.seq is null and e.xid operator(pg_catalog.>) 0 then
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
  and d.subscription operator(pg_catalog.=) 'default'
cross join outbox.relay_state() r
cross join lateral (
  select coalesce(outbox.visible_in(e.xid, p.from_snapshot)
                  or (e.seq operator(pg_catalog.<=) p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)), false)
) as w (passed)
left join lateral (
  select o.takes from outbox.subscription_history o
  where o.subscription operator(pg_catalog.=) 'default' and not outbox.visible_in(e.xid, o.since)
  order by o.number desc limit 1) h on true
cross join lateral (
  select w.passed, not coalesce(h.takes, true) and e.xid operator(pg_catalog.>) 0 as missed,
    not w.passed and coalesce(h.takes, true) and r.consecutive_failures operator(pg_catalog.>) 0
                   and e.created_at operator(pg_catalog.<=) r.last_error_at
) as v (passed, missed, head);
comment on view outbox.event_status is
  'Every event with its delivery status: NEW, PUBLISHED, FAILED or DISCARDED, or MISSED when `default` was detached; attempts, next_attempt_at, published_at, last_error.';
