-- What the views show while no Kafka is configured, and wait_published().
\set SHOW_CONTEXT never
do $$
begin
  for i in 1..200 loop
    exit when (select state from outbox.relay_status) = 'not_configured';
    perform pg_sleep(0.05);
  end loop;
end $$;
select state, pid is not null as has_pid, in_flight_events, published_total, consecutive_failures, last_error, config_error
from outbox.relay_status;
select pid = (select pid from pg_stat_activity where backend_type = 'outbox relay' and datname = current_database())
from outbox.relay_status;
-- rolled-back events may count until the relay has read them
select backlog_events >= (select count(*) from outbox.events) as counts_all, oldest_event_at is not null as has_oldest, backlog_age > '0' as age
from outbox.relay_status;
select retrying_events, waiting_events, oldest_waiting_at from outbox.relay_status;
-- it needs no lock on the events, which others may hold, or want
begin;
select r::text <> '' as shown from outbox.relay_status r;
select count(*) from pg_locks l join pg_class c on c.oid = l.relation where l.pid = pg_backend_pid() and c.relname ~ '^events';
commit;
select distinct status, attempts, next_attempt_at, published_at, last_error from outbox.event_status;
select (select count(*) from outbox.event_status) = (select count(*) from outbox.events) as one_row_each;

select outbox.emit('wait', '1', 'made', null) as id \gset
select outbox.wait_published(:'id', '50 ms');
select outbox.wait_published(:'id', '-1 s');
select outbox.wait_published('00000000-0000-4000-8000-0000000000ee');
select outbox.wait_published(null);
select outbox.wait_published(:'id', null);
begin;
select outbox.emit('wait', '2', 'made', null) is not null;
select outbox.wait_published(:'id');
rollback;
begin isolation level repeatable read;
select outbox.wait_published(:'id');
rollback;
-- after a rolled-back savepoint nothing is emitted
begin;
savepoint s;
select outbox.emit('wait', '3', 'made', null) is not null;
rollback to s;
select outbox.wait_published(:'id', '1 ms');
commit;
