-- What became of each event in each subscription.

create view outbox.delivery_status with (security_barrier) as
select
  e.id as event_id, s.name as subscription,
  case when d.state is not null then d.state
       when e.xid operator(pg_catalog.<) 0 then 'NEW'
       -- It takes all unless somebody has detached it.
       when s.name operator(pg_catalog.=) 'default' and h.takes is null then case when v.passed then 'PUBLISHED' else 'NEW' end
       when h.takes is null or not h.matches then 'NOT_TAKEN'
       -- While it is detached its position says what it had sent before; that of `default` goes on. What it missed when it was
       -- detached before, it has passed.
       when not h.takes and not (v.passed and s.detached_at is not null and h.holds_now) then 'MISSED'
       when v.passed then 'PUBLISHED'
       else 'NEW' end as status,
  d.attempts, d.next_attempt_at, d.failed_at, d.last_error
from outbox.events e
cross join (
  select 'default'::text collate "C" as name, null::timestamptz as detached_at
  union all select o.name, o.detached_at from outbox.subscriptions o) s
-- A restored event may have the number of another one.
left join outbox.deliveries d on d.seq operator(pg_catalog.=) e.seq and d.event_id operator(pg_catalog.=) e.id
  and d.subscription operator(pg_catalog.=) s.name
left join outbox.relay_position p on p.subscription operator(pg_catalog.=) s.name
  and p.system_identifier operator(pg_catalog.=) outbox.system_identifier()
  and p.database_oid operator(pg_catalog.=) (
    select b.oid from pg_catalog.pg_database b where b.datname operator(pg_catalog.=) pg_catalog.current_database())
  and p.xmin operator(pg_catalog.=) p.written_by::xid
cross join lateral (
  select coalesce(outbox.visible_in(e.xid, p.from_snapshot)
                  or (e.seq operator(pg_catalog.<=) p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)), false)
) as v (passed)
left join lateral (
  select o.takes, outbox.matches_types(e.aggregate_type, o.aggregate_types)
                  and outbox.matches_types(e.event_type, o.event_types) as matches,
    not exists (select from outbox.subscription_history l
      where l.subscription operator(pg_catalog.=) o.subscription and l.number operator(pg_catalog.>) o.number) as holds_now
  from outbox.subscription_history o
  where o.subscription operator(pg_catalog.=) s.name and not outbox.visible_in(e.xid, o.since)
  order by o.number desc limit 1) h on true;
comment on view outbox.delivery_status is
  'Every event in every subscription: NEW, RETRYING, WAITING, FAILED, DISCARDED, PUBLISHED; NOT_TAKEN: of another type or from before it began; MISSED: it was detached then. See outbox.event_deliveries().';

create function outbox.event_deliveries(
  event_id uuid,
  out subscription text,
  out status text,
  out attempts int,
  out next_attempt_at timestamptz,
  out failed_at timestamptz,
  out last_error text)
returns setof record
language sql stable parallel restricted
set search_path = pg_catalog, pg_temp
as $$
  select s.subscription, s.status, s.attempts, s.next_attempt_at, s.failed_at, s.last_error
  from outbox.delivery_status s where s.event_id = event_deliveries.event_id
  order by s.subscription <> 'default', s.subscription
$$;
comment on function outbox.event_deliveries(uuid) is
  'What became of an event in each subscription, `default` first; see outbox.delivery_status. No rows: there is no such event, or it was removed.';
