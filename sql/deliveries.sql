-- The exceptions: events that Kafka refused, and those that wait behind them.

create table outbox.deliveries (
  seq bigint not null,
  xid bigint not null,
  slot smallint not null,
  event_id uuid not null,
  lane bigint not null,
  topic text not null,
  partition_key text not null,
  state text not null,
  blocking boolean not null,
  attempts int not null default 0,
  next_attempt_at timestamptz,
  last_error text,
  failed_at timestamptz,
  settled_by name,
  settled_at timestamptz,
  reason text,
  constraint deliveries_pkey primary key (seq),
  constraint deliveries_state_check check (state in ('WAITING', 'RETRYING', 'FAILED', 'DISCARDED'))
);
create index deliveries_event_id on outbox.deliveries (event_id);
create index deliveries_waiting on outbox.deliveries (lane, seq) where state = 'WAITING';
create index deliveries_blockers on outbox.deliveries (lane, seq) where state in ('RETRYING', 'FAILED');
create index deliveries_due on outbox.deliveries (next_attempt_at) where state = 'RETRYING';
create index deliveries_settled on outbox.deliveries (seq) where not blocking and state <> 'WAITING';
select pg_catalog.pg_extension_config_dump('outbox.deliveries', '');

comment on table outbox.deliveries is
  'Only the exceptions: events that Kafka refused, and events that wait behind one. A row goes when its event is published. Written by the relay and by outbox.retry() and outbox.discard().';
comment on column outbox.deliveries.seq is 'The event''s emission number.';
comment on column outbox.deliveries.xid is 'The event''s transaction id; with seq it finds the row in outbox.events.';
comment on column outbox.deliveries.slot is 'The event''s partition of the ring.';
comment on column outbox.deliveries.event_id is 'The event''s id.';
comment on column outbox.deliveries.lane is 'Hash of topic and key, or of the topic alone when all of it is refused: what waits in order.';
comment on column outbox.deliveries.topic is 'The Kafka topic.';
comment on column outbox.deliveries.partition_key is 'The Kafka key.';
comment on column outbox.deliveries.state is 'RETRYING: refused, tried again at next_attempt_at. FAILED: given up after outbox.max_attempts. WAITING: behind such an event of its lane. DISCARDED: by an operator.';
comment on column outbox.deliveries.blocking is 'Whether later events of the lane wait for this one.';
comment on column outbox.deliveries.attempts is 'How often Kafka refused the event.';
comment on column outbox.deliveries.next_attempt_at is 'When it is tried again.';
comment on column outbox.deliveries.last_error is 'Kafka''s name for the last error, and its text.';
comment on column outbox.deliveries.failed_at is 'When it was refused first.';
comment on column outbox.deliveries.settled_by is 'Who discarded it.';
comment on column outbox.deliveries.settled_at is 'When it was discarded.';
comment on column outbox.deliveries.reason is 'Why it was discarded.';

-- A row: the relay is paused.
create table outbox.pauses (
  paused_at timestamptz not null default pg_catalog.now(),
  paused_by name not null default session_user,
  reason text
);
comment on table outbox.pauses is 'Holds a row while the relay is paused; see outbox.pause().';
comment on column outbox.pauses.paused_at is 'Since when.';
comment on column outbox.pauses.paused_by is 'By whom.';
comment on column outbox.pauses.reason is 'Why.';
select pg_catalog.pg_extension_config_dump('outbox.pauses', '');

create function outbox.notify_relay()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_notify_relay';
comment on function outbox.notify_relay() is
  'Makes the relay look at outbox.deliveries and outbox.pauses when the current transaction commits.';

-- Locks and returns the row of an event; raises an error that says why there is nothing to settle.
create function outbox.delivery_to_settle(event_id uuid)
returns outbox.deliveries
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries;
begin
  if delivery_to_settle.event_id is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'event_id must not be null',
      hint = 'The view outbox.dead_letters shows the ids of failed events.';
  end if;
  select d.* into delivery from outbox.deliveries d
    where d.event_id = delivery_to_settle.event_id order by d.seq limit 1 for update;
  if found then
    return delivery;
  end if;
  if exists (select from outbox.events e where e.id = delivery_to_settle.event_id) then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s has not failed', delivery_to_settle.event_id),
      detail = format('Its status is %s.', (select s.status from outbox.event_status s where s.id = delivery_to_settle.event_id limit 1)),
      hint = 'The view outbox.dead_letters shows the events that have.';
  end if;
  raise exception using errcode = 'undefined_object',
    message = format('there is no event with id %s', delivery_to_settle.event_id),
    hint = 'The view outbox.dead_letters shows the ids of failed events.';
end
$$;
comment on function outbox.delivery_to_settle(uuid) is
  'For outbox.retry() and outbox.discard(): the locked row of outbox.deliveries.';

create function outbox.retry(event_id uuid)
returns boolean
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries := outbox.delivery_to_settle(retry.event_id);
begin
  if delivery.state = 'WAITING' then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s waits behind another one', retry.event_id),
      detail = format('Event %s of its key or topic was refused before it.',
        (select b.event_id from outbox.deliveries b
          where b.lane = delivery.lane and b.state in ('RETRYING', 'FAILED') order by b.seq limit 1)),
      hint = 'Retry or discard that one.';
  elsif delivery.state = 'DISCARDED' then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s was discarded', retry.event_id),
      detail = format('By %s at %s.', delivery.settled_by, delivery.settled_at),
      hint = 'Later events of its key may be published already; emit a new event instead.';
  end if;
  update outbox.deliveries d set state = 'RETRYING', next_attempt_at = clock_timestamp(),
      attempts = case when delivery.state = 'FAILED' then 0 else d.attempts end
    where d.seq = delivery.seq;
  perform outbox.notify_relay();
  return delivery.state = 'FAILED';
end
$$;
comment on function outbox.retry(uuid) is
  'Tries a failed event again, at once and with a fresh count of attempts; what waits behind it follows when it is published. True when it had FAILED, false when it was being retried anyway.';

create function outbox.retry_failed(
  aggregate_type text default null,
  event_type text default null,
  since timestamptz default null,
  max int default 1000)
returns int
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  count int;
begin
  if retry_failed.max is null or retry_failed.max < 1 then
    raise exception using errcode = 'invalid_parameter_value', message = 'max must be at least 1';
  end if;
  with chosen as (
    select d.seq from outbox.deliveries d
      join outbox.events e on e.xid = d.xid and e.seq = d.seq and e.slot = d.slot
      where d.state = 'FAILED'
        and (retry_failed.aggregate_type is null or e.aggregate_type = retry_failed.aggregate_type)
        and (retry_failed.event_type is null or e.event_type = retry_failed.event_type)
        and (retry_failed.since is null or d.failed_at >= retry_failed.since)
      order by d.seq limit retry_failed.max for update of d)
  update outbox.deliveries d set state = 'RETRYING', next_attempt_at = clock_timestamp(), attempts = 0
    from chosen where d.seq = chosen.seq;
  get diagnostics count = row_count;
  perform outbox.notify_relay();
  return count;
end
$$;
comment on function outbox.retry_failed(text, text, timestamptz, int) is
  'As outbox.retry() for failed events of a type (null: all), first refused since a time, oldest first, at most max. Returns how many.';

create function outbox.discard(event_id uuid, reason text)
returns boolean
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries;
begin
  if discard.reason is null or btrim(discard.reason) = '' then
    raise exception using errcode = 'invalid_parameter_value', message = 'reason must not be empty',
      hint = 'It is kept with the event for whoever asks later.';
  end if;
  delivery := outbox.delivery_to_settle(discard.event_id);
  if delivery.state = 'DISCARDED' then
    return false;
  end if;
  update outbox.deliveries d set state = 'DISCARDED', blocking = false, next_attempt_at = null,
      settled_by = session_user, settled_at = clock_timestamp(), reason = discard.reason
    where d.seq = delivery.seq;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.discard(uuid, text) is
  'Gives a refused or waiting event up for good; what waits behind it flows. It stays in outbox.deliveries with who, when and why. False when it was discarded before.';

create function outbox.pause(reason text default null)
returns boolean
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  lock table outbox.pauses in share row exclusive mode;
  if exists (select from outbox.pauses) then
    return false;
  end if;
  insert into outbox.pauses (reason) values (pause.reason);
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.pause(text) is
  'Makes the relay stop publishing until outbox.resume(), also across restarts. Events are kept. False when it was paused already.';

create function outbox.resume()
returns boolean
language plpgsql volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from outbox.pauses;
  if not found then
    return false;
  end if;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.resume() is
  'Ends outbox.pause(). False when the relay was not paused.';
