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
