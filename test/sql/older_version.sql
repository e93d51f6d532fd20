-- A newer library with the extension at 0.1, as after an update of the package: events are kept, and the relay waits.
-- Every function that the script of 0.1 names is still in the library, or CREATE EXTENSION would fail.
\set SHOW_CONTEXT never
set client_min_messages = warning;
select current_database() as home \gset
create database outbox_older;
\c outbox_older
create extension outbox version '0.1';
create procedure wait_for(what text) language plpgsql as $$
begin
  for i in 1..600 loop
    exit when (select s.state = 'update_required' and s.last_error ~ what from outbox.relay_status s);
    perform pg_sleep(0.05);
  end loop;
end $$;
call wait_for('0.1');
-- nobody has counted what there was when the server started
select backlog_events from outbox.relay_status;
select state, pid, regexp_replace(last_error, 'serves [0-9.]+', 'serves N') as last_error from outbox.relay_status;
select outbox.version() <> '0.1' as newer_library;

-- All that applications call.
select outbox.emit('older', '1', 'made', '{"a": 1}', '{"h": "v"}', event_id => '0190a000-0000-7000-8000-000000000001');
select outbox.emit_bytes('older', '2', 'made', '\x00') is not null as emitted;
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('older', '3', 'made');
select outbox.mark_processed('0190a000-0000-7000-8000-000000000001', 'c'), outbox.mark_processed('0190a000-0000-7000-8000-000000000001', 'c');
select outbox.mark_processed_many(array['0190a000-0000-7000-8000-000000000001', '0190a000-0000-7000-8000-000000000002']::uuid[], 'c');
select outbox.is_processed('0190a000-0000-7000-8000-000000000001', 'c');
select outbox.record_offset('c', 't', 0, 5);
select * from outbox.stored_offsets('c');
select outcome, owner is not null as has_owner from outbox.idempotency_begin('s', 'k', outbox.request_hash('POST', '/', '\x'));
select outbox.wait_published('0190a000-0000-7000-8000-000000000001', '1 ms');
select outbox.drain('1 ms');
select outbox.pause('older'), outbox.resume();
select aggregate_id, status, attempts, last_error from outbox.event_status order by seq;
select task, count(*) from outbox.maintenance_status group by 1 order by 1;
select count(*) from outbox.dead_letters;
create role outbox_older_role;
select outbox.grant_emitter('outbox_older_role'), outbox.grant_monitor('outbox_older_role');
set role outbox_older_role;
select outbox.emit('older', '4', 'made', null) is not null as emitted;
select state from outbox.relay_status;
reset role;
drop owned by outbox_older_role;
drop role outbox_older_role;

-- The update lets the relay continue; here it finds no configuration.
alter extension outbox update;
do $$
begin
  for i in 1..600 loop
    exit when (select state = 'not_configured' from outbox.relay_status);
    perform pg_sleep(0.05);
  end loop;
end $$;
select state, last_error from outbox.relay_status;
select aggregate_id, status from outbox.event_status order by seq;

-- The other way round: a library that is older than the extension. The relay notices by itself.
update pg_extension set extversion = '99.1' where extname = 'outbox';
call wait_for('99.1');
select state, pid, last_error ~ 'the extension is version 99.1 here, the library serves .*: install the package' as told from outbox.relay_status;
select outbox.emit('older', '5', 'made', null) is not null as emitted;
-- Columns that this library does not know are null, and rows of another form are refused.
do $$
begin
  execute format('create function pg_temp.more_state(%s, out more text) returns record language c as ''$libdir/outbox'', ''outbox_relay_state''',
                 pg_get_function_arguments('outbox.relay_state'::regproc));
end $$;
select state, more from pg_temp.more_state();
begin;
alter table outbox.events rename column headers to heads;
select outbox.emit('older', '6', 'made', null);
rollback;

\c :home
set client_min_messages = warning;
drop database outbox_older;
