-- The ring of partitions as it is at first, and what may be read and set. What the relay does with it: test/e2e/retention_test.cpp.
\set SHOW_CONTEXT never
select name, setting, unit, context from pg_settings where name = 'outbox.retention';
-- its message has units since version 18
\set VERBOSITY sqlstate
set outbox.retention = '-1';
\set VERBOSITY default
set outbox.retention = '1d';
reset outbox.retention;
select outbox.current_slot();
select slot, is_current, turns, began_at is not null as began, ended_at, truncations, truncated_at, held_back_by from outbox.ring order by slot;
-- Keys of the tests before may have expired meanwhile.
select task, table_name, case when task <> 'expiry' then done_total end as done_total, held_back_by, held_back_since
from outbox.maintenance_status order by task, table_name;
-- any partition does, also one that is not the current one
select outbox.emit('ring', '1', 'made', null) is not null as emitted;
insert into outbox.events (slot, aggregate_type, aggregate_id, event_type) values (5, 'ring', '2', 'made') returning tableoid::regclass;
select aggregate_id, tableoid::regclass from outbox.events where aggregate_type = 'ring' order by seq;
create role outbox_test_nobody;
set role outbox_test_nobody;
select * from outbox.ring;
select * from outbox.maintenance_status;
reset role;
drop role outbox_test_nobody;
