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
