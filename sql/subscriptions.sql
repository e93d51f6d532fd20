-- Subscriptions besides `default`, which every database has: each has a position of its own in outbox.events, and a relay.

create table outbox.subscriptions (
  name text collate "C" not null,
  sink text collate "C" not null,
  options jsonb not null,
  aggregate_types text[],
  event_types text[],
  created_at timestamptz not null default pg_catalog.clock_timestamp(),
  created_by name not null default session_user,
  constraint subscriptions_pkey primary key (name),
  constraint subscriptions_name_check check (name ~ '^[a-z_][a-z0-9_]{0,62}$' and name <> 'default')
);
comment on table outbox.subscriptions is
  'Subscriptions besides the one that every database has. Changed by outbox.create_subscription(), alter_subscription() and drop_subscription() only. Not part of a dump.';
comment on column outbox.subscriptions.name is 'Lower-case letters, digits and underscores.';
comment on column outbox.subscriptions.sink is 'Where events are sent: kafka.';
comment on column outbox.subscriptions.options is 'Settings of outbox that hold for it, by their names without the prefix.';
comment on column outbox.subscriptions.aggregate_types is 'Only events of these; null: of all. An end of * stands for whatever follows.';
comment on column outbox.subscriptions.event_types is 'The same.';
comment on column outbox.subscriptions.created_at is 'When it was created.';
comment on column outbox.subscriptions.created_by is 'By whom.';

create function outbox.check_subscription_options(options jsonb)
returns void
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_check_subscription_options';
comment on function outbox.check_subscription_options(jsonb) is
  'For outbox.create_subscription(): an error unless these are options of a subscription to Kafka.';

create function outbox.end_subscription(name text)
returns boolean
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_end_subscription';
comment on function outbox.end_subscription(text) is
  'For outbox.drop_subscription(): ends the relay; false when it has not ended after ten seconds.';

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
select s.name, s.sink, s.aggregate_types, s.event_types, coalesce(r.state, 'absent') as state, r.pid,
  p.published_total, r.in_flight_events, r.in_flight_bytes, r.oldest_event_at, r.last_published_at,
  (select pg_catalog.count(*) from outbox.deliveries d
    where d.subscription operator(pg_catalog.=) s.name and d.state operator(pg_catalog.=) 'FAILED') as failed_events,
  (select pg_catalog.count(*) from (select from outbox.deliveries d
    where d.subscription operator(pg_catalog.=) s.name and d.state operator(pg_catalog.=) 'RETRYING' limit 100000) t)
    as retrying_events,
  (select pg_catalog.count(*) from (select from outbox.deliveries d
    where d.subscription operator(pg_catalog.=) s.name and d.state operator(pg_catalog.=) 'WAITING' limit 100000) t)
    as waiting_events,
  r.consecutive_failures, r.next_attempt_at, r.last_error, r.last_error_at, r.config_error, s.created_at, s.created_by
from outbox.subscriptions s
left join outbox.subscription_states() r on r.name operator(pg_catalog.=) s.name
left join lateral (
  select pg_catalog.max(o.published_total) as published_total from outbox.relay_position o
  where o.database_oid operator(pg_catalog.>) 0 and o.subscription operator(pg_catalog.=) s.name) p on true;
comment on view outbox.subscription_status is
  'One row for each subscription besides the default one: what its relay is doing and what went wrong last. outbox.relay_status has the default one.';

create function outbox.create_subscription_as_owner(
  name text, sink text, options jsonb, aggregate_types text[], event_types text[], start text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  arguments constant text[] := array['name', 'sink', 'options', 'start'];
  given constant text[] := array[create_subscription_as_owner.name, sink, options::text, start];
  pattern text;
  begins pg_snapshot;
begin
  for i in 1..4 loop
    if given[i] is null then
      raise exception using errcode = 'null_value_not_allowed', message = format('%s must not be null', arguments[i]);
    end if;
  end loop;
  if create_subscription_as_owner.name !~ '^[a-z_][a-z0-9_]{0,62}$' or create_subscription_as_owner.name = 'default' then
    raise exception using errcode = 'invalid_name',
      message = format('"%s" cannot be the name of a subscription', create_subscription_as_owner.name),
      detail = 'A name has 1 to 63 lower-case letters, digits and underscores and begins with no digit; "default" is the one that every database has.';
  end if;
  if sink <> 'kafka' then
    raise exception using errcode = 'invalid_parameter_value', message = format('there is no sink "%s"', sink),
      hint = 'The sink is kafka.';
  end if;
  if start not in ('now', 'retained') then
    raise exception using errcode = 'invalid_parameter_value', message = format('start must be now or retained, not "%s"', start);
  end if;
  foreach pattern in array coalesce(aggregate_types, '{}') || coalesce(event_types, '{}') loop
    if pattern is null or pattern = '' or strpos(rtrim(pattern, '*'), '*') > 0 or pattern like '%**' then
      raise exception using errcode = 'invalid_parameter_value',
        message = format('"%s" matches no type of events', pattern),
        hint = 'A type is given as it is, or what it begins with and one * at the end.';
    end if;
  end loop;
  if cardinality(aggregate_types) = 0 or cardinality(event_types) = 0 then
    raise exception using errcode = 'invalid_parameter_value', message = 'an empty list of types matches no events',
      hint = 'Leave the list out for events of all types.';
  end if;
  perform outbox.check_subscription_options(options);
  -- One creation after the other, and none while partitions are emptied: what begins here stays up to the commit.
  lock table outbox.subscriptions in share row exclusive mode;
  lock table outbox.ring in share mode;
  if exists (select from outbox.subscriptions s where s.name = create_subscription_as_owner.name) then
    raise exception using errcode = 'duplicate_object',
      message = format('subscription "%s" exists already', create_subscription_as_owner.name);
  elsif (select count(*) from outbox.subscriptions) >= 16 then
    raise exception using errcode = 'configuration_limit_exceeded', message = 'a database can have 16 subscriptions besides the default one';
  end if;
  insert into outbox.subscriptions (name, sink, options, aggregate_types, event_types)
    values (create_subscription_as_owner.name, sink, options, aggregate_types, event_types);
  begins := case start when 'now' then pg_current_snapshot() else '3:3:' end;
  insert into outbox.relay_position (system_identifier, database_oid, timeline, data_directory, written_by, from_snapshot, to_snapshot,
      last_seq, published_total, updated_at, rows_counted, subscription)
    values (outbox.system_identifier(), (select d.oid from pg_database d where d.datname = current_database()), outbox.timeline(),
      outbox.data_directory(), pg_current_xact_id(), begins, begins, 0, 0, clock_timestamp(), true, create_subscription_as_owner.name);
  -- In a subtransaction the row has an xmin of its own.
  update outbox.relay_position p set written_by = p.xmin::text::xid8
    where p.subscription = create_subscription_as_owner.name and p.xmin <> p.written_by::xid;
  perform outbox.notify_relay();
end
$$;
comment on function outbox.create_subscription_as_owner(text, text, jsonb, text[], text[], text) is
  'The body of outbox.create_subscription().';

create function outbox.create_subscription(
  name text, sink text, options jsonb, aggregate_types text[] default null, event_types text[] default null,
  start text default 'now')
returns void
language c volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_superuser';
comment on function outbox.create_subscription(text, text, jsonb, text[], text[], text) is
  'Sends events to one more place, by a relay of its own: sink kafka, options as settings by their names without the prefix, bootstrap_servers among them. Only events of these types; null: of all. start now: what commits after the call; retained: everything that is kept. Superusers only.';

create function outbox.alter_subscription_as_owner(name text, options jsonb)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if alter_subscription_as_owner.name is null or options is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'name and options must not be null';
  end if;
  perform outbox.check_subscription_options(options);
  update outbox.subscriptions s set options = alter_subscription_as_owner.options where s.name = alter_subscription_as_owner.name;
  if not found then
    raise exception using errcode = 'undefined_object',
      message = format('there is no subscription "%s"', alter_subscription_as_owner.name),
      hint = 'The view outbox.subscription_status shows which there are.';
  end if;
  perform outbox.notify_relay();
end
$$;
comment on function outbox.alter_subscription_as_owner(text, jsonb) is
  'The body of outbox.alter_subscription().';

create function outbox.alter_subscription(name text, options jsonb)
returns void
language c volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_superuser';
comment on function outbox.alter_subscription(text, jsonb) is
  'Gives a subscription other options, all of them; its relay starts anew when the transaction commits, and continues from its position. Superusers only.';

create function outbox.drop_subscription_as_owner(name text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('drop_subscription() cannot run in a transaction with isolation level %s', current_setting('transaction_isolation')),
      detail = 'What others have committed since the transaction began would stay behind.',
      hint = 'Use read committed.';
  end if;
  perform from outbox.subscriptions s where s.name = drop_subscription_as_owner.name for update;
  if not found then
    raise exception using errcode = 'undefined_object',
      message = format('there is no subscription "%s"', coalesce(drop_subscription_as_owner.name, 'null')),
      hint = 'The view outbox.subscription_status shows which there are.';
  end if;
  -- None starts while its row is locked.
  if not outbox.end_subscription(drop_subscription_as_owner.name) then
    raise exception using errcode = 'object_in_use',
      message = format('the relay of subscription "%s" has not ended', drop_subscription_as_owner.name),
      hint = 'It is ending; try again.';
  end if;
  delete from outbox.deliveries d where d.subscription = drop_subscription_as_owner.name;
  delete from outbox.replay_events e using outbox.replay_requests r
    where r.subscription = drop_subscription_as_owner.name and e.replay_id = r.id;
  delete from outbox.replay_requests r where r.subscription = drop_subscription_as_owner.name;
  delete from outbox.pauses p where p.subscription = drop_subscription_as_owner.name;
  delete from outbox.relay_position p where p.subscription = drop_subscription_as_owner.name;
  delete from outbox.subscriptions s where s.name = drop_subscription_as_owner.name;
  perform outbox.notify_relay();
end
$$;
comment on function outbox.drop_subscription_as_owner(text) is
  'The body of outbox.drop_subscription().';

create function outbox.drop_subscription(name text)
returns void
language c volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_superuser';
comment on function outbox.drop_subscription(text) is
  'Ends a subscription with its position, what it has set aside, its replays, and its pause. What is on its way may still arrive. Superusers only.';
