-- What operators call as the owner to stop a relay and to have it continue; see operating.sql. Upgrades run this file too:
-- "or replace" everywhere.

create or replace function outbox.pause_as_owner(reason text, subscription text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  if length(pause_as_owner.reason) > 1000 then
    raise exception using errcode = 'string_data_right_truncation',
      message = 'reason is longer than 1000 characters',
      detail = format('It has %s characters.', length(pause_as_owner.reason)),
      hint = 'It is shown wherever the pause is; name a place where the rest can be read.';
  end if;
  perform outbox.hold_subscriptions(false);
  -- It is not dropped before the pause is there.
  perform outbox.require_subscription(pause_as_owner.subscription);
  lock table outbox.pauses in share row exclusive mode;
  if exists (select from outbox.pauses p where p.subscription = pause_as_owner.subscription) then
    return false;
  end if;
  insert into outbox.pauses (reason, subscription) values (pause_as_owner.reason, pause_as_owner.subscription);
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.pause_as_owner(text, text) is
  'The body of outbox.pause().';

create or replace function outbox.pause_as_owner(reason text)
returns boolean
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$ select outbox.pause_as_owner(reason, 'default') $$;
comment on function outbox.pause_as_owner(text) is
  'The body of outbox.pause().';

create or replace function outbox.pause(reason text default null)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.pause(text) is
  'Makes the relay stop publishing until outbox.resume(), also across restarts, for a reason of at most 1000 characters. Events are kept. False when it was paused already.';

create or replace function outbox.pause(reason text, subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.pause(text, text) is
  'The same for the relay of this subscription.';

create or replace function outbox.resume_as_owner(subscription text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
begin
  perform outbox.hold_subscriptions(false);
  perform outbox.require_subscription(resume_as_owner.subscription);
  delete from outbox.pauses p where p.subscription = resume_as_owner.subscription;
  if not found then
    return false;
  end if;
  perform outbox.notify_relay();
  return true;
end
$$;
comment on function outbox.resume_as_owner(text) is
  'The body of outbox.resume().';

create or replace function outbox.resume_as_owner()
returns boolean
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$ select outbox.resume_as_owner('default') $$;
comment on function outbox.resume_as_owner() is
  'The body of outbox.resume().';

create or replace function outbox.resume()
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.resume() is
  'Ends outbox.pause(). False when the relay was not paused.';

create or replace function outbox.resume(subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.resume(text) is
  'The same for the relay of this subscription.';

create or replace function outbox.adopt_position_as_owner(subscription text)
returns boolean
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  count int;
begin
  perform outbox.hold_subscriptions(false);
  perform outbox.require_subscription(adopt_position_as_owner.subscription);
  update outbox.relay_position p
    set written_by = pg_current_xact_id(), timeline = outbox.timeline(), data_directory = outbox.data_directory()
    where p.system_identifier = outbox.system_identifier()
      and p.database_oid = (select d.oid from pg_database d where d.datname = current_database())
      and p.rows_counted is distinct from false and p.subscription = adopt_position_as_owner.subscription;
  get diagnostics count = row_count;
  -- A dump of a young cluster may have the same number.
  if exists (select from outbox.relay_position p
             where p.written_by = pg_current_xact_id() and p.system_identifier = outbox.system_identifier()
             group by p.subscription having count(*) > 1) then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = 'outbox.relay_position holds several rows of this database',
      hint = 'Delete all but the one that is right.';
  end if;
  -- In a subtransaction the row has an xmin of its own.
  update outbox.relay_position p set written_by = p.xmin::text::xid8
    where p.written_by = pg_current_xact_id() and p.system_identifier = outbox.system_identifier()
      and p.xmin <> p.written_by::xid;
  -- Of a dump that was not restored as a whole, what is there counts as all of it.
  update outbox.relay_position p set rows_counted = null
    where p.rows_counted and (p.system_identifier <> outbox.system_identifier() or p.xmin <> p.written_by::xid)
      and p.subscription = adopt_position_as_owner.subscription;
  perform outbox.notify_relay();
  perform outbox.request_relay();
  return count > 0;
end
$$;
comment on function outbox.adopt_position_as_owner(text) is
  'The body of outbox.adopt_position().';

create or replace function outbox.adopt_position_as_owner()
returns boolean
language sql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$ select outbox.adopt_position_as_owner('default') $$;
comment on function outbox.adopt_position_as_owner() is
  'The body of outbox.adopt_position().';

create or replace function outbox.adopt_position()
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.adopt_position() is
  'Lets a relay continue that has stopped because its position was changed by hand, or because the data directory is a copy: the row of outbox.relay_position counts as it is. Events of a dump that was restored in part are settled with what is there. False when this database has no position.';

create or replace function outbox.adopt_position(subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_as_owner';
comment on function outbox.adopt_position(text) is
  'The same for the relay of this subscription.';
