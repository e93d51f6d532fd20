-- What superusers call to detach and attach subscriptions.

-- The relay of `default` goes on while it is detached, as it does what is the database's, and has read what
-- outbox.subscription_history says. So it is ended as well, and the next one starts when the transaction is over.

-- The position of `default` has passed what committed meanwhile, and what is kept of it may be anything.
create function outbox.attach_default(start text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if not outbox.is_detached('default') then
    raise exception using errcode = 'object_not_in_prerequisite_state', message = 'subscription "default" is not detached';
  elsif start <> 'now' then
    raise exception using errcode = 'feature_not_supported',
      message = format('subscription "default" cannot be attached with start %s', start),
      hint = 'Attach it with now, and send what is kept of the time before with outbox.replay().';
  end if;
  perform outbox.stop_subscription('default');
  perform outbox.write_subscription_history('default', outbox.beginning(), true);
  raise log 'outbox: subscription "default" is attached by %', session_user;
  perform outbox.notify_relay();
end
$$;
comment on function outbox.attach_default(text) is
  'For outbox.attach_subscription().';

create function outbox.attach_subscription_as_owner(name text, start text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  it outbox.subscriptions;
  reached outbox.relay_position;
  begins pg_snapshot;
  left_out bigint := 0;
begin
  if start is null or start not in ('now', 'retained') then
    raise exception using errcode = 'invalid_parameter_value',
      message = format('start must be now or retained, not "%s"', coalesce(start, 'null')),
      hint = 'now leaves out what committed since it was detached; retained continues with what of it is kept.';
  end if;
  perform outbox.begin_subscription_change();
  if attach_subscription_as_owner.name = 'default' then
    perform outbox.attach_default(start);
    return;
  end if;
  lock table outbox.subscriptions in share row exclusive mode;
  select s.* into it from outbox.subscriptions s where s.name = attach_subscription_as_owner.name;
  if not found then
    perform outbox.raise_no_subscription(attach_subscription_as_owner.name);
  elsif it.detached_at is null then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('subscription "%s" is not detached', attach_subscription_as_owner.name);
  end if;
  perform outbox.stop_subscription(it.name);
  if start = 'retained' then
    delete from outbox.subscription_history h where h.subscription = it.name and not h.takes
      and h.number = (select max(o.number) from outbox.subscription_history o where o.subscription = it.name);
  else
    select p.* into reached from outbox.relay_position p
      where p.subscription = it.name and p.xmin = p.written_by::xid for update;
    begins := outbox.beginning();
    select count(*) into left_out from outbox.events e
      where e.xid > 0 and outbox.visible_in(e.xid, begins) and not outbox.visible_in(e.xid, reached.from_snapshot)
        and not (e.seq <= reached.last_seq and outbox.visible_in(e.xid, reached.to_snapshot))
        and not exists (select from outbox.deliveries d where d.seq = e.seq and d.event_id = e.id and d.subscription = it.name)
        and (select outbox.matches_types(e.aggregate_type, h.aggregate_types) and outbox.matches_types(e.event_type, h.event_types)
             from outbox.subscription_history h
             where h.subscription = it.name and h.takes and not outbox.visible_in(e.xid, h.since)
             order by h.number desc limit 1);
    update outbox.subscription_history h set since = reached.from_snapshot
      where h.subscription = it.name and not h.takes
        and h.number = (select max(o.number) from outbox.subscription_history o where o.subscription = it.name);
    update outbox.relay_position p
      set from_snapshot = begins, to_snapshot = begins, last_seq = 0, written_by = pg_current_xact_id(), updated_at = clock_timestamp()
      where p.subscription = it.name and p.xmin = p.written_by::xid;
    update outbox.relay_position p set written_by = p.xmin::text::xid8
      where p.subscription = it.name and p.written_by = pg_current_xact_id() and p.xmin <> p.written_by::xid;
    perform outbox.write_subscription_history(it.name, begins, true);
  end if;
  update outbox.subscriptions s
    set detached_at = null, detached_by = null, attached_at = clock_timestamp(), missed_events = s.missed_events + left_out
    where s.name = it.name;
  perform outbox.notify_relay();
end
$$;
comment on function outbox.attach_subscription_as_owner(text, text) is
  'The body of outbox.attach_subscription().';

create function outbox.attach_subscription(name text, start text)
returns void
language c volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_superuser';
comment on function outbox.attach_subscription(text, text) is
  'Has a subscription continue that was detached. start retained: where it stopped, with what is kept since; now: with what commits after the call, as `default` always does. Superusers only.';

create function outbox.count_unsent(name text, from_snapshot pg_snapshot, to_snapshot pg_snapshot, last_seq bigint)
returns bigint
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
  select (select count(*) from outbox.events e
    where e.xid > 0 and e.xid >= pg_snapshot_xmin(count_unsent.from_snapshot)::text::bigint
      and not outbox.visible_in(e.xid, count_unsent.from_snapshot)
      and not (e.seq <= count_unsent.last_seq and outbox.visible_in(e.xid, count_unsent.to_snapshot))
      and not exists (select from outbox.deliveries d where d.seq = e.seq and d.event_id = e.id and d.subscription = $1)
      -- Where no row says otherwise it is `default`, which takes all.
      and coalesce((select h.takes and outbox.matches_types(e.aggregate_type, h.aggregate_types)
                      and outbox.matches_types(e.event_type, h.event_types)
                    from outbox.subscription_history h where h.subscription = $1 and not outbox.visible_in(e.xid, h.since)
                    order by h.number desc limit 1), $1 = 'default'))
    + (select count(*) from outbox.deliveries d
       where d.subscription = $1 and (d.state in ('RETRYING', 'WAITING') or (d.state = 'FAILED' and $1 = 'default')))
$$;
comment on function outbox.count_unsent(text, pg_snapshot, pg_snapshot, bigint) is
  'For outbox.detach_subscription(): how many events of its types a subscription has not sent.';

create function outbox.end_replays(name text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from outbox.replay_events e using outbox.replay_requests r
    where r.subscription = end_replays.name and r.state in ('QUEUED', 'RUNNING') and e.replay_id = r.id;
  update outbox.replay_requests r
    set state = 'FAILED', ended_at = clock_timestamp(), last_error = 'its subscription was detached'
    where r.subscription = end_replays.name and r.state in ('QUEUED', 'RUNNING');
end
$$;
comment on function outbox.end_replays(text) is
  'For outbox.detach_subscription(): its replays fail.';

create function outbox.detach_subscription_as_owner(name text)
returns bigint
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  of_default constant boolean := coalesce(detach_subscription_as_owner.name = 'default', false);
  reached_from pg_snapshot;
  reached_to pg_snapshot;
  reached_seq bigint;
  unsent bigint;
begin
  perform outbox.begin_subscription_change();
  if not of_default then
    lock table outbox.subscriptions in share row exclusive mode;
    if not exists (select from outbox.subscriptions s where s.name = detach_subscription_as_owner.name) then
      perform outbox.raise_no_subscription(detach_subscription_as_owner.name);
    end if;
  end if;
  if outbox.is_detached(detach_subscription_as_owner.name) then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('subscription "%s" is detached already', detach_subscription_as_owner.name);
  end if;
  perform outbox.stop_subscription(detach_subscription_as_owner.name);
  select p.from_snapshot, p.to_snapshot, p.last_seq into reached_from, reached_to, reached_seq
    from outbox.current_positions p where p.subscription = detach_subscription_as_owner.name;
  if not found then
    -- Where nothing was ever read, as right after create extension, there is no position of `default`.
    if not of_default or exists (select from outbox.relay_position p where p.subscription = 'default') then
      raise exception using errcode = 'object_not_in_prerequisite_state',
        message = format('it is not known what subscription "%s" has sent', detach_subscription_as_owner.name),
        hint = case when of_default
          then 'See outbox.relay_status; after a restore or a copy the relay finds it out, or asks for outbox.adopt_position().'
          else 'Call outbox.adopt_position() with its name if its position is right, or drop it.' end;
    end if;
    reached_from := '3:3:';
    reached_to := '3:3:';
    reached_seq := 0;
  end if;
  unsent := outbox.count_unsent(detach_subscription_as_owner.name, reached_from, reached_to, reached_seq);
  perform outbox.end_replays(detach_subscription_as_owner.name);
  perform outbox.write_subscription_history(detach_subscription_as_owner.name, reached_from, false);
  if of_default then
    -- Nothing that it has set aside may hold a partition. No topic is called '': outbox.ring lets these rows go with
    -- theirs.
    update outbox.deliveries d
      set state = 'DISCARDED', blocking = false, next_attempt_at = null, topic = '', settled_by = session_user,
        settled_at = clock_timestamp(), reason = 'subscription default was detached'
      where d.subscription = 'default' and d.state <> 'DISCARDED';
  else
    update outbox.subscriptions s set detached_at = clock_timestamp(), detached_by = session_user, missed_events = 0
      where s.name = detach_subscription_as_owner.name;
  end if;
  raise log 'outbox: subscription "%" is detached by %; it has not sent % events', detach_subscription_as_owner.name,
    session_user, unsent;
  perform outbox.notify_relay();
  return unsent;
end
$$;
comment on function outbox.detach_subscription_as_owner(text) is
  'The body of outbox.detach_subscription().';

create function outbox.detach_subscription(name text)
returns bigint
language c volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_superuser';
comment on function outbox.detach_subscription(text) is
  'Has a subscription send nothing and hold nothing back, until outbox.attach_subscription(). `default` gives up what it has not sent. Returns how many events that are. Superusers only.';
