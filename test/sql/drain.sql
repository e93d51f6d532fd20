-- outbox.drain() without a Kafka to publish to.
\set SHOW_CONTEXT never
select outbox.emit('drain', '1', 'made', null) is not null as emitted;
select outbox.drain('10 ms');
select outbox.drain('-1 s');
select outbox.drain(null);
begin;
select outbox.emit('drain', '2', 'made', null) is not null as emitted;
select outbox.drain();
rollback;
begin isolation level serializable;
select outbox.drain();
rollback;
begin isolation level repeatable read;
select outbox.drain('1 ms');
rollback;
-- a transaction that failed has emitted nothing
begin;
savepoint s;
select outbox.emit('drain', '3', 'made', null) is not null as emitted;
rollback to s;
select outbox.drain('1 ms');
rollback;

-- whoever waits holds no lock on what the extension owns, and does not wait for ever
begin;
select outbox.drain('10 ms') is not null as drained;
savepoint s;
select outbox.wait_published('00000000-0000-4000-8000-00000000dead', '10 ms');
rollback to s;
select l.relation::regclass, l.mode from pg_locks l join pg_class c on c.oid = l.relation
where l.pid = pg_backend_pid() and c.relnamespace = 'outbox'::regnamespace order by 1;
rollback;
select outbox.drain('25 hours');
select outbox.drain('100 years');
select outbox.drain('178000000 years');
select outbox.wait_published('00000000-0000-4000-8000-00000000dead', '1 month');
select outbox.drain('-178000000 years') is not null as drained;
select outbox.drain('-1 s') is not null as drained;
-- an error within leaves the caller's own savepoints alone
do $$
begin
  begin
    perform outbox.wait_published('00000000-0000-4000-8000-00000000dead', '0');
  exception when undefined_object then
    raise notice 'unknown';
  end;
  begin
    perform 1 / 0;
  exception when division_by_zero then
    raise notice 'divided';
  end;
end $$;
