-- What operators call as the owner. The library first makes sure that no other code runs with the owner's rights
-- (extension/trust/as_owner.cpp), and then calls the function of the same name with the suffix _as_owner, which no role is granted.
-- Upgrades run this file too: "or replace" everywhere.

create or replace function outbox.require_subscription(name text)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if require_subscription.name is distinct from 'default' then
    -- It stays up to the end of the transaction, also one whose snapshot is older than its end.
    perform from outbox.subscriptions s where s.name = require_subscription.name for key share;
    if not found then
      perform outbox.raise_no_subscription(require_subscription.name);
    end if;
  end if;
end
$$;
comment on function outbox.require_subscription(text) is
  'For functions that name a subscription: an error unless there is one, which then stays up to the end of the transaction.';

-- Locks and returns the row of an event; raises an error that says why there is nothing to settle.
create or replace function outbox.delivery_to_settle(event_id uuid, subscription text)
returns outbox.deliveries
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries;
begin
  perform outbox.hold_subscriptions(false);
  if delivery_to_settle.event_id is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'event_id must not be null',
      hint = 'The view outbox.dead_letters shows the ids of failed events.';
  end if;
  select d.* into delivery from outbox.deliveries d
    where d.event_id = delivery_to_settle.event_id and d.subscription = delivery_to_settle.subscription order by d.seq limit 1 for update;
  if found then
    return delivery;
  end if;
  perform outbox.require_subscription(delivery_to_settle.subscription);
  if exists (select from outbox.events e where e.id = delivery_to_settle.event_id) then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s has not failed', delivery_to_settle.event_id),
      detail = case when delivery_to_settle.subscription = 'default' then
        format('Its status is %s.', (select s.status from outbox.event_status s where s.id = delivery_to_settle.event_id limit 1))
        else format('Subscription "%s" has not set it aside.', delivery_to_settle.subscription) end,
      hint = 'The view outbox.dead_letters shows the events that have.';
  end if;
  raise exception using errcode = 'undefined_object',
    message = format('there is no event with id %s', delivery_to_settle.event_id),
    hint = 'The view outbox.dead_letters shows the ids of failed events.';
end
$$;
comment on function outbox.delivery_to_settle(uuid, text) is
  'For outbox.retry() and outbox.discard(): the locked row of outbox.deliveries.';

create or replace function outbox.retry_as_owner(event_id uuid, subscription text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries := outbox.delivery_to_settle(retry_as_owner.event_id, retry_as_owner.subscription);
begin
  if delivery.state = 'WAITING' then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s waits behind another one', retry_as_owner.event_id),
      detail = format('Event %s of its key or topic was refused before it.',
        (select b.event_id from outbox.deliveries b
          where b.subscription = delivery.subscription and b.lane = delivery.lane and b.state in ('RETRYING', 'FAILED') order by b.seq limit 1)),
      hint = 'Retry or discard that one.';
  elsif delivery.state = 'DISCARDED' then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('event %s was discarded', retry_as_owner.event_id),
      detail = format('By %s at %s.', delivery.settled_by, delivery.settled_at),
      hint = 'Later events of its key may be published already; emit a new event instead.';
  end if;
  update outbox.deliveries d set state = 'RETRYING', next_attempt_at = clock_timestamp(),
      attempts = case when delivery.state = 'FAILED' then 0 else d.attempts end
    where d.seq = delivery.seq and d.subscription = delivery.subscription;
  perform outbox.notify_relay();
  return delivery.state = 'FAILED';
end
$$;
comment on function outbox.retry_as_owner(uuid, text) is
  'The body of outbox.retry().';

create or replace function outbox.retry_as_owner(event_id uuid)
returns boolean
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$ select outbox.retry_as_owner(event_id, 'default') $$;
comment on function outbox.retry_as_owner(uuid) is
  'The body of outbox.retry().';

create or replace function outbox.retry(event_id uuid)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.retry(uuid) is
  'Tries a failed event again, at once and with a fresh count of attempts; what waits behind it follows when it is published. True when it had FAILED, false when it was being retried anyway.';

create or replace function outbox.retry(event_id uuid, subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.retry(uuid, text) is
  'The same for an event that this subscription has set aside.';

create or replace function outbox.retry_failed_as_owner(
  aggregate_type text,
  event_type text,
  since timestamptz,
  max int,
  subscription text)
returns int
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  count int;
begin
  perform outbox.hold_subscriptions(false);
  perform outbox.require_subscription(retry_failed_as_owner.subscription);
  if retry_failed_as_owner.max is null or retry_failed_as_owner.max < 1 then
    raise exception using errcode = 'invalid_parameter_value', message = 'max must be at least 1';
  end if;
  with chosen as (
    select d.seq, d.subscription from outbox.deliveries d
      join outbox.events e on e.xid = d.xid and e.seq = d.seq and e.slot = d.slot
      where d.subscription = retry_failed_as_owner.subscription and d.state = 'FAILED'
        and (retry_failed_as_owner.aggregate_type is null or e.aggregate_type = retry_failed_as_owner.aggregate_type)
        and (retry_failed_as_owner.event_type is null or e.event_type = retry_failed_as_owner.event_type)
        and (retry_failed_as_owner.since is null or d.failed_at >= retry_failed_as_owner.since)
      order by d.seq limit retry_failed_as_owner.max for update of d)
  update outbox.deliveries d set state = 'RETRYING', next_attempt_at = clock_timestamp(), attempts = 0
    from chosen where d.seq = chosen.seq and d.subscription = chosen.subscription;
  get diagnostics count = row_count;
  perform outbox.notify_relay();
  return count;
end
$$;
comment on function outbox.retry_failed_as_owner(text, text, timestamptz, int, text) is
  'The body of outbox.retry_failed().';

create or replace function outbox.retry_failed_as_owner(aggregate_type text, event_type text, since timestamptz, max int)
returns int
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$ select outbox.retry_failed_as_owner(aggregate_type, event_type, since, max, 'default') $$;
comment on function outbox.retry_failed_as_owner(text, text, timestamptz, int) is
  'The body of outbox.retry_failed().';

create or replace function outbox.retry_failed(
  aggregate_type text default null,
  event_type text default null,
  since timestamptz default null,
  max int default 1000)
returns int
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.retry_failed(text, text, timestamptz, int) is
  'As outbox.retry() for failed events of a type (null: all), first refused since a time, oldest first, at most max. Returns how many.';

create or replace function outbox.retry_failed(aggregate_type text, event_type text, since timestamptz, max int, subscription text)
returns int
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.retry_failed(text, text, timestamptz, int, text) is
  'The same for what this subscription has set aside.';

create or replace function outbox.discard_as_owner(event_id uuid, reason text, subscription text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  delivery outbox.deliveries;
begin
  if discard_as_owner.reason is null or btrim(discard_as_owner.reason) = '' then
    raise exception using errcode = 'invalid_parameter_value', message = 'reason must not be empty',
      hint = 'It is kept with the event for later reference.';
  end if;
  delivery := outbox.delivery_to_settle(discard_as_owner.event_id, discard_as_owner.subscription);
  if delivery.state = 'DISCARDED' then
    return false;
  end if;
  update outbox.deliveries d set state = 'DISCARDED', blocking = false, next_attempt_at = null,
      settled_by = session_user, settled_at = clock_timestamp(), reason = discard_as_owner.reason
    where d.seq = delivery.seq and d.subscription = delivery.subscription;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.discard_as_owner(uuid, text, text) is
  'The body of outbox.discard().';

create or replace function outbox.discard_as_owner(event_id uuid, reason text)
returns boolean
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$ select outbox.discard_as_owner(event_id, reason, 'default') $$;
comment on function outbox.discard_as_owner(uuid, text) is
  'The body of outbox.discard().';

create or replace function outbox.discard(event_id uuid, reason text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.discard(uuid, text) is
  'Gives a refused or waiting event up for good; what waits behind it flows. It stays in outbox.deliveries with who, when and why. False when it was discarded before.';

create or replace function outbox.discard(event_id uuid, reason text, subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.discard(uuid, text, text) is
  'The same for an event that this subscription has set aside.';

create or replace function outbox.replay_as_owner(
  aggregate_type text,
  event_type text,
  aggregate_id text,
  since timestamptz,
  until timestamptz,
  max_count int,
  rate_per_second int,
  dry_run boolean,
  topic text,
  subscription text,
  out replay_id uuid)
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  database constant oid := (select d.oid from pg_database d where d.datname = current_database());
  matched bigint;
begin
  -- First of all: it is not dropped before the replay is there, or the drop has come first.
  perform outbox.hold_subscriptions(false);
  perform outbox.require_subscription(replay_as_owner.subscription);
  if outbox.is_detached(replay_as_owner.subscription) then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('subscription "%s" is detached', replay_as_owner.subscription),
      hint = 'Attach it first, with outbox.attach_subscription().';
  end if;
  if replay_as_owner.dry_run is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'dry_run must not be null',
      hint = 'true counts the events, false replays them.';
  elsif replay_as_owner.max_count is null or replay_as_owner.max_count not between 1 and 1000000 then
    raise exception using errcode = 'invalid_parameter_value', message = 'max_count must be 1 to 1000000',
      hint = 'What is left out can be replayed after that, with since.';
  elsif replay_as_owner.rate_per_second is null or replay_as_owner.rate_per_second not between 1 and 10000 then
    raise exception using errcode = 'invalid_parameter_value', message = 'rate_per_second must be 1 to 10000';
  elsif replay_as_owner.since >= replay_as_owner.until then
    raise exception using errcode = 'invalid_parameter_value', message = 'since must be before until',
      detail = format('since is %s, until is %s.', replay_as_owner.since, replay_as_owner.until);
  end if;
  perform outbox.check_topic_name(replay_as_owner.topic);
  replay_id := outbox.uuid_v7();
  if replay_as_owner.dry_run then
    select count(*) into matched
      from outbox.replayable_events(replay_as_owner.aggregate_type, replay_as_owner.event_type, replay_as_owner.aggregate_id, replay_as_owner.since, replay_as_owner.until,
        replay_as_owner.subscription);
  else
    -- One asks after the other, which the relay does not notice.
    lock table outbox.replay_requests in share update exclusive mode;
    if (select count(*) from outbox.replay_requests r
        where r.subscription = replay_as_owner.subscription and r.state in ('QUEUED', 'RUNNING')) >= 16 then
      raise exception using errcode = 'configuration_limit_exceeded', message = '16 replays wait or run already',
        hint = 'Wait for one to end, or cancel one with outbox.cancel_replay(); see outbox.replays.';
    end if;
    -- A transaction that reads outbox.events keeps the relay from emptying a partition up to the end of the transaction,
    -- and from then on the rows made here do.
    with chosen as (
      select o.seq, o.xid, o.slot, row_number() over (order by o.seq, o.xid) - 1 as n
      from (select t.seq, t.xid, t.slot
            from outbox.replayable_events(replay_as_owner.aggregate_type, replay_as_owner.event_type, replay_as_owner.aggregate_id, replay_as_owner.since, replay_as_owner.until,
              replay_as_owner.subscription) t
            order by t.seq, t.xid limit replay_as_owner.max_count + 1) o),
    listed as (
      insert into outbox.replay_events (replay_id, chunk, held_slots, seqs, xids, slots)
      select replay_as_owner.replay_id, c.n / 1000, array_agg(distinct c.slot), array_agg(c.seq order by c.n),
        array_agg(c.xid order by c.n), array_agg(c.slot order by c.n)
      from chosen c where c.n < replay_as_owner.max_count group by c.n / 1000)
    select count(*) into matched from chosen;
  end if;
  insert into outbox.replay_requests (id, state, aggregate_type, event_type, aggregate_id, since, until, max_count,
      rate_per_second, topic, matching, total, ended_at, database_oid, subscription)
    values (replay_as_owner.replay_id, case when replay_as_owner.dry_run then 'DRY_RUN' when matched = 0 then 'DONE' else 'QUEUED' end,
      replay_as_owner.aggregate_type, replay_as_owner.event_type, replay_as_owner.aggregate_id, replay_as_owner.since, replay_as_owner.until, replay_as_owner.max_count,
      replay_as_owner.rate_per_second, replay_as_owner.topic, case when replay_as_owner.dry_run or matched <= replay_as_owner.max_count then matched end,
      least(matched, replay_as_owner.max_count), case when replay_as_owner.dry_run or matched = 0 then clock_timestamp() end, database,
      replay_as_owner.subscription);
  delete from outbox.replay_requests r where r.id in (
    select o.id from outbox.replay_requests o
    where o.subscription = replay_as_owner.subscription and o.state not in ('QUEUED', 'RUNNING')
    order by o.requested_at desc offset 1000);
  if replay_as_owner.dry_run then
    raise notice using message = format('%s of %s matching events would be replayed', least(matched, replay_as_owner.max_count), matched),
      hint = 'Say dry_run => false to replay them.';
  else
    perform outbox.notify_relay();
  end if;
end
$$;
comment on function outbox.replay_as_owner(text, text, text, timestamptz, timestamptz, int, int, boolean, text, text) is
  'The body of outbox.replay().';

create or replace function outbox.replay(
  aggregate_type text default null,
  event_type text default null,
  aggregate_id text default null,
  since timestamptz default null,
  until timestamptz default null,
  max_count int default 1000,
  rate_per_second int default 100,
  dry_run boolean default true,
  topic text default null,
  subscription text default 'default',
  out replay_id uuid)
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.replay(text, text, text, timestamptz, timestamptz, int, int, boolean, text, text) is
  'Publishes events again that were published and are still kept: those that match (null: all), the oldest first, at most max_count, at most rate_per_second, with their ids and the header replay_id. A subscription''s relay sends what it has passed and takes. With dry_run, the default, it only counts them. Returns the id of a row of outbox.replays; the relay begins when the transaction has committed.';

create or replace function outbox.cancel_replay_as_owner(replay_id uuid)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  current_state text;
begin
  if cancel_replay_as_owner.replay_id is null then
    raise exception using errcode = 'null_value_not_allowed', message = 'replay_id must not be null',
      hint = 'The view outbox.replays shows the ids.';
  end if;
  select r.state into current_state from outbox.replay_requests r where r.id = cancel_replay_as_owner.replay_id for update;
  if not found then
    raise exception using errcode = 'undefined_object',
      message = format('there is no replay with id %s', cancel_replay_as_owner.replay_id),
      hint = 'The view outbox.replays shows the ids.';
  elsif current_state not in ('QUEUED', 'RUNNING') then
    return false;
  end if;
  update outbox.replay_requests r set state = 'CANCELLED', ended_at = clock_timestamp(), cancelled_by = session_user
    where r.id = cancel_replay_as_owner.replay_id;
  delete from outbox.replay_events e where e.replay_id = cancel_replay_as_owner.replay_id;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.cancel_replay_as_owner(uuid) is
  'The body of outbox.cancel_replay().';

create or replace function outbox.cancel_replay(replay_id uuid)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.cancel_replay(uuid) is
  'Ends a replay that waits or runs, when the transaction commits; what is on its way to Kafka by then may still arrive. False when it had ended before.';
