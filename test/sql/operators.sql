-- What operators do with refused events. The rows are made by hand here; the relay makes them otherwise.
\set SHOW_CONTEXT never
set timezone = 'UTC';
create function pg_temp.set_aside(event_id uuid, state text, attempts int, failed_at timestamptz default now())
returns void language sql as $$
  insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, last_error, failed_at)
  select e.seq, e.xid, e.slot, e.id, hashtext(e.aggregate_id), 'outbox.event.' || e.aggregate_type, e.aggregate_id, state,
    state in ('RETRYING', 'FAILED'), attempts, case when attempts > 0 then 'MSG_SIZE_TOO_LARGE: too large' end, failed_at
  from outbox.events e where e.id = event_id
$$;
create function pg_temp.id(n int) returns uuid language sql as $$ select format('00000000-0000-4000-9000-%s', lpad(n::text, 12, '0'))::uuid $$;
select count(outbox.emit('ops', case when n <= 3 then 'a' else n::text end, case when n % 2 = 0 then 'even' else 'odd' end, '{}', event_id => pg_temp.id(n)))
from generate_series(1, 9) n;
select pg_temp.set_aside(pg_temp.id(1), 'FAILED', 10, '2020-01-01'), pg_temp.set_aside(pg_temp.id(2), 'WAITING', 0),
  pg_temp.set_aside(pg_temp.id(3), 'WAITING', 0), pg_temp.set_aside(pg_temp.id(4), 'RETRYING', 2),
  pg_temp.set_aside(pg_temp.id(5), 'FAILED', 3, '2020-01-02'), pg_temp.set_aside(pg_temp.id(6), 'FAILED', 3, '2020-01-03'),
  pg_temp.set_aside(pg_temp.id(7), 'FAILED', 3, '2020-01-04');
create view pg_temp.rows as
  select event_id, state, blocking, attempts, next_attempt_at is not null as due, settled_by is not null as settled, reason
  from outbox.deliveries order by seq;
select event_id, aggregate_id, event_type, attempts, last_error, waiting_behind from outbox.dead_letters order by seq;
select id, status, attempts from outbox.event_status where aggregate_type = 'ops' order by seq;

-- null, unknown, and events that have not failed: an error each, and nothing changed
select outbox.retry(null);
select outbox.discard(null, 'why');
select outbox.retry(pg_temp.id(99));
select outbox.discard(pg_temp.id(99), 'why');
select outbox.retry(pg_temp.id(8));
select outbox.discard(pg_temp.id(8), 'why');
select outbox.retry(pg_temp.id(2));
select outbox.discard(pg_temp.id(1), null);
select outbox.discard(pg_temp.id(1), '   ');
select outbox.retry_failed(max => 0);
select outbox.retry_failed(max => null);
select * from pg_temp.rows;

-- a discarded event stays discarded, with who, when and why
select outbox.discard(pg_temp.id(7), 'sent by hand');
select outbox.discard(pg_temp.id(7), 'again');
\set VERBOSITY terse
select outbox.retry(pg_temp.id(7));
\set VERBOSITY default
select state, settled_by = session_user as by_me, settled_at <= clock_timestamp() as at, reason, blocking
from outbox.deliveries where event_id = pg_temp.id(7);
select status from outbox.event_status where id = pg_temp.id(7);
-- waiting and retried ones can be given up as well
select outbox.discard(pg_temp.id(3), 'not needed');

-- retry: at once and from the start, twice is as good as once
select outbox.retry(pg_temp.id(1));
select outbox.retry(pg_temp.id(1));
select outbox.retry(pg_temp.id(4));
select * from pg_temp.rows;

-- retry_failed: by type, time and number, oldest first
select outbox.retry_failed('other');
select outbox.retry_failed('ops', 'even', '2020-01-04');
select outbox.retry_failed('ops', max => 1);
select event_id from outbox.dead_letters order by seq;
select outbox.retry_failed('ops', 'even', '2020-01-03');
select outbox.retry_failed();
select event_id from outbox.dead_letters order by seq;

-- pause and resume
select outbox.resume();
select outbox.pause('maintenance');
select outbox.pause();
select paused_by = session_user as by_me, reason from outbox.pauses;
select outbox.resume();
select outbox.resume();
select outbox.pause(repeat('ü', 1001));
\echo :SQLSTATE
select outbox.pause(repeat('ü', 1000));
select outbox.pause(repeat('ü', 1001)); -- also when it changes nothing
select char_length(reason) from outbox.pauses;
select outbox.resume();

-- without the right nothing happens; with it no right on a table is needed
create role outbox_test_operator;
grant usage on schema outbox to outbox_test_operator;
set role outbox_test_operator;
select outbox.retry('00000000-0000-4000-9000-000000000001');
select outbox.discard('00000000-0000-4000-9000-000000000001', 'why');
select outbox.retry_failed();
select outbox.pause();
select outbox.resume();
select outbox.notify_relay();
select * from outbox.dead_letters;
reset role;
select count(*) from outbox.pauses;
grant execute on function outbox.retry(uuid), outbox.discard(uuid, text), outbox.pause(text), outbox.resume() to outbox_test_operator;
set role outbox_test_operator;
select outbox.retry('00000000-0000-4000-9000-000000000001');
select outbox.discard('00000000-0000-4000-9000-000000000001', 'why');
select outbox.pause();
select outbox.resume();
update outbox.deliveries set state = 'FAILED';
reset role;
select state, settled_by = session_user as by_session from outbox.deliveries where event_id = pg_temp.id(1);
drop owned by outbox_test_operator;
drop role outbox_test_operator;
delete from outbox.deliveries;
