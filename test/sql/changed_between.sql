-- What becomes of outbox.events, and of the session, between two events of one statement, which keeps the table open.
\set VERBOSITY default
\set SHOW_CONTEXT never
set client_min_messages = warning;
select current_database() as home \gset
create database outbox_between template template0;
\c outbox_between
set client_min_messages = warning;
create extension outbox;
create function outbox_between(statement text) returns text language plpgsql as $$
begin
  execute statement;
  return '';
end $$;
-- Six events by one statement, the other one before the fourth. All of it is undone.
create function outbox_try(statement text, shown text default 'null') returns text language plpgsql as $$
declare
  hint text;
  result text;
begin
  begin
    perform outbox.emit('order', n || case when n = 4 then outbox_between(statement) else '' end, 'made', jsonb_build_object('n', n)) from generate_series(1, 6) n;
    perform set_config('role', 'none', true);
    execute format('select concat_ws('' '', (select string_agg(aggregate_id, '','' order by seq) from outbox.events), (%s)::text)', shown) into result;
    raise sqlstate 'UNDO0';
  exception when sqlstate 'UNDO0' then
    return result;
  end;
exception when others then
  get stacked diagnostics hint = pg_exception_hint;
  return concat_ws(E'\n  ', sqlstate || ': ' || sqlerrm, nullif(hint, ''));
end $$;
\pset format unaligned
\pset tuples_only on
select outbox_try('select');

-- columns
select outbox_try('alter table outbox.events add column extra text default ''x''', 'select string_agg(coalesce(extra, ''-''), '','' order by seq) from outbox.events');
select outbox_try('alter table outbox.events add column extra text; alter table outbox.events drop column extra; alter table outbox.events add column more int not null default 7', 'select sum(more) from outbox.events');
select outbox_try('alter table outbox.events rename column headers to heads');
-- constraints
select outbox_try('alter table outbox.events add constraint few check (aggregate_id < ''6'')');
-- indexes: with them the rows are found
select outbox_try('create index on outbox.events (aggregate_id)', 'select count(*) from outbox.events where aggregate_id = ''5''');
select outbox_try('create unique index on outbox.events_0 (event_type)');
select outbox_try('create index on outbox.events_0 ((1 / (aggregate_id::int - 5)))');
select outbox_try('drop index outbox.events_0_xid_seq; set local enable_seqscan = off', 'select count(*) from outbox.events_0 where id is not null');
select outbox_try('reindex table outbox.events_0; set local enable_seqscan = off', 'select count(*) from outbox.events_0 where xid > 0');
-- triggers, policies, partitions
create function outbox_mark() returns trigger language plpgsql as $$ begin new.event_type := 'marked'; return new; end $$;
create function outbox_renumber() returns trigger language plpgsql as $$ begin new.seq := 1; return new; end $$;
create function outbox_drops() returns trigger language plpgsql as $$ begin return null; end $$;
select outbox_try('create trigger mark before insert on outbox.events for each row execute function outbox_mark()', 'select string_agg(event_type, '','' order by seq) from outbox.events');
select outbox_try('create trigger "~~renumber" before insert on outbox.events for each row execute function outbox_renumber()');
select outbox_try('create trigger renumber before insert on outbox.events for each row execute function outbox_renumber()');
select outbox_try('create trigger drops before insert on outbox.events_0 for each row execute function outbox_drops()');
select outbox_try('alter table outbox.events detach partition outbox.events_0');
select outbox_try('alter table outbox.events detach partition outbox.events_0; alter table outbox.events attach partition outbox.events_0 for values in (0)');
select outbox_try('drop table outbox.events_0');
select outbox_try('drop extension outbox');
select outbox_try('truncate outbox.events_0');
select outbox_try('cluster outbox.events_0 using events_0_xid_seq');
select outbox_try('alter table outbox.events_0 set unlogged');
select outbox_try('alter table outbox.events_0 rename to events_x; alter table outbox.events_x rename to events_0');
select outbox_try('alter schema outbox rename to inbox; alter schema inbox rename to outbox');

-- who the session is, and where it looks
create role outbox_between_role;
grant usage on schema outbox to outbox_between_role;
grant insert on outbox.events to outbox_between_role;
alter table outbox.events enable row level security;
select outbox_try('select set_config(''role'', ''outbox_between_role'', true)');
create function outbox_as_role() returns void language plpgsql security definer as $$ begin perform outbox.emit('order', 'definer', 'made', null); end $$;
alter function outbox_as_role() owner to outbox_between_role;
grant execute on all functions in schema outbox to outbox_between_role;
select outbox_try('select outbox_as_role()');
alter table outbox.events disable row level security;
select outbox_try('select outbox_as_role()');
select outbox_try('select set_config(''role'', ''outbox_between_role'', true)');
reset role;
create schema outbox_decoy;
create table outbox_decoy.events_0 (like outbox.events_0 including all);
select outbox_try('select set_config(''search_path'', ''outbox_decoy'', true)', 'select count(*) from outbox_decoy.events_0');

-- rolled back between, and within
create function outbox_fails(kept boolean) returns text language plpgsql as $$
declare
  id uuid;
begin
  begin
    for i in 1..3 loop
      id := outbox.emit('order', 'assigned', 'made', null);
    end loop;
    perform outbox.emit('order', 'inner', 'made', null) from generate_series(1, 3);
    if not kept then
      raise division_by_zero;
    end if;
  exception when division_by_zero then
    null;
  end;
  id := outbox.emit('order', 'after', 'made', null);
  perform outbox.emit('order', 'after', 'made', null) from generate_series(1, 2);
  return '';
end $$;
select outbox_try('select outbox_fails(true)');
select outbox_try('select outbox_fails(false)');
select outbox_try('select outbox_try(''select'')');
begin;
select count(outbox_fails(n = 2)) from generate_series(1, 3) n;
select aggregate_id, count(*) from outbox.events group by 1 order by 1;
rollback;
select outbox_try($$ do 'begin alter table outbox.events add column e int; raise exception using errcode = ''22012''; exception when division_by_zero then null; end' $$);

-- events that events' checks find wrong leave nothing open
select outbox.emit('order', case when n < 5 then n::text end, 'made', null) from generate_series(1, 6) n;
begin;
savepoint s;
select outbox.emit('order', case when n < 5 then n::text end, 'made', null) from generate_series(1, 6) n;
rollback to s;
select count(outbox.emit('order', n::text, 'made', null)) from generate_series(1, 3) n;
alter table outbox.events add column extra int;
select count(outbox.emit('order', n::text, 'made', null)) from generate_series(1, 3) n;
select count(*) from outbox.events;
rollback;

-- a cursor stands still between
begin;
declare c cursor for select outbox.emit('order', n::text, 'made', null) is not null from generate_series(1, 9) n;
fetch 3 c;
alter table outbox.events add column extra int default 3;
fetch 3 c;
savepoint s;
fetch 1 c;
rollback to s;
select count(*), count(extra), sum(extra) from outbox.events;
alter table outbox.events drop column extra;
close c;
select count(outbox.emit('order', n::text, 'made', null)) from generate_series(1, 3) n;
commit;
select count(*) from outbox.events;
begin;
declare c cursor with hold for select outbox.emit('order', n::text, 'held', null) is not null from generate_series(1, 4) n;
commit;
fetch 2 c;
close c;
begin;
declare c cursor for select outbox.emit('order', n::text, 'left', null) is not null from generate_series(1, 9) n;
fetch 3 c;
commit;
select event_type, count(*) from outbox.events where event_type in ('held', 'left') group by 1;

-- what other statements do with the events of theirs
with e as (select outbox.emit('order', n::text, 'cte', null) as id from generate_series(1, 5) n) select count(distinct id), count(*) from e;
create table outbox_orders (n int primary key, event uuid);
insert into outbox_orders select n, outbox.emit('order', n::text, 'insert', null) from generate_series(1, 5) n returning (outbox.emit('order', n::text, 'returning', null) is not null);
select event_type, count(*) from outbox.events where event_type in ('cte', 'insert', 'returning') group by 1 order by 1;
create function outbox_order_placed() returns trigger language plpgsql as $$ begin perform outbox.emit('order', new.n::text, 'trigger', null); return new; end $$;
create trigger placed before insert on outbox_orders for each row execute function outbox_order_placed();
create trigger placed_after after insert on outbox_orders for each row execute function outbox_order_placed();
insert into outbox_orders select n from generate_series(11, 15) n;
select count(*), count(distinct id), min(seq) < max(seq) from outbox.events where event_type = 'trigger';
do $$ begin for i in 1..3 loop perform outbox.emit('order', i::text, 'loop', null) from generate_series(1, 2); commit; end loop; end $$;
select count(*), count(distinct xid) from outbox.events where event_type = 'loop';
-- order within a statement, and all that the indexes know of it
select bool_and(seq > before) from (select seq, lag(seq, 1, 0::bigint) over (order by ctid) as before from outbox.events_0) e;
set enable_seqscan = off;
select count(*) = (select sum(1) from outbox.events_0 where aggregate_type <> '') from outbox.events_0 where xid > 0;
\c :home
drop database outbox_between;
drop role outbox_between_role;
