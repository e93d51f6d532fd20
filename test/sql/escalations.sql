-- What an application, and what operators and monitors, try in order to get at other's payloads, topics, delivery state,
-- secrets or the rights of the owner. What each group may do is in rights.sql.
\set SHOW_CONTEXT never
create role outbox_test_app;
create role outbox_test_staff;
select outbox.grant_emitter('outbox_test_app'), outbox.grant_consumer('outbox_test_app'),
  outbox.grant_operator('outbox_test_staff'), outbox.grant_monitor('outbox_test_staff');
create schema outbox_test_app authorization outbox_test_app;
create schema outbox_test_staff authorization outbox_test_staff;
select outbox.emit('secret', '1', 'made', '{"card": "4711"}') is not null as emitted;
analyze outbox.events;

-- each statement is to fail: "-" insufficient_privilege, 22012 it found no row; "YES" would be that it did not
create table public.outbox_test_attempts (n serial, attempt text);
grant select on public.outbox_test_attempts to public;
insert into public.outbox_test_attempts (attempt) values
  -- payloads by another way
  ($$select query_to_xml('table outbox.events', true, false, '')$$),
  ($$select query_to_xml('select payload from outbox.events', true, false, '')$$),
  ($$select 1 / count(*) from pg_stats where schemaname = 'outbox'$$),
  ($$select 1 / count(*) from pg_statistic$$),
  ($$select payload from outbox.event_status where payload is not null$$),
  ($$select id from outbox.event_status where payload is not null$$),
  ($$select id from outbox.events where payload is not null$$),
  ($$insert into outbox.events (aggregate_type, aggregate_id, event_type) select aggregate_type, 'copy', payload::text from outbox.events$$),
  ($$grant select on outbox.events to current_user$$),
  ($$alter table outbox.events owner to current_user$$),
  ($$create table mine (like outbox.events) partition by list (slot); alter table mine attach partition outbox.events_0 for values in (0)$$),
  ($$create table mine () inherits (outbox.deliveries)$$),
  -- topics
  ($$set outbox.topic_template = 'mine'$$),
  ($$set local outbox.topic_template = 'mine'$$),
  ($$select set_config('outbox.topic_template', 'mine', true)$$),
  ($$alter role current_user set outbox.topic_template = 'mine'$$),
  ($$create function f() returns int language sql set outbox.topic_template = 'mine' as 'select 1'$$),
  -- delivery state and what the relay does
  ($$update outbox.relay_position set last_seq = 0$$),
  ($$insert into outbox.ticks values (1, '3:3:', now())$$),
  ($$insert into outbox.deliveries select * from outbox.deliveries$$),
  ($$update outbox.expiry set removed_total = 0$$),
  ($$delete from outbox.processed_events$$),
  ($$alter sequence outbox.events_seq restart$$),
  ($$create index on outbox.events_0 (seq)$$),
  ($$create trigger mine before insert on outbox.relay_position for each row execute function suppress_redundant_updates_trigger()$$),
  ($$create policy mine on outbox.deliveries$$),
  ($$alter table outbox.deliveries enable row level security$$),
  ($$create or replace view outbox.current_position as select 1$$),
  ($$create or replace function outbox.visible_in(bigint, pg_snapshot) returns boolean language sql as 'select true'$$),
  ($$create function outbox.visible_in(int, pg_snapshot) returns boolean language sql as 'select true'$$),
  ($$create operator outbox.= (leftarg = int8, rightarg = int8, procedure = int8eq)$$),
  ($$create type outbox.mine as (a int)$$),
  ($$create cast (bigint as jsonb) with inout as implicit$$),
  ($$alter function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int) security invoker$$),
  ($$alter function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int) reset search_path$$),
  ($$drop extension outbox$$),
  ($$alter extension outbox update$$),
  ($$alter extension outbox drop table outbox.deliveries$$),
  ($$alter schema outbox rename to mine$$),
  ($$drop schema outbox cascade$$),
  ($$select outbox.rights_of('emitter')$$),
  -- secrets
  ($$show outbox.kafka_config$$),
  ($$select pg_catalog.current_setting('outbox.kafka_config_file', true)$$),
  ($$select 1 / count(*) from pg_catalog.pg_show_all_settings() where name like 'outbox.kafka_config%'$$),
  ($$select 1 / count(*) from pg_catalog.pg_show_all_file_settings()$$),
  ($$set outbox.kafka_config = 'sasl.password=x'$$),
  ($$select pg_read_file(current_setting('data_directory') || '/postgresql.auto.conf')$$),
  ($$select pg_read_binary_file('PG_VERSION')$$),
  ($$select pg_ls_dir('.')$$),
  ($$select lo_import('/etc/passwd')$$),
  ($$copy mine from '/etc/passwd'$$),
  ($$copy (select 1) to program 'true'$$),
  -- the owner's rights
  ($$alter role current_user superuser$$),
  ($$set session_replication_role = replica$$),
  ($$set outbox.guard_durability = off$$),
  ($$load 'outbox_relay'$$),
  ($$create function f() returns void language c as '$libdir/outbox', 'outbox_notify_relay'$$),
  ($$select outbox.timeline()$$),
  ($$select outbox.data_directory()$$);
create table public.outbox_test_results (role text, n int, result text);
grant select, insert on public.outbox_test_results to public;
create function public.outbox_test_try_all() returns void language plpgsql as $$
declare
  a record;
  result text;
begin
  for a in select * from public.outbox_test_attempts order by n loop
    begin
      execute a.attempt;
      raise exception using errcode = 'OT001';
    exception when others then
      result := case sqlstate when 'OT001' then 'YES' when '42501' then '-' else sqlstate end;
    end;
    insert into public.outbox_test_results values (current_user, a.n, result);
  end loop;
end $$;
set role outbox_test_app;
set search_path = outbox_test_app, public;
select public.outbox_test_try_all();
set role outbox_test_staff;
set search_path = outbox_test_staff, public;
select public.outbox_test_try_all();
reset role;
reset search_path;
select a.result as app, s.result as staff, t.attempt
from public.outbox_test_attempts t
join public.outbox_test_results a on a.n = t.n and a.role = 'outbox_test_app'
join public.outbox_test_results s on s.n = t.n and s.role = 'outbox_test_staff'
order by t.n;

-- what cannot be tried in a function
set role outbox_test_app;
copy outbox.events to stdout;
\set VERBOSITY sqlstate
-- refused while it is planned, in the words of a function of the view, or when it begins: that depends on the minor version
copy (select payload from outbox.event_status) to stdout;
alter system set outbox.bootstrap_servers = 'mine:9092';
alter system set outbox.kafka_config = 'sasl.password=hunter2';
\set VERBOSITY default
-- what a message says of a refused secret
set outbox.kafka_config = 'sasl.password=hunter2';
reset role;
set outbox.kafka_config = 'sasl.password=hunter2 acks=0';

-- an operator sees the payloads of failed events, and no others by a condition that is looked at first
select outbox.emit('failed', '1', 'made', '{"failed": true}', event_id => '00000000-0000-4000-a000-0000000000f1') is not null as emitted;
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking)
select seq, xid, slot, id, 1, 'outbox.event.failed', '1', 'FAILED', true from outbox.events where aggregate_type = 'failed';
set role outbox_test_staff;
create table outbox_test_staff.leaked (payload jsonb);
create function outbox_test_staff.leak(payload jsonb) returns boolean language plpgsql strict cost 0.0000001 as $$
begin
  insert into outbox_test_staff.leaked values ($1);
  return true;
end $$;
create function outbox_test_staff.try() returns setof jsonb language plpgsql as $$
declare
  setting text;
begin
  foreach setting in array array['nestloop', 'indexscan', 'bitmapscan', 'mergejoin', 'seqscan', 'hashjoin'] loop
    perform set_config('enable_' || setting, 'off', true);
    perform event_id from outbox.dead_letters where outbox_test_staff.leak(payload);
  end loop;
  return query select distinct l.payload from outbox_test_staff.leaked l;
end $$;
select * from outbox_test_staff.try();
reset role;
-- without the barrier he would
begin;
alter view outbox.dead_letters reset (security_barrier);
set local role outbox_test_staff;
select count(*) > 1 as leaked from outbox_test_staff.try();
rollback;
delete from outbox.deliveries where topic = 'outbox.event.failed';
-- any other view that has a condition is granted to nobody (current_position, current_positions) or has it in subqueries, and shows all rows
select c.oid::regclass as no_barrier from pg_class c
where c.relnamespace = 'outbox'::regnamespace and c.relkind = 'v'
  and pg_get_viewdef(c.oid) ~* '\mwhere\M' and not coalesce(c.reloptions::text ~ 'security_barrier=true', false)
order by c.relname;

-- types, casts and operators of the caller are converted and called as the caller, before anything runs as the owner
set role outbox_test_app;
create table outbox_test_app.ran_as (who text);
create type outbox_test_app.document as (text text);
create function outbox_test_app.to_jsonb(outbox_test_app.document) returns jsonb language plpgsql as $$
begin
  insert into outbox_test_app.ran_as values (current_user);
  return pg_catalog.to_jsonb($1.text);
end $$;
create cast (outbox_test_app.document as jsonb) with function outbox_test_app.to_jsonb(outbox_test_app.document) as implicit;
create function outbox_test_app.check_text(text) returns boolean language plpgsql as $$
begin
  insert into outbox_test_app.ran_as values (current_user);
  return true;
end $$;
create domain outbox_test_app.name as text check (outbox_test_app.check_text(value));
create function outbox_test_app.length(text) returns int language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create function outbox_test_app.now() returns timestamptz language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create function outbox_test_app.never(interval, interval) returns boolean language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create operator outbox_test_app.<= (leftarg = interval, rightarg = interval, procedure = outbox_test_app.never);
create operator outbox_test_app.<> (leftarg = interval, rightarg = interval, procedure = outbox_test_app.never);
create temp table events (seq bigint);
create temp table processed_events (consumer text);
set search_path = outbox_test_app, pg_temp, pg_catalog;
select outbox.emit('order'::outbox_test_app.name, '1', 'made', row('x')::outbox_test_app.document) is not null as emitted;
select outbox.mark_processed('00000000-0000-4000-b000-000000000001', 'me'::outbox_test_app.name);
select outcome from outbox.idempotency_begin('me', 'escalation'::outbox_test_app.name, sha256('x'), '1 h', 'single_tx', '1 min');
select outbox.stored_offsets('escalations'::outbox_test_app.name);
select distinct who from outbox_test_app.ran_as;
select seq from events;
select consumer from processed_events;
reset search_path;
reset role;

-- every function that runs with the owner's rights pins the search path, with pg_temp last, and so does everything that is not C
select p.oid::regprocedure from pg_proc p join pg_language l on l.oid = p.prolang
where p.pronamespace = 'outbox'::regnamespace and (p.prosecdef or l.lanname <> 'c')
  and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false);
-- and none of these belongs to somebody else than the extension's owner
select p.oid::regprocedure from pg_proc p
where p.pronamespace = 'outbox'::regnamespace
  and p.proowner <> (select extowner from pg_extension where extname = 'outbox');
-- the extension stays where it is
alter extension outbox set schema public;

drop table pg_temp.events, pg_temp.processed_events;
set client_min_messages = error;
select outbox.revoke_emitter('outbox_test_app'), outbox.revoke_consumer('outbox_test_app'),
  outbox.revoke_operator('outbox_test_staff'), outbox.revoke_monitor('outbox_test_staff');
drop owned by outbox_test_app, outbox_test_staff cascade;
reset client_min_messages;
drop function public.outbox_test_try_all();
drop table public.outbox_test_attempts, public.outbox_test_results;
drop role outbox_test_app, outbox_test_staff;
