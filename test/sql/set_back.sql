-- Somebody sets the sequence of event numbers back: no number is given twice, and later events have larger ones.
\set SHOW_CONTEXT never
create role outbox_test_emitter;
select outbox.grant_emitter('outbox_test_emitter');
create function pg_temp.numbers() returns text language sql as $$
  select string_agg(e.seq::text, ' ' order by e.created_at, e.seq) from outbox.events e where e.aggregate_type = 'set_back'
$$;
-- The relay looks once a second, and sets forward what it finds set back. What is set back and used below is so in a
-- transaction, as this statement, which changes nothing, keeps the relay away until its end.
\set HOLD 'alter sequence outbox.events_seq owner to current_user'
select setval('outbox.events_seq', 1000000);
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;

-- far back, and an emitter has no right to the sequence
begin;
:HOLD;
select setval('outbox.events_seq', 500000);
set role outbox_test_emitter;
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
commit;
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
select current_user;
reset role;
select pg_temp.numbers();

-- a little; a plain INSERT
begin;
:HOLD;
select setval('outbox.events_seq', 1000001, false);
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('set_back', 'k', 'e');
commit;
select pg_temp.numbers();

-- within a transaction, which is rolled back to a savepoint: what was given stays given
begin;
:HOLD;
savepoint a;
select setval('outbox.events_seq', 1);
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
rollback to a;
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
commit;
select pg_temp.numbers();

-- ALTER SEQUENCE, committed or not
begin;
alter sequence outbox.events_seq restart with 5;
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
rollback;
begin;
alter sequence outbox.events_seq restart;
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
commit;
select pg_temp.numbers();

-- one that does not count upwards
alter sequence outbox.events_seq increment by -1;
\set VERBOSITY terse
select outbox.emit('set_back', 'k', 'e', '{}');
\set VERBOSITY default
alter sequence outbox.events_seq increment by 1;

-- what can only have been set is not believed
select setval('outbox.events_seq', 9223372036854775806);
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
begin;
:HOLD;
select setval('outbox.events_seq', 2000000);
select outbox.emit('set_back', 'k', 'e', '{}') is not null as emitted;
commit;
select pg_temp.numbers();
delete from outbox.events where aggregate_type = 'set_back';
select outbox.revoke_emitter('outbox_test_emitter');
drop role outbox_test_emitter;
