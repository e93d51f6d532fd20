-- Subscriptions besides `default`, which every database has: each has a position of its own in outbox.events, and a relay.

create table outbox.subscriptions (
  name text collate "C" not null,
  sink text collate "C" not null,
  options jsonb not null,
  aggregate_types text[],
  event_types text[],
  created_at timestamptz not null default pg_catalog.clock_timestamp(),
  created_by name not null default session_user,
  attached_at timestamptz not null default pg_catalog.clock_timestamp(),
  detached_at timestamptz,
  missed_events bigint not null default 0,
  detached_by name,
  constraint subscriptions_pkey primary key (name),
  constraint subscriptions_name_check check (name ~ '^[a-z_][a-z0-9_]{0,62}$' and name <> 'default')
);
comment on table outbox.subscriptions is
  'Subscriptions besides the one that every database has. Changed by outbox.create_subscription() and the functions beside it only, and by nobody but superusers. Not part of a dump.';
comment on column outbox.subscriptions.name is 'Lower-case letters, digits and underscores.';
comment on column outbox.subscriptions.sink is 'Where events are sent: one of outbox.sinks().';
comment on column outbox.subscriptions.options is 'Settings of outbox that hold for it, by their names without the prefix, and options of the sink.';
comment on column outbox.subscriptions.aggregate_types is 'Only events of these; null: of all. An end of * stands for whatever follows.';
comment on column outbox.subscriptions.event_types is 'The same.';
comment on column outbox.subscriptions.created_at is 'When it was created.';
comment on column outbox.subscriptions.created_by is 'By whom.';
comment on column outbox.subscriptions.attached_at is 'Since when it takes events: when it was created, or attached last.';
comment on column outbox.subscriptions.detached_at is 'When it was detached; null: it is attached.';
comment on column outbox.subscriptions.missed_events is 'Events of its types that were removed before it had sent them, since it was detached last, or that it left out when it was attached at now.';
comment on column outbox.subscriptions.detached_by is 'Who called outbox.detach_subscription(); null: the relay let go of it, as it had held events back for longer than max_lag.';

-- Options say where events go, with which file's password. Who is granted a right on the table must not get at those.
create function outbox.before_subscription_change()
returns trigger
language c
as 'MODULE_PATHNAME', 'outbox_before_subscription_change';
comment on function outbox.before_subscription_change() is
  'Trigger: only superusers change outbox.subscriptions, whatever others were granted.';
create trigger before_change before insert or update or delete or truncate on outbox.subscriptions
  for each statement execute function outbox.before_subscription_change();
alter table outbox.subscriptions enable always trigger before_change;

-- Which events it takes: those of a transaction belong to the last row whose snapshot does not see it. So each event has one
-- filter, the one of its commit, whenever it is read.
create table outbox.subscription_history (
  subscription text collate "C" not null,
  number int not null,
  since pg_snapshot not null,
  takes boolean not null,
  aggregate_types text[],
  event_types text[],
  changed_at timestamptz not null default pg_catalog.clock_timestamp(),
  changed_by name not null default session_user,
  constraint subscription_history_pkey primary key (subscription, number)
);
comment on table outbox.subscription_history is
  'What subscriptions take of the events that are kept, by when these were committed. Written by the functions that create, change, attach and detach them, and when the relay detaches one. Of `default` there are rows only once it was detached. Not part of a dump.';
comment on column outbox.subscription_history.subscription is 'Name in outbox.subscriptions, or `default`.';
comment on column outbox.subscription_history.number is 'From 1 on, in the order of time.';
comment on column outbox.subscription_history.since is 'The row holds for transactions that this snapshot does not see, up to those of the next row.';
comment on column outbox.subscription_history.takes is 'False: none of them, as it was detached.';
comment on column outbox.subscription_history.aggregate_types is 'As in outbox.subscriptions.';
comment on column outbox.subscription_history.event_types is 'The same.';
comment on column outbox.subscription_history.changed_at is 'When the row was written.';
comment on column outbox.subscription_history.changed_by is 'By whom.';
create trigger before_change before insert or update or delete or truncate on outbox.subscription_history
  for each statement execute function outbox.before_subscription_change();
alter table outbox.subscription_history enable always trigger before_change;

create function outbox.is_detached(subscription text)
returns boolean
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select case when $1 = 'default' then coalesce((select not h.takes from outbox.subscription_history h
      where h.subscription = $1 order by h.number desc limit 1), false)
    else exists (select from outbox.subscriptions s where s.name = $1 and s.detached_at is not null) end
$$;
comment on function outbox.is_detached(text) is
  'For functions that name a subscription: whether it takes nothing, as it is detached.';

create function outbox.matches_types(type text, types text[])
returns boolean
language c immutable parallel safe
as 'MODULE_PATHNAME', 'outbox_matches_types';
comment on function outbox.matches_types(text, text[]) is
  'Whether a list of a subscription has the type, or what it begins with and an asterisk. Null: all types.';

-- Transactions that call an operator's function hold them as they are; those that create, change or drop one wait for these.
create function outbox.hold_subscriptions(exclusively boolean)
returns void
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_hold_subscriptions';
comment on function outbox.hold_subscriptions(boolean) is
  'For functions that name a subscription: a lock to the end of the transaction, taken before all others, so that they do not wait for each other.';

create function outbox.sinks(out name text, out library text, out package text, out installed boolean)
returns setof record
language c volatile parallel safe
as 'MODULE_PATHNAME', 'outbox_sinks';
comment on function outbox.sinks() is
  'The sinks that a subscription can have: the library that a relay loads for it, the Debian package that brings it, and whether its file is there.';

create function outbox.check_sink(sink text)
returns void
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_check_sink';
comment on function outbox.check_sink(text) is
  'For outbox.create_subscription(): an error unless there is such a sink and its library is installed.';

create function outbox.check_subscription_options(sink text, options jsonb)
returns void
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_check_subscription_options';
comment on function outbox.check_subscription_options(text, jsonb) is
  'For outbox.create_subscription(): an error unless these are options of a subscription to this sink.';

create function outbox.end_subscription(name text)
returns boolean
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_end_subscription';
comment on function outbox.end_subscription(text) is
  'For outbox.drop_subscription() and the like: ends the relay; false when it has not ended after ten seconds.';

create function outbox.subscription_states(
  out name text,
  out state text,
  out pid int,
  out oldest_event_at timestamptz,
  out in_flight_events int,
  out in_flight_bytes bigint,
  out last_published_at timestamptz,
  out consecutive_failures int,
  out next_attempt_at timestamptz,
  out last_error text,
  out last_error_at timestamptz,
  out config_error text)
returns setof record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_subscription_states';
comment on function outbox.subscription_states() is
  'What the relays of subscriptions besides the default one are doing, from shared memory. Use the view outbox.subscription_status.';

create view outbox.subscription_status with (security_barrier) as
select s.name, s.sink, s.aggregate_types, s.event_types, case when s.detached_at is null then coalesce(r.state, 'absent') else 'detached' end as state, r.pid,
  p.published_total, r.in_flight_events, r.in_flight_bytes, r.oldest_event_at, r.last_published_at,
  (select pg_catalog.count(*) from outbox.deliveries d
    where d.subscription operator(pg_catalog.=) s.name and d.state operator(pg_catalog.=) 'FAILED') as failed_events,
  (select pg_catalog.count(*) from (select from outbox.deliveries d
    where d.subscription operator(pg_catalog.=) s.name and d.state operator(pg_catalog.=) 'RETRYING' limit 100000) t)
    as retrying_events,
  (select pg_catalog.count(*) from (select from outbox.deliveries d
    where d.subscription operator(pg_catalog.=) s.name and d.state operator(pg_catalog.=) 'WAITING' limit 100000) t)
    as waiting_events,
  r.consecutive_failures, r.next_attempt_at,
  case when s.detached_at is null and r.name is null then
      'the relay of default, which has the others started, has not asked for this one yet: see outbox.relay_status'
    when s.detached_at is null then r.last_error else pg_catalog.format(
    'detached%s; %s of its events are gone. outbox.attach_subscription(%L, %L) continues with those that are kept',
    coalesce(' by ' operator(pg_catalog.||) s.detached_by::text, ', as it held events back for longer than max_lag'), s.missed_events, s.name, 'retained') end as last_error,
  coalesce(s.detached_at, r.last_error_at) as last_error_at, r.config_error, s.created_at, s.created_by,
  s.detached_at, s.missed_events, s.detached_by
from outbox.subscriptions s
left join outbox.subscription_states() r on r.name operator(pg_catalog.=) s.name
left join lateral (
  select pg_catalog.max(o.published_total) as published_total from outbox.relay_position o
  where o.database_oid operator(pg_catalog.>) 0 and o.subscription operator(pg_catalog.=) s.name) p on true;
comment on view outbox.subscription_status is
  'One row for each subscription besides the default one: what its relay is doing and what went wrong last. outbox.relay_status has the default one.';
