-- emit() where applications call it from: functions, triggers, sessions of all kinds.
\set SHOW_CONTEXT never

-- a read-only transaction
begin read only;
select outbox.emit('order', '1', 'made', '{}');
rollback;
set default_transaction_read_only = on;
select outbox.emit_bytes('order', '1', 'made', '');
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', '1', 'made');
reset default_transaction_read_only;

-- never in a parallel plan, and refused by a worker that gets it all the same
select proname, proparallel from pg_proc where pronamespace = 'outbox'::regnamespace and proname like 'emit%' order by 1;
set max_parallel_workers_per_gather = 2;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
create table numbers as select n from generate_series(1, 1000) n;
alter table numbers set (parallel_workers = 2);
analyze numbers;
explain (costs off) select count(outbox.emit('parallel', n::text, 'made', null)) from numbers;
select count(outbox.emit('parallel', n::text, 'made', null)) from numbers;
create function pretend_safe(n int) returns uuid language plpgsql parallel safe as
  $$ begin return outbox.emit('parallel', n::text, 'pretended', null); end $$;
select count(pretend_safe(n)) from numbers;
reset max_parallel_workers_per_gather;
reset parallel_setup_cost;
reset parallel_tuple_cost;
reset min_parallel_table_scan_size;

-- in a function with an EXCEPTION block: only what was not rolled back remains
create function try_both() returns void language plpgsql as $$
begin
  perform outbox.emit('block', 'outer', 'made', null);
  begin
    perform outbox.emit('block', 'inner', 'made', null);
    raise exception 'roll the inner block back';
  exception when raise_exception then
    perform outbox.emit('block', 'handler', 'made', null);
  end;
end $$;
select try_both();
select aggregate_id from outbox.events where aggregate_type = 'block' order by seq;

-- in a trigger of the application's table
create table orders (id int primary key, state text);
create function order_changed() returns trigger language plpgsql as $$
begin
  perform outbox.emit('trigger', new.id::text, lower(tg_op), to_jsonb(new));
  return null;
end $$;
create trigger emit after insert or update on orders for each row execute function order_changed();
insert into orders select n, 'new' from generate_series(1, 3) n;
update orders set state = 'paid' where id = 2;
select aggregate_id, event_type, payload from outbox.events where aggregate_type = 'trigger' order by seq;

-- in a procedure that commits
create procedure in_steps() language plpgsql as $$
begin
  for n in 1..3 loop
    perform outbox.emit('procedure', n::text, 'made', null);
    if n = 2 then rollback; else commit; end if;
  end loop;
end $$;
call in_steps();
select aggregate_id from outbox.events where aggregate_type = 'procedure' order by seq;

-- in a session that acts as a replica: its triggers do not fire, this one does
set session_replication_role = replica;
select outbox.emit('replica', 'emit', 'made', null) is not null;
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('replica', 'insert', 'made');
reset session_replication_role;
select aggregate_id, seq > 0 and xid > 0 as stamped from outbox.events where aggregate_type = 'replica' order by seq;

-- by a prepared statement, and from a data-modifying CTE
prepare emit(text) as select outbox.emit('prepared', $1, 'made', null) is not null as emitted;
execute emit('a');
execute emit('b');
with changed as (update orders set state = 'sent' returning id, state)
select count(outbox.emit('cte', id::text, state, null)) from changed;

-- with indexes of an operator's own
create index own_expression on outbox.events_0 ((aggregate_type || '/' || aggregate_id)) where schema_version is not null;
create unique index own_unique on outbox.events_0 (id);
select outbox.emit('indexed', '1', 'made', null, event_id => '00000000-0000-7000-8000-000000000001', schema_version => 3) is not null;
select outbox.emit('indexed', '2', 'made', null, event_id => '00000000-0000-7000-8000-000000000001');
set enable_seqscan = off;
select event_type from outbox.events_0
  where aggregate_type || '/' || aggregate_id = 'indexed/1' and schema_version is not null;
reset enable_seqscan;
drop index outbox.own_expression, outbox.own_unique;

-- when the extension is made anew in the same session
set client_min_messages = warning;
drop extension outbox;
create extension outbox;
reset client_min_messages;
select outbox.emit('anew', '1', 'made', null) is not null;
select aggregate_type, seq from outbox.events;
