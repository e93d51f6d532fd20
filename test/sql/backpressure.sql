-- outbox.max_backlog_events: who is warned and refused, and what a refusal leaves behind. Nothing is published here.
\set SHOW_CONTEXT never
\set VERBOSITY terse
create function public.outbox_test_backlog() returns bigint language sql as 'select backlog_events from outbox.backpressure';
-- the relay has counted what is there
do $$
begin
  for i in 1..200 loop
    exit when (select counted from outbox.backpressure);
    perform pg_sleep(0.05);
  end loop;
end $$;
select max_backlog_events, warn_at, backlog_events > 0 as some, counted, level from outbox.backpressure;

-- only superusers set it, for themselves or for others
create role outbox_test_backlog;
set role outbox_test_backlog;
set outbox.max_backlog_events = 0;
reset role;
drop role outbox_test_backlog;
set outbox.max_backlog_events = -1;

-- room for ten more
set client_min_messages = error;
select outbox_test_backlog() as backlog \gset
select set_config('outbox.max_backlog_events', (10 + :backlog)::text, false) is not null as ten;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted;
select outbox_test_backlog() - :backlog as more, max_backlog_events - :backlog as at_most from outbox.backpressure;
-- what a transaction emits counts for itself at once, and no longer when it is rolled back
begin;
insert into outbox.events (aggregate_type, aggregate_id, event_type) select 'backlog', '1', 'made' from generate_series(1, 8);
savepoint s;
select outbox.emit('backlog', '1', 'made', null) is not null as tenth;
select outbox_test_backlog() - :backlog as committed;
\set VERBOSITY sqlstate
select outbox.emit('backlog', '1', 'made', null);
rollback to s;
select outbox.emit_bytes('backlog', '1', 'made', null) is not null as tenth;
savepoint s;
select outbox.emit_bytes('backlog', '1', 'made', null);
rollback to s;
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('backlog', '1', 'made');
rollback to s;
copy outbox.events (aggregate_type, aggregate_id, event_type) from stdin;
backlog	1	made
\.
rollback to s;
commit;
\set VERBOSITY terse
reset client_min_messages;
-- ten have been emitted
select outbox_test_backlog() - :backlog as more, level from outbox.backpressure;
do $$
declare
  message text;
  detail text;
  hint text;
begin
  perform outbox.emit('backlog', '1', 'made', null);
exception when configuration_limit_exceeded then
  get stacked diagnostics message = message_text, detail = pg_exception_detail, hint = pg_exception_hint;
  raise notice '%', regexp_replace(message, '\d+', 'N', 'g');
  raise notice '%', regexp_replace(detail, '\d{4}-\S+ \S+\.$', 'TIME.');
  raise notice '%', hint;
end $$;
-- other work continues; so do rows that a dump brings
select outbox.mark_processed('00000000-0000-4000-8000-000000000010', 'backlog');
begin;
insert into outbox.events (seq, xid, aggregate_type, aggregate_id, event_type) values (1, 1, 'backlog', '1', 'made');
rollback;

-- what a prepared transaction has counts from its commit on, at once, whoever commits it
select outbox_test_backlog() as backlog \gset
set outbox.max_backlog_events = 0;
begin;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted from generate_series(1, 3);
savepoint s;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted;
rollback to s;
prepare transaction 'outbox_backlog_1';
begin;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted from generate_series(1, 5);
prepare transaction 'outbox_backlog_2';
select outbox_test_backlog() - :backlog as prepared;
rollback prepared 'outbox_backlog_2';
begin;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted;
prepare transaction 'outbox_backlog_1';
\c -
set outbox.max_backlog_events = 0;
commit prepared 'outbox_backlog_1';
commit prepared 'outbox_backlog_1';
select outbox_test_backlog() - :backlog as committed;
select set_config('outbox.max_backlog_events', (1 + outbox_test_backlog())::text, false) is not null as one;
set client_min_messages = error;
begin;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted;
prepare transaction 'outbox_backlog_1';
begin;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted;
prepare transaction 'outbox_backlog_2';
commit prepared 'outbox_backlog_1';
commit prepared 'outbox_backlog_2';
select backlog_events - max_backlog_events as over, level from outbox.backpressure;
begin;
\set VERBOSITY sqlstate
select outbox.emit('backlog', '1', 'made', null);
rollback;
reset client_min_messages;

-- in a new session: one warning, to the client alone, and no second one within a minute
\c -
\set VERBOSITY sqlstate
select outbox_test_backlog() as backlog \gset
select set_config('outbox.max_backlog_events', (:backlog + :backlog / 8)::text, false) is not null as near;
select level from outbox.backpressure;
do $$ begin perform outbox.emit('backlog', '1', 'made', null); exception when others then raise notice '%', sqlstate; end $$;
select outbox.emit('backlog', '1', 'made', null) is not null as emitted;
set outbox.max_backlog_events = 0;
select level, warn_at from outbox.backpressure;
drop function public.outbox_test_backlog();
