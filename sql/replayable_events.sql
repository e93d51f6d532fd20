-- Without settings of its own, so that it becomes a part of the query that asks it; everything is qualified. What a
-- subscription had passed when it began counts as published.
create or replace function outbox.replayable_events(
  aggregate_type text, event_type text, aggregate_id text, since timestamptz, until timestamptz, subscription text)
returns table (seq bigint, xid bigint, slot smallint)
language sql stable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
  select e.seq, e.xid, e.slot
  from outbox.events e
  left join outbox.current_positions p on p.subscription operator(pg_catalog.=) $6
  left join outbox.subscriptions s on s.name operator(pg_catalog.=) $6
  where ($1 is null or e.aggregate_type operator(pg_catalog.=) $1)
    and ($2 is null or e.event_type operator(pg_catalog.=) $2)
    and ($3 is null or e.aggregate_id operator(pg_catalog.=) $3)
    and ($4 is null or e.created_at operator(pg_catalog.>=) $4)
    and ($5 is null or e.created_at operator(pg_catalog.<) $5)
    and outbox.matches_types(e.aggregate_type, s.aggregate_types)
    and outbox.matches_types(e.event_type, s.event_types)
    and case when e.xid operator(pg_catalog.<=) 0 then e.xid operator(pg_catalog.=) 0
             else outbox.visible_in(e.xid, p.from_snapshot)
                  or (e.seq operator(pg_catalog.<=) p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)) end
    and not exists (select from outbox.deliveries d where d.seq operator(pg_catalog.=) e.seq
      and d.event_id operator(pg_catalog.=) e.id and d.subscription operator(pg_catalog.=) $6)
$$;
comment on function outbox.replayable_events(text, text, text, timestamptz, timestamptz, text) is
  'For outbox.replay(): the events that the subscription has published and that match; null stands for all. Neither refused nor discarded ones, nor those that wait.';
