-- Each group of rights is enough for its work, and for nothing else.
\set SHOW_CONTEXT never
set timezone = 'UTC';
create role outbox_test_emitter;
create role outbox_test_consumer;
create role outbox_test_operator;
create role outbox_test_monitor;
create role "outbox test; drop table outbox.events; --";
select outbox.grant_emitter('outbox_test_emitter'), outbox.grant_consumer('outbox_test_consumer'),
  outbox.grant_operator('outbox_test_operator'), outbox.grant_monitor('outbox_test_monitor'),
  outbox.grant_emitter('"outbox test; drop table outbox.events; --"');
-- not to everybody, nobody, or by just anybody
select outbox.grant_emitter('public');
select outbox.grant_emitter('nobody_of_this_name');
select outbox.grant_emitter(null);
select outbox.grant_emitter('-');
set role outbox_test_operator;
select outbox.grant_operator('outbox_test_emitter');
select outbox.change_rights('operator', 'outbox_test_emitter', true);
reset role;
grant execute on function outbox.grant_operator(regrole), outbox.change_rights(text, regrole, boolean), outbox.rights_of(text)
  to outbox_test_emitter;
set role outbox_test_emitter;
select outbox.grant_operator('outbox_test_emitter');
reset role;
revoke execute on function outbox.grant_operator(regrole), outbox.change_rights(text, regrole, boolean), outbox.rights_of(text)
  from outbox_test_emitter;

-- what somebody else emitted, and something that failed
select outbox.emit('secret', '1', 'made', '{"card": "4711"}', event_id => '00000000-0000-4000-a000-000000000001') \gset
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, last_error, failed_at)
select seq, xid, slot, id, 1, 'outbox.event.secret', '1', 'FAILED', true, 10, 'REFUSED: refused', now()
from outbox.events where id = :'emit';

-- a statement for each thing to try; the code of what came of it
create table public.outbox_test_attempts (n serial, attempt text);
grant select on public.outbox_test_attempts to public;
insert into public.outbox_test_attempts (attempt) values
  ($$select outbox.emit('order', '1', 'made', '{}')$$),
  ($$select outbox.emit_bytes('order', '1', 'made', '\x00')$$),
  ($$insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, headers) values ('order', '2', 'made', '{}', '{}')$$),
  ($$select outbox.wait_published('00000000-0000-4000-a000-000000000001', '1 ms')$$),
  ($$insert into outbox.events (aggregate_type, aggregate_id, event_type, seq, xid) values ('order', '2', 'made', 1, 3)$$),
  ($$insert into outbox.events (aggregate_type, aggregate_id, event_type, slot) values ('order', '2', 'made', 3)$$),
  ($$insert into outbox.events_0 (aggregate_type, aggregate_id, event_type) values ('order', '2', 'made')$$),
  ($$select payload from outbox.events$$),
  ($$select payload from outbox.events_0$$),
  ($$insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', '2', 'made') returning payload$$),
  ($$update outbox.events set payload = null$$),
  ($$delete from outbox.events$$),
  ($$truncate outbox.events$$),
  ($$lock table outbox.events_1 in access exclusive mode$$),
  ($$select nextval('outbox.events_seq')$$),
  ($$select setval('outbox.events_seq', 1)$$),
  ($$select payload from outbox.event_status$$),
  ($$select id, status, attempts, next_attempt_at, published_at, last_error from outbox.event_status$$),
  ($$select payload from outbox.dead_letters$$),
  ($$select event_id, last_error, waiting_behind from outbox.dead_letters$$),
  ($$select * from outbox.relay_status$$),
  ($$select * from outbox.maintenance_status$$),
  ($$select * from outbox.stats$$),
  ($$select * from outbox.stats_total$$),
  ($$select * from outbox.stats_histogram$$),
  ($$select * from outbox.backpressure$$),
  ($$select outbox.stats_reset()$$),
  ($$set outbox.max_backlog_events = 0$$),
  ($$select * from outbox.relay_position$$),
  ($$select * from outbox.deliveries$$),
  ($$select event_id, topic, state, blocking, attempts, next_attempt_at, last_error, reason from outbox.deliveries$$),
  ($$update outbox.deliveries set state = 'DISCARDED'$$),
  ($$delete from outbox.relay_position$$),
  ($$update outbox.ring set is_current = true$$),
  ($$select topic from outbox.routes$$),
  ($$insert into outbox.routes (aggregate_type) values ('mine')$$),
  ($$update outbox.routes set topic = 'mine'$$),
  ($$select outbox.route_of('order', 'made')$$),
  ($$insert into outbox.pauses default values$$),
  ($$delete from outbox.pauses$$),
  ($$select outbox.adopt_position()$$),
  ($$select outbox.request_relay()$$),
  ($$select outbox.notify_relay()$$),
  ($$select outbox.delivery_to_settle('00000000-0000-4000-a000-000000000001', 'default')$$),
  ($$select outbox.retry_failed(max => 1)$$),
  ($$select outbox.discard('00000000-0000-4000-a000-000000000001', 'why')$$),
  ($$select outbox.pause()$$),
  ($$select outbox.resume()$$),
  ($$select outbox.drain('1 ms')$$),
  ($$select outbox.replay('secret', dry_run => false, topic => 'mine')$$),
  ($$select outbox.cancel_replay('00000000-0000-4000-a000-000000000001')$$),
  ($$select * from outbox.replays$$),
  ($$select * from outbox.replay_requests$$),
  ($$update outbox.replay_requests set topic = 'mine'$$),
  ($$insert into outbox.replay_events (replay_id, chunk, held_slots, seqs, xids, slots) values ('00000000-0000-4000-a000-000000000001', 0, '{0}', '{1}', '{1}', '{0}')$$),
  ($$select outbox.replayable_events(null, null, null, null, null, null)$$),
  ($$select outbox.mark_processed('00000000-0000-4000-a000-000000000001', 'me')$$),
  ($$select outbox.record_offset('me', 'orders', 0, 1)$$),
  ($$select outbox.idempotency_begin('me', 'rights', sha256('x'))$$),
  ($$select * from outbox.processed_events$$),
  ($$select * from outbox.idempotency_keys$$),
  ($$select response from outbox.idempotency_keys$$),
  ($$create table outbox.mine ()$$),
  ($$create trigger mine before insert on outbox.events for each row execute function suppress_redundant_updates_trigger()$$),
  ($$alter table outbox.events disable trigger "~before_insert"$$),
  ($$create rule mine as on insert to outbox.events do instead nothing$$),
  ($$set outbox.topic_template = 'mine'$$),
  ($$set outbox.headers_format = 'both'$$),
  ($$set outbox.cloudevents_source = '/mine'$$),
  ($$set outbox.bootstrap_servers = 'mine:9092'$$),
  ($$set outbox.retention = 1$$),
  ($$set outbox.guard_durability = off$$),
  ($$select current_setting('outbox.kafka_config')$$),
  ($$select current_setting('outbox.kafka_config_file')$$),
  ($$select 1 / count(*) from pg_settings where name like 'outbox.kafka_config%'$$),
  ($$select pg_read_file('postgresql.conf')$$),
  ($$select 1 / count(*) from pg_file_settings where name like 'outbox.%'$$),
  ($$select set_config('session_replication_role', 'replica', false)$$);
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
      result := case sqlstate when 'OT001' then 'yes' when '42501' then '-' else sqlstate end;
    end;
    insert into public.outbox_test_results values (current_user, a.n, result);
  end loop;
end $$;
set role outbox_test_emitter; select public.outbox_test_try_all();
set role outbox_test_consumer; select public.outbox_test_try_all();
set role outbox_test_operator; select public.outbox_test_try_all();
set role outbox_test_monitor; select public.outbox_test_try_all();
reset role;
select e.result as emitter, c.result as consumer, o.result as operator, m.result as monitor, a.attempt
from public.outbox_test_attempts a
join public.outbox_test_results e on e.n = a.n and e.role = 'outbox_test_emitter'
join public.outbox_test_results c on c.n = a.n and c.role = 'outbox_test_consumer'
join public.outbox_test_results o on o.n = a.n and o.role = 'outbox_test_operator'
join public.outbox_test_results m on m.n = a.n and m.role = 'outbox_test_monitor'
order by a.n;

-- functions, operators, casts and tables of the caller's search_path are not asked by what runs with the owner's rights
create schema outbox_test authorization outbox_test_operator;
set role outbox_test_operator;
create function outbox_test.never(uuid, uuid) returns boolean language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create function outbox_test.never(text, text) returns boolean language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create function outbox_test.never(bigint, bigint) returns boolean language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create operator outbox_test.= (leftarg = uuid, rightarg = uuid, procedure = outbox_test.never);
create operator outbox_test.= (leftarg = text, rightarg = text, procedure = outbox_test.never);
create operator outbox_test.= (leftarg = bigint, rightarg = bigint, procedure = outbox_test.never);
create operator outbox_test.>= (leftarg = bigint, rightarg = bigint, procedure = outbox_test.never);
create operator outbox_test.<= (leftarg = bigint, rightarg = bigint, procedure = outbox_test.never);
create function outbox_test.format(text, uuid) returns text language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create function outbox_test.clock_timestamp() returns timestamptz language plpgsql as $$ begin raise exception 'called as %', current_user; end $$;
create table outbox_test.pg_proc (oid oid);
create temp table deliveries (seq bigint);
set search_path = outbox_test, pg_temp, pg_catalog;
select outbox.retry('00000000-0000-4000-a000-000000000001');
select outbox.discard('00000000-0000-4000-a000-000000000001', 'why');
select outbox.drain('1 ms');
select outbox.replay('secret', 'made', '1', dry_run => false) is not null as replayed;
select outbox.cancel_replay('00000000-0000-4000-a000-000000000001');
select outbox.pause('why'), outbox.resume();
reset role;
select outbox.grant_monitor('outbox_test_operator'), outbox.grant_emitter('outbox_test_operator');
set role outbox_test_operator;
select outbox.emit('order', '3', 'made', '{}') is not null as emitted;
select outbox.wait_published('00000000-0000-4000-a000-000000000001', '1 ms');
select pg_catalog.count(*) operator(pg_catalog.>) 0 as shown from outbox.relay_status;
select pg_catalog.count(*) operator(pg_catalog.>) 0 as shown from outbox.replays;
reset role;
reset search_path;

-- taken back one by one; the last group takes the schema with it
select outbox.revoke_operator('outbox_test_operator'), outbox.revoke_emitter('outbox_test_operator');
set role outbox_test_operator;
select count(event_id) > 0 as seen from outbox.dead_letters;
select outbox.pause();
reset role;
select outbox.revoke_monitor('outbox_test_operator'), outbox.revoke_monitor('outbox_test_monitor'),
  outbox.revoke_emitter('outbox_test_emitter'), outbox.revoke_consumer('outbox_test_consumer'),
  outbox.revoke_emitter('"outbox test; drop table outbox.events; --"');
delete from outbox.deliveries;
delete from outbox.replay_requests;
set client_min_messages = error;
drop schema outbox_test cascade;
reset client_min_messages;
drop function public.outbox_test_try_all();
drop table public.outbox_test_attempts, public.outbox_test_results;
drop table if exists pg_temp.deliveries;
drop role outbox_test_emitter, outbox_test_consumer, outbox_test_operator, outbox_test_monitor,
  "outbox test; drop table outbox.events; --";
