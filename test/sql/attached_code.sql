-- Code that somebody attaches to one of the extension's objects never runs with more rights than his own: every way to
-- attach it, to every table, and then every function that runs as the owner.
\set SHOW_CONTEXT never
set client_min_messages = error;
create role outbox_test_mallory;
select outbox.grant_emitter('outbox_test_mallory'), outbox.grant_consumer('outbox_test_mallory'),
  outbox.grant_operator('outbox_test_mallory');
create schema outbox_test_mallory authorization outbox_test_mallory;
grant outbox_test_mallory to current_user;
create table public.outbox_test_loot (who text, code text);
grant insert on public.outbox_test_loot to public;
set role outbox_test_mallory;
create function outbox_test_mallory.note_now(code text) returns boolean language plpgsql as $$
begin
  insert into public.outbox_test_loot values (current_user, $1);
  return true;
end $$;
create function outbox_test_mallory.note(code text) returns boolean language plpgsql immutable as $$
begin
  return outbox_test_mallory.note_now($1);
end $$;
create function outbox_test_mallory.note_of(value anyelement, code text) returns boolean language plpgsql immutable as $$
begin
  return outbox_test_mallory.note_now($2);
end $$;
create function outbox_test_mallory.trap() returns trigger language plpgsql as $$
begin
  perform outbox_test_mallory.note('trigger of ' || tg_relid::regclass);
  return coalesce(new, old);
end $$;
create domain outbox_test_mallory.text as text check (outbox_test_mallory.note('domain'));
reset role;

select outbox.emit('trap', '1', 'made', '{}', event_id => '00000000-0000-4000-a000-0000000000aa') is not null as emitted;
select outbox.emit('trap', '2', 'made', '{}', event_id => '00000000-0000-4000-a000-0000000000ab') is not null as emitted;
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, last_error, failed_at)
select seq, xid, slot, id, 1, 'outbox.event.trap', aggregate_id, 'FAILED', true, 10, 'REFUSED: refused', now()
from outbox.events where aggregate_type = 'trap';
insert into outbox.replay_requests (id, state, max_count, rate_per_second, total, database_oid)
select '00000000-0000-4000-a000-0000000000ac', 'QUEUED', 1, 1, 1, oid from pg_database where datname = current_database();

create table public.outbox_test_calls (n serial, call text);
insert into public.outbox_test_calls (call) values
  ($$outbox.retry('00000000-0000-4000-a000-0000000000aa')$$),
  ($$outbox.retry_failed()$$),
  ($$outbox.discard('00000000-0000-4000-a000-0000000000ab', 'why')$$),
  ($$outbox.pause()$$),
  ($$outbox.resume()$$),
  ($$outbox.replay()$$),
  ($$outbox.replay(dry_run => false)$$),
  ($$outbox.cancel_replay('00000000-0000-4000-a000-0000000000ac')$$),
  ($$outbox.mark_processed('00000000-0000-4000-a000-0000000000ad', 'trapped')$$),
  ($$outbox.mark_processed_many('{00000000-0000-4000-a000-0000000000ae,00000000-0000-4000-a000-0000000000af}', 'trapped')$$),
  ($$outbox.is_processed('00000000-0000-4000-a000-0000000000ad', 'trapped')$$),
  ($$outbox.record_offset('trapped', 'topic', 0, 1)$$),
  ($$outbox.record_offset('trapped', 'topic', 0, 2)$$),
  ($$outbox.stored_offsets('trapped')$$),
  ($$outbox.idempotency_begin('trapped', 'key', sha256('x'), '1 h', 'two_phase', '1 min')$$),
  ($$outbox.idempotency_release('trapped', 'key', public.outbox_test_owner())$$),
  ($$outbox.idempotency_begin('trapped', 'key', sha256('x'), '1 h', 'single_tx', '1 min')$$),
  ($$outbox.idempotency_complete('trapped', 'key', public.outbox_test_owner(), 200, null, null, null)$$),
  ($$outbox.wait_published('00000000-0000-4000-a000-0000000000aa', '1 ms')$$),
  ($$outbox.drain('1 ms')$$),
  ($$outbox.adopt_position()$$),
  ($$outbox.retry('00000000-0000-4000-a000-0000000000aa', 'default')$$),
  ($$outbox.retry_failed(null, null, null, 10, 'default')$$),
  ($$outbox.discard('00000000-0000-4000-a000-0000000000ab', 'why', 'default')$$),
  ($$outbox.pause('why', 'default')$$),
  ($$outbox.resume('default')$$),
  ($$outbox.wait_published('00000000-0000-4000-a000-0000000000aa', '1 ms', 'default')$$),
  ($$outbox.drain('1 ms', 'default')$$),
  ($$outbox.adopt_position('default')$$);
-- every function that runs as the owner is among them
select p.proname from pg_proc p
where p.pronamespace = 'outbox'::regnamespace and p.prosecdef
  and not exists (select from public.outbox_test_calls where call like 'outbox.' || p.proname || '(%');
create function public.outbox_test_owner() returns uuid language sql security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(owner::text)::uuid, '00000000-0000-4000-a000-000000000000') from outbox.idempotency_keys where scope = 'trapped' and key = 'key'
$$;
grant execute on function outbox.adopt_position(), outbox.adopt_position(text) to outbox_test_mallory;

-- %1$s is the table, %2$I one of its columns
create table public.outbox_test_ways (n serial, way text, owned boolean, attach text);
insert into public.outbox_test_ways (way, owned, attach) values
  ('trigger', false, 'create trigger a_trap before insert or update or delete on %1$s for each row execute function outbox_test_mallory.trap()'),
  ('trigger', false, 'create trigger z_trap after insert or update or delete on %1$s for each row execute function outbox_test_mallory.trap()'),
  ('trigger', false, 'create trigger s_trap after insert or update or delete on %1$s for each statement execute function outbox_test_mallory.trap()'),
  ('trigger', false, 'create constraint trigger c_trap after insert or update or delete on %1$s for each row execute function outbox_test_mallory.trap()'),
  ('condition', false, 'create trigger w_trap after insert or update on %1$s for each row when (outbox_test_mallory.note(new.%2$I::text)) execute function pg_catalog.suppress_redundant_updates_trigger()'),
  ('always', true, 'create trigger a_trap before insert or update or delete on %1$s for each row execute function outbox_test_mallory.trap(); alter table %1$s enable always trigger a_trap'),
  ('replica', true, 'create trigger a_trap before insert or update or delete on %1$s for each row execute function outbox_test_mallory.trap(); alter table %1$s enable replica trigger a_trap'),
  ('rule', true, 'create rule a_trap as on insert to %1$s do also select outbox_test_mallory.note(''rule'')'),
  ('rule', true, 'create rule a_trap as on update to %1$s do also select outbox_test_mallory.note(''rule''); alter table %1$s enable always rule a_trap'),
  ('rule', true, 'create rule a_trap as on delete to %1$s do also select outbox_test_mallory.note(''rule'')'),
  ('policy', true, 'create policy a_trap on %1$s using (outbox_test_mallory.note(''policy'')) with check (outbox_test_mallory.note(''policy'')); alter table %1$s enable row level security, force row level security'),
  ('check', true, 'alter table %1$s add constraint a_trap check (outbox_test_mallory.note(%2$L)) not valid'),
  ('default', true, 'alter table %1$s add column a_trap boolean default outbox_test_mallory.note(''default'')'),
  ('default', true, 'alter table %1$s alter column %2$I set default (case when outbox_test_mallory.note(''default'') then null end)'),
  ('generated', true, 'alter table %1$s add column a_trap boolean generated always as (outbox_test_mallory.note_of(%2$I, ''generated'')) stored'),
  ('index', true, 'create index a_trap on %1$s (outbox_test_mallory.note_of(%2$I, ''index''))'),
  ('predicate', true, 'create index a_trap on %1$s (%2$I) where outbox_test_mallory.note_of(%2$I, ''predicate'')'),
  ('domain', true, 'alter table %1$s add column a_trap outbox_test_mallory.text default ''x'''),
  ('nothing', true, '');

-- Does it all, and takes it back: what ran as somebody else than mallory, what else failed, and how many calls worked.
create function public.outbox_test_attack(attach text, target text, owned boolean, given_back boolean,
                                          caller text default 'outbox_test_mallory',
                                          out attached boolean, out loot text, out failed text, out worked int)
language plpgsql as $$
declare
  c record;
begin
  attached := false;
  worked := 0;
  begin
    if owned then
      execute format('grant create on schema outbox to outbox_test_mallory; alter table %s owner to outbox_test_mallory', target);
    else
      execute format('grant trigger on %s to outbox_test_mallory', target);
    end if;
    set local role outbox_test_mallory;
    execute attach;
    reset role;
    attached := true;
    if given_back then
      execute format('alter table %s owner to current_user', target);
    end if;
    delete from public.outbox_test_loot;
    for c in select call from public.outbox_test_calls order by n loop
      begin
        execute format('set local role %I', caller);
        execute 'select ' || c.call;
        worked := worked + 1;
      exception
        when object_not_in_prerequisite_state then null;
        when others then failed := concat_ws(' ', failed, sqlstate, c.call);
      end;
      reset role;
    end loop;
    select string_agg(distinct l.who || ': ' || l.code, ', ') into loot
      from public.outbox_test_loot l where l.who <> 'outbox_test_mallory';
    raise exception using errcode = 'OT001';
  exception when others then
    if attached and sqlstate <> 'OT001' then
      raise;
    end if;
  end;
end $$;
create view public.outbox_test_targets as
select w.n, w.way, w.owned, c.oid::regclass::text as target,
  format(w.attach, c.oid::regclass,
    (select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       and a.attnum <> all (coalesce((select array_agg(k) from pg_index i, unnest(i.indkey) k where i.indrelid = c.oid and i.indisprimary), '{}'))
     order by a.attnum desc limit 1)) as attach
from public.outbox_test_ways w
cross join pg_class c
where c.relnamespace = 'outbox'::regnamespace and c.relkind in ('r', 'p')
  and (c.relname !~ '^events_[0-9]' or c.relname = 'events_0');

-- the trap works: who writes to the table as everybody does, runs it
begin;
grant trigger on outbox.consumer_offsets to outbox_test_mallory;
create trigger a_trap before insert on outbox.consumer_offsets for each row execute function outbox_test_mallory.trap();
insert into outbox.consumer_offsets values ('trapped', 'trap', 0, 1);
select who = current_user as ran_as_superuser, code from public.outbox_test_loot;
rollback;

-- Who may only create triggers: none of them fires, and all calls work as without.
select t.way, count(*) > 0 as tried, bool_or(a.attached) as attached, string_agg(distinct a.loot, ', ') as loot,
  string_agg(distinct a.failed, ', ') as failed, min(a.worked) filter (where a.attached) as worked
from public.outbox_test_targets t, public.outbox_test_attack(t.attach, t.target, false, false) a
where not t.owned group by t.way order by min(t.n);
-- Who owns a table: what would use it refuses.
select t.way, bool_or(a.attached) as attached, string_agg(distinct a.loot, ', ') as loot,
  string_agg(distinct a.failed, ', ') as failed, max(a.worked) filter (where a.attached) as worked
from public.outbox_test_targets t, public.outbox_test_attack(t.attach, t.target, true, false) a
where t.owned and t.target in ('outbox.events_0', 'outbox.deliveries', 'outbox.consumer_offsets', 'outbox.idempotency_keys') group by t.way order by min(t.n);
-- Who owned it once, and left something behind.
select t.way, bool_or(a.attached) as attached, string_agg(distinct a.loot, ', ') as loot,
  string_agg(distinct a.failed, ', ') as failed, max(a.worked) filter (where a.attached) as worked
from public.outbox_test_targets t, public.outbox_test_attack(t.attach, t.target, true, true) a
where t.owned and t.target in ('outbox.events', 'outbox.events_0', 'outbox.deliveries', 'outbox.consumer_offsets', 'outbox.idempotency_keys', 'outbox.relay_position') group by t.way order by min(t.n);
-- Where the transaction keeps its snapshot, mark_processed() works by another way.
begin isolation level repeatable read;
select t.way, bool_or(a.attached) as attached, string_agg(distinct a.loot, ', ') as loot, string_agg(distinct a.failed, ', ') as failed
from public.outbox_test_targets t, public.outbox_test_attack(t.attach, t.target, t.owned, false) a
where t.target = 'outbox.processed_events' group by t.way order by min(t.n);
rollback;

-- It is a superuser who calls, and so lends his own rights to what runs in the call, whatever table it is of.
select t.way, bool_or(a.attached) as attached, string_agg(distinct a.loot, ', ') as loot, string_agg(distinct a.failed, ', ') as failed,
  max(a.worked) filter (where a.attached and t.owned) as worked
from public.outbox_test_targets t, public.outbox_test_attack(t.attach, t.target, t.owned, false, current_user) a
where t.target in ('outbox.processed_events', 'outbox.consumer_offsets', 'outbox.events') group by t.way order by min(t.n);
-- What a former owner of processed_events has left behind.
select t.way, bool_or(a.attached) as attached, string_agg(distinct a.loot, ', ') as loot, string_agg(distinct a.failed, ', ') as failed
from public.outbox_test_targets t, public.outbox_test_attack(t.attach, t.target, true, true, current_user) a
where t.owned and t.target = 'outbox.processed_events' group by t.way order by min(t.n);

-- Who owns the schema gives it another name, and puts his own in its place.
begin;
alter schema outbox owner to outbox_test_mallory;
grant create on database :"DBNAME" to outbox_test_mallory;
set local role outbox_test_mallory;
alter schema outbox rename to outbox_test_moved;
create schema outbox;
create function outbox.delivery_to_settle(uuid) returns text language plpgsql as $$
begin perform outbox_test_mallory.note('function'); return null; end $$;
create function outbox.retry_as_owner(uuid) returns boolean language sql as $$ select outbox_test_mallory.note('function') $$;
create view outbox.consumer_offsets as select * from outbox_test_moved.consumer_offsets where outbox_test_mallory.note('view');
create view outbox.events as select * from outbox_test_moved.events where outbox_test_mallory.note('view');
savepoint moved;
select outbox_test_moved.retry('00000000-0000-4000-a000-0000000000aa');
rollback to moved;
select outbox_test_moved.stored_offsets('trapped');
rollback to moved;
select outbox_test_moved.drain('1 ms');
rollback to moved;
select outbox_test_moved.emit('a', 'b', 'c', null);
rollback to moved;
reset role;
select * from public.outbox_test_loot;
rollback;
-- What is said, and that it is over when it has been put right.
begin;
alter table outbox.consumer_offsets owner to outbox_test_mallory;
savepoint given;
select outbox.stored_offsets('trapped');
rollback to given;
alter table outbox.consumer_offsets owner to current_user;
select outbox.stored_offsets('trapped');
rollback;
begin;
create index a_trap on outbox.consumer_offsets (outbox_test_mallory.note(topic));
savepoint made;
select outbox.stored_offsets('trapped');
rollback to made;
drop index outbox.a_trap;
select outbox.stored_offsets('trapped');
rollback;

select outbox.revoke_emitter('outbox_test_mallory'), outbox.revoke_consumer('outbox_test_mallory'),
  outbox.revoke_operator('outbox_test_mallory');
delete from outbox.deliveries where topic = 'outbox.event.trap';
delete from outbox.replay_requests where id = '00000000-0000-4000-a000-0000000000ac';
drop function public.outbox_test_attack, public.outbox_test_owner;
drop view public.outbox_test_targets;
drop table public.outbox_test_ways, public.outbox_test_calls, public.outbox_test_loot;
drop owned by outbox_test_mallory cascade;
drop role outbox_test_mallory;
