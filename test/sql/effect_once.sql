-- mark_processed(): true once for each consumer and event.
\set SHOW_CONTEXT never
\set event '\'00000000-0000-4000-8000-0000000000cc\''
select outbox.mark_processed(:event, 'billing');
select outbox.mark_processed(:event, 'billing');
select outbox.mark_processed(:event, 'shipping');
begin;
select outbox.mark_processed(:event, 'audit');
rollback;
select outbox.mark_processed(:event, 'audit');
select consumer, event_id from outbox.processed_events order by consumer;
select outbox.mark_processed(null, 'billing');
select outbox.mark_processed(:event, null);
select outbox.mark_processed(:event, '');
-- A transaction that only its consumer may commit.
create table own_effects (n int);
begin;
set local outbox.refuse_commit = on;
insert into own_effects values (1);
savepoint part;
rollback to part;
commit;
begin;
set local outbox.refuse_commit = on;
insert into own_effects values (2);
prepare transaction 'refused';
begin;
set local outbox.refuse_commit = on;
insert into own_effects values (3);
commit and chain;
select count(*) from own_effects;
begin;
set local outbox.refuse_commit = on;
insert into own_effects values (4);
set local outbox.refuse_commit = off;
commit;
select n from own_effects;
-- Nobody takes that back by the way, and parallel workers are in nobody's way.
begin;
set local outbox.refuse_commit = on;
insert into own_effects values (5);
reset all;
show outbox.refuse_commit;
commit;
set outbox.refuse_commit = on;
begin;
set local outbox.refuse_commit = on;
set local parallel_setup_cost = 0;
set local parallel_tuple_cost = 0;
set local min_parallel_table_scan_size = 0;
set local max_parallel_workers_per_gather = 2;
explain (costs off) select count(*) from own_effects;
select count(*) from own_effects;
rollback;
show outbox.refuse_commit;
alter role current_user set outbox.refuse_commit = on;
drop table own_effects;
