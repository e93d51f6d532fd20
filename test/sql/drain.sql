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
-- a day is 24 hours, also where the clocks are set back within the next ones
select set_config('timezone', format('AAA0BBB-1,%s/%s,%s/%s', (t.doy + 180) % 365, 0, t.doy, t.hour), false) is not null as set
from (select extract(doy from n.at)::int - 1 as doy, extract(hour from n.at)::int as hour
  from (select clock_timestamp() at time zone 'UTC' + interval '6 h' as at) n) t;
select clock_timestamp() + interval '1 day' > clock_timestamp() + interval '24.5 h' as long_day;
select outbox.wait_published('00000000-0000-4000-8000-00000000dead', '1 day');
select outbox.wait_published('00000000-0000-4000-8000-00000000dead', '1 day 1 us');
select outbox.wait_published('00000000-0000-4000-8000-00000000dead', '1 month -29 days');
select outbox.wait_published('00000000-0000-4000-8000-00000000dead', '1 month -30 days');
reset timezone;
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
