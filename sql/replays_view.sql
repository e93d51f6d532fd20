-- Upgrades run this file too.

create or replace view outbox.replays as
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
  r.requested_by, r.requested_at, r.started_at, r.ended_at, r.cancelled_by,
  r.subscription
from outbox.replay_requests r;
comment on view outbox.replays is
  'Every replay and dry run: state, how many events are through and how long the others take at the rate asked for, what went wrong, who asked for what and when.';
