-- What superusers call to create, change and drop subscriptions.

create function outbox.begin_subscription_change()
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  -- With a snapshot of the transaction's beginning they would miss what relays have written since.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = 'feature_not_supported',
      message = format('subscriptions cannot be changed in a %s transaction', current_setting('transaction_isolation')),
      hint = 'Call the function in a READ COMMITTED transaction.';
  end if;
  perform outbox.hold_subscriptions(true);
end
$$;
comment on function outbox.begin_subscription_change() is
  'For outbox.create_subscription() and the like: no other change of a subscription, and no operator''s call, is under way.';

-- pg_current_snapshot() leaves the own transaction out, as if it had ended, once later ones have.
create function outbox.beginning()
returns pg_snapshot
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  me constant xid8 := pg_current_xact_id();
  seen pg_snapshot;
begin
  seen := pg_current_snapshot();
  if pg_visible_in_snapshot(me, seen) then
    seen := format('%s:%s:%s', least(pg_snapshot_xmin(seen), me), pg_snapshot_xmax(seen),
      (select string_agg(r.x::text, ',' order by r.x)
       from (select x from pg_snapshot_xip(seen) x union select me) r (x)));
  end if;
  return seen;
end
$$;
comment on function outbox.beginning() is
  'Where a subscription begins that takes what commits from now on, the own transaction included.';

create function outbox.check_subscription_types(aggregate_types text[], event_types text[])
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  pattern text;
begin
  foreach pattern in array coalesce(aggregate_types, '{}') || coalesce(event_types, '{}') loop
    if pattern is null or pattern = '' or strpos(rtrim(pattern, '*'), '*') > 0 or pattern like '%**' then
      raise exception using errcode = 'invalid_parameter_value',
        message = format('"%s" matches no type of events', pattern),
        hint = 'A type is given as it is, or what it begins with and one * at the end.';
    end if;
  end loop;
  if cardinality(aggregate_types) = 0 or cardinality(event_types) = 0 then
    raise exception using errcode = 'invalid_parameter_value', message = 'an empty list of types matches no events',
      hint = 'Give null for events of all types.';
  elsif cardinality(aggregate_types) > 1000 or cardinality(event_types) > 1000 then
    raise exception using errcode = 'program_limit_exceeded', message = 'a list of types has at most 1000 entries';
  end if;
end
$$;
comment on function outbox.check_subscription_types(text[], text[]) is
  'For outbox.create_subscription(): an error unless the lists can match events.';

create function outbox.write_subscription_history(name text, since pg_snapshot, takes boolean)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  rows constant bigint := (select count(*) from outbox.subscription_history h where h.subscription = write_subscription_history.name);
begin
  -- Those of which no event is kept say nothing any more.
  if rows > 1 then
    delete from outbox.subscription_history h using outbox.subscription_history later
      where h.subscription = write_subscription_history.name and later.subscription = h.subscription and later.number = h.number + 1
        and not exists (select from outbox.events e
          where e.xid > 0 and e.xid < pg_snapshot_xmax(later.since)::text::bigint and outbox.visible_in(e.xid, later.since));
  end if;
  if rows >= 100 and (select count(*) from outbox.subscription_history h where h.subscription = write_subscription_history.name) >= 100 then
    raise exception using errcode = 'configuration_limit_exceeded',
      message = format('subscription "%s" has changed 100 times within the events that are kept', write_subscription_history.name),
      hint = 'Change it when the older ones of them are removed'
        || case when write_subscription_history.name = 'default' then '.' else ', or create another one.' end;
  end if;
  insert into outbox.subscription_history (subscription, number, since, takes, aggregate_types, event_types)
    select o.name, coalesce((select max(h.number) from outbox.subscription_history h where h.subscription = o.name), 0) + 1,
      write_subscription_history.since, write_subscription_history.takes, s.aggregate_types, s.event_types
    from (select write_subscription_history.name) o (name) left join outbox.subscriptions s on s.name = o.name;
end
$$;
comment on function outbox.write_subscription_history(text, pg_snapshot, boolean) is
  'For outbox.create_subscription() and the like: what holds for events from this snapshot on.';

create function outbox.raise_no_subscription(name text)
returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using errcode = 'undefined_object',
    message = format('there is no subscription "%s"', coalesce(raise_no_subscription.name, 'null')),
    hint = 'The view outbox.subscription_status shows which there are.';
end
$$;
comment on function outbox.raise_no_subscription(text) is
  'For functions that name a subscription.';

create function outbox.stop_subscription(name text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  -- None starts while this is locked: the row, or, of `default`, which has none, what its relay reads at its start.
  if stop_subscription.name = 'default' then
    lock table outbox.subscription_history in exclusive mode;
  else
    perform from outbox.subscriptions s where s.name = stop_subscription.name for update;
  end if;
  if not outbox.end_subscription(stop_subscription.name) then
    raise exception using errcode = 'object_in_use',
      message = format('the relay of subscription "%s" has not ended', stop_subscription.name),
      hint = 'It is ending; try again.';
  end if;
end
$$;
comment on function outbox.stop_subscription(text) is
  'For outbox.drop_subscription() and the like: ends the relay, up to the end of the transaction.';

create function outbox.create_subscription_as_owner(
  name text, sink text, options jsonb, aggregate_types text[], event_types text[], start text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  arguments constant text[] := array['name', 'sink', 'options', 'start'];
  given constant text[] := array[create_subscription_as_owner.name, sink, options::text, start];
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
  perform outbox.check_sink(sink);
  if start not in ('now', 'retained') then
    raise exception using errcode = 'invalid_parameter_value', message = format('start must be now or retained, not "%s"', start);
  end if;
  perform outbox.check_subscription_types(aggregate_types, event_types);
  perform outbox.check_subscription_options(sink, options);
  perform outbox.begin_subscription_change();
  -- No partition is emptied up to the commit: what begins here stays.
  lock table outbox.subscriptions in share row exclusive mode;
  if exists (select from outbox.subscriptions s where s.name = create_subscription_as_owner.name) then
    raise exception using errcode = 'duplicate_object',
      message = format('subscription "%s" exists already', create_subscription_as_owner.name);
  elsif (select count(*) from outbox.subscriptions) >= 16 then
    raise exception using errcode = 'configuration_limit_exceeded', message = 'a database can have 16 subscriptions besides the default one';
  end if;
  insert into outbox.subscriptions (name, sink, options, aggregate_types, event_types)
    values (create_subscription_as_owner.name, sink, options, aggregate_types, event_types);
  begins := case start when 'now' then outbox.beginning() else '3:3:' end;
  perform outbox.write_subscription_history(create_subscription_as_owner.name, begins, true);
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
  'Sends events to one more place, by a relay of its own: sink one of outbox.sinks(), options as settings by their names without the prefix, and those of the sink. Only events of these types; null: of all. start now: what commits after the call; retained: everything that is kept. Superusers only.';

create function outbox.alter_subscription_as_owner(name text, options jsonb)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if alter_subscription_as_owner.name is null or options is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'name and options must not be null';
  end if;
  perform outbox.begin_subscription_change();
  perform outbox.check_subscription_options(s.sink, alter_subscription_as_owner.options) from outbox.subscriptions s
    where s.name = alter_subscription_as_owner.name;
  update outbox.subscriptions s set options = alter_subscription_as_owner.options where s.name = alter_subscription_as_owner.name;
  if not found then
    perform outbox.raise_no_subscription(alter_subscription_as_owner.name);
  end if;
  -- What the destination of before has asked for is not asked of this one.
  delete from outbox.pauses p where p.subscription = alter_subscription_as_owner.name and p.gone is not null;
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

create function outbox.alter_subscription_as_owner(name text, aggregate_types text[], event_types text[])
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  detached timestamptz;
begin
  perform outbox.check_subscription_types(aggregate_types, event_types);
  perform outbox.begin_subscription_change();
  select s.detached_at into detached from outbox.subscriptions s where s.name = alter_subscription_as_owner.name;
  if not found then
    perform outbox.raise_no_subscription(alter_subscription_as_owner.name);
  elsif detached is not null then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('subscription "%s" is detached', alter_subscription_as_owner.name),
      hint = 'Attach it first, with outbox.attach_subscription().';
  end if;
  -- Its relay has read nothing beyond the snapshot that is taken next, and reads nothing before the commit.
  perform outbox.stop_subscription(alter_subscription_as_owner.name);
  update outbox.subscriptions s
    set aggregate_types = alter_subscription_as_owner.aggregate_types, event_types = alter_subscription_as_owner.event_types
    where s.name = alter_subscription_as_owner.name;
  perform outbox.write_subscription_history(alter_subscription_as_owner.name, outbox.beginning(), true);
  perform outbox.notify_relay();
end
$$;
comment on function outbox.alter_subscription_as_owner(text, text[], text[]) is
  'The body of outbox.alter_subscription().';

create function outbox.alter_subscription(name text, aggregate_types text[], event_types text[])
returns void
language c volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_superuser';
comment on function outbox.alter_subscription(text, text[], text[]) is
  'Gives a subscription other types, both lists; null: all. For what commits after the call; what committed before is sent, or not, as the lists said then. Superusers only.';

create function outbox.drop_subscription_as_owner(name text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  found_rows bigint := 0;
  deleted bigint;
begin
  if drop_subscription_as_owner.name is null or drop_subscription_as_owner.name = 'default' then
    perform outbox.raise_no_subscription(drop_subscription_as_owner.name);
  end if;
  perform outbox.begin_subscription_change();
  perform outbox.stop_subscription(drop_subscription_as_owner.name);
  delete from outbox.deliveries d where d.subscription = drop_subscription_as_owner.name;
  get diagnostics deleted = row_count;
  found_rows := found_rows + deleted;
  delete from outbox.replay_events e using outbox.replay_requests r
    where r.subscription = drop_subscription_as_owner.name and e.replay_id = r.id;
  delete from outbox.replay_requests r where r.subscription = drop_subscription_as_owner.name;
  delete from outbox.pauses p where p.subscription = drop_subscription_as_owner.name;
  get diagnostics deleted = row_count;
  found_rows := found_rows + deleted;
  delete from outbox.relay_position p where p.subscription = drop_subscription_as_owner.name;
  get diagnostics deleted = row_count;
  found_rows := found_rows + deleted;
  delete from outbox.subscription_history h where h.subscription = drop_subscription_as_owner.name;
  delete from outbox.subscriptions s where s.name = drop_subscription_as_owner.name;
  -- Also what is left of one whose row somebody has deleted.
  if not found and found_rows = 0 then
    perform outbox.raise_no_subscription(drop_subscription_as_owner.name);
  end if;
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
