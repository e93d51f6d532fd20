-- Triggers of others on outbox.events, and our trigger functions where they do not belong: an event is stored as it would be without
-- them, or the statement fails and says why. Rows of a dump are told from all others.
\set VERBOSITY default
\set SHOW_CONTEXT never
set client_min_messages = warning;
select current_database() as home \gset
-- a template has no relay, whose locks would be in the way of the many changes
create database outbox_event_triggers template template0 is_template true;
\c outbox_event_triggers
set client_min_messages = warning;
create extension outbox;
create function outbox_try(statement text) returns text language plpgsql as $$
declare
  detail text;
  hint text;
begin
  execute statement;
  return 'no error';
exception when others then
  get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
  return concat_ws(E'\n  ', sqlstate || ': ' || sqlerrm, nullif(regexp_replace(detail, '^Failing row.*', 'Failing row ...'), ''), nullif(hint, ''));
end $$;
-- by emit(), emit_bytes(), INSERT, INSERT into the partition and COPY's equivalent of many rows
create function outbox_try_all() returns setof text language sql as $$
  select outbox_try('select outbox.emit(''order'', ''emit'', ''made'', ''{}'')')
  union all
  select outbox_try('select outbox.emit_bytes(''order'', ''bytes'', ''made'', ''\x01'', event_id => gen_random_uuid())')
  union all
  select outbox_try('insert into outbox.events (aggregate_type, aggregate_id, event_type) values (''order'', ''insert'', ''made'')')
  union all
  select outbox_try('insert into outbox.events_0 (aggregate_type, aggregate_id, event_type) values (''order'', ''partition'', ''made'')')
  union all
  select outbox_try('insert into outbox.events (aggregate_type, aggregate_id, event_type) select ''order'', ''two'', ''made'' from generate_series(1, 2)')
$$;
-- What was stored, and whether all of it is of this transaction; the next case has an empty table.
create function outbox_stored() returns setof text language plpgsql as $$
begin
  return query select format('%s %s %s', e.aggregate_type, e.aggregate_id, case when e.xid > 100 and e.xid <= pg_current_xact_id()::text::bigint and e.seq > 0 then 'stamped' else 'NOT STAMPED' end)
    from outbox.events e order by e.seq;
  delete from outbox.events;
end $$;
create function outbox_case(name text, body text, at text) returns setof text language plpgsql as $$
begin
  execute format('create function trap() returns trigger language plpgsql as $f$ begin %s return new; end $f$', body);
  execute format('create trigger %I %s on outbox.events for each row when (new.aggregate_type = ''order'') execute function trap()', name, at);
  return query select * from outbox_try_all();
  execute format('drop trigger %I on outbox.events', name);
  drop function trap();
end $$;
\pset format unaligned
\pset tuples_only on

-- triggers that emit or insert events themselves, before and after ours
select * from outbox_case('audit', $$perform outbox.emit('audit', new.aggregate_id, 'seen', '{}');$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('z_audit', $$perform outbox.emit_bytes('audit', new.aggregate_id, 'seen', '\x01');$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('audit', $$perform outbox.emit('audit', new.aggregate_id, 'seen', '{}');$$, 'after insert');
select * from outbox_stored();
select * from outbox_case('audit', $$insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('audit', new.aggregate_id, 'seen');$$, 'before insert');
select * from outbox_stored();
alter table outbox.events add column src uuid;
select * from outbox_case('audit', $$new.src := outbox.emit_bytes('child', new.aggregate_id, 'seen', '\x01');$$, 'before insert');
select count(*) from outbox.events e join outbox.events c on c.id = e.src;
select * from outbox_stored();
alter table outbox.events drop column src;
-- that fail inside, in a subtransaction
select * from outbox_case('audit', $$begin perform outbox.emit('order', new.aggregate_id || new.aggregate_id || repeat('x', 20), null, '{}'); exception when others then null; end;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('audit', $$if length(new.aggregate_id) < 12 then perform outbox.emit('order', new.aggregate_id || '+', 'deep', '{}'); end if;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('audit', $$begin perform outbox.emit('audit', '1', 'seen', '{}'); perform 1 / 0; exception when division_by_zero then null; end;$$, 'before insert');
select * from outbox_stored();

-- triggers that give an event other numbers, before ours
select * from outbox_case('a_numbers', $$new.xid := 5;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('a_numbers', $$new.xid := 5; new.seq := 5;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('a_numbers', $$new.xid := -5; new.seq := 5;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('a_numbers', $$new.xid := null; new.seq := null;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('a_copy', $$if new.aggregate_id <> 'copy' then new.aggregate_id := 'copy'; insert into outbox.events select new.*; new.id := outbox.uuid_v7(); end if;$$, 'before insert');
select * from outbox_stored();
-- all of a user's come before ours, whatever their names are: what he changes is checked, and numbers stay ours
select * from outbox_case('z_numbers', $$new.xid := 5;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('z_numbers', $$new.seq := 5;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('z_numbers', $$new.xid := 5; new.seq := 5;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_slot', $$new.slot := 7;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_slot', $$new.slot := null;$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_time', $$new.created_at := 'infinity';$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_time', $$new.created_at := '0044-03-15 BC';$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_id', $$new.id := '00000000-0000-4000-8000-0000000000cc';$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_both', $$new.payload := '1'; new.payload_bytes := '\x01';$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_headers', $$new.headers := '[1]';$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_type', $$new.event_type := '';$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_large', $$new.payload_bytes := null; new.payload := to_jsonb(repeat('x', 2000000));$$, 'before insert');
select * from outbox_stored();
select * from outbox_case('zz_payload', $$new.payload_bytes := null; new.payload := '{"by": "trigger"}'; new.headers := '{"h": 1}'; new.partition_key := 'k';$$, 'before insert');
select distinct payload, headers, partition_key from outbox.events;
select * from outbox_stored();
-- but for those whose names are behind that of ours: they are refused
select * from outbox_case('~late', $$new.xid := 5;$$, 'before insert');
select * from outbox_stored();
create function trap() returns trigger language plpgsql as $$ begin return new; end $$;
create trigger "~~late" before insert on outbox.events_0 for each row execute function trap();
select * from outbox_try_all();
alter table outbox.events_0 disable trigger "~~late";
select * from outbox_try_all();
alter table outbox.events_0 enable trigger "~~late";
alter trigger "~~late" on outbox.events_0 rename to early;
select * from outbox_try_all();
drop trigger early on outbox.events_0;
drop function trap();
select * from outbox_stored();

-- for every event of emit()
create function trap() returns trigger language plpgsql as $$ begin new.seq := 5; return new; end $$;
create trigger z_numbers before insert on outbox.events for each row execute function trap();
select outbox_try($$select outbox.emit('order', '1', 'made', null)$$);
create or replace function trap() returns trigger language plpgsql as $$ begin new.xid := null; return new; end $$;
select outbox_try($$select outbox.emit('order', '1', 'made', null)$$);
drop trigger z_numbers on outbox.events;
drop function trap();
select * from outbox_stored();

-- our function once more
create trigger a_second before insert on outbox.events for each row execute function outbox.before_event_insert();
select * from outbox_try_all();
select * from outbox_stored();
drop trigger a_second on outbox.events;
create trigger z_second before insert on outbox.events_0 for each row execute function outbox.before_event_insert();
select * from outbox_try_all();
select * from outbox_case('audit', $$perform outbox.emit('audit', new.aggregate_id, 'seen', '{}');$$, 'before insert');
select * from outbox_stored();
drop trigger z_second on outbox.events_0;
create trigger a_never before insert on outbox.events_0 for each row when (false) execute function outbox.before_event_insert();
select * from outbox_try_all();
select * from outbox_stored();
drop trigger a_never on outbox.events_0;

-- a dump's rows: by who may write their numbers, and while no trigger could have given them
create function outbox_restore(xid text, into_table text = 'outbox.events') returns text language sql as $$
  select outbox_try(format('insert into %s (seq, xid, slot, aggregate_type, aggregate_id, event_type) values (7, %s, 0, ''order'', ''restored'', ''made'')', into_table, xid))
$$;
select outbox_restore('9'), outbox_restore('9', 'outbox.events_0'), outbox_restore('0'), outbox_restore('-9');
select xid from outbox.events order by xid;
delete from outbox.events;
create function trap() returns trigger language plpgsql as $$ begin return new; end $$;
create trigger audit before insert on outbox.events for each row execute function trap();
select outbox_restore('9');
alter table outbox.events disable trigger audit;
select outbox_restore('9');
drop trigger audit on outbox.events;
create trigger z_audit before insert on outbox.events for each row execute function trap();
select outbox_restore('9');
drop trigger z_audit on outbox.events;
select xid from outbox.events order by xid;
delete from outbox.events;
create role outbox_test_emitter;
select outbox.grant_emitter('outbox_test_emitter');
set role outbox_test_emitter;
select outbox_restore('9');
reset role;
create function numbers() returns trigger language plpgsql as $$ begin new.seq := 3; new.xid := 3; return new; end $$;
create trigger a_numbers before insert on outbox.events for each row execute function numbers();
set role outbox_test_emitter;
select outbox_try($$insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', '1', 'made')$$);
reset role;
drop trigger a_numbers on outbox.events;
create table orders (id int);
create function restoring() returns trigger language plpgsql as $$ begin
  insert into outbox.events (seq, xid, aggregate_type, aggregate_id, event_type) values (7, 9, 'order', '1', 'made'); return new; end $$;
create trigger restoring after insert on orders for each row execute function restoring();
select outbox_try('insert into orders values (1)');
select * from outbox_stored();

-- columns whose type is a domain
create domain dn as text check (value is not null);
create domain nn as int not null;
create domain dd as text default 'given' check (value is not null);
create domain nested as dn;
create domain many as int[] check (value is null);
alter table outbox.events add column a dn;
select * from outbox_try_all();
alter table outbox.events drop column a, add column b nn;
select * from outbox_try_all();
alter table outbox.events drop column b, add column c nested;
select * from outbox_try_all();
alter table outbox.events drop column c, add column d dd, add column e many;
select * from outbox_try_all();
select d, e from outbox.events where d is distinct from 'given' or e is not null;
select * from outbox_stored();
alter table outbox.events drop column d, drop column e, add column f dn;
alter table outbox.events alter column f set default null;
select * from outbox_try_all();
alter table outbox.events drop column f;
select * from outbox_stored();

-- each trigger function of the extension on tables of the same name with other columns, at every time and level
create schema att;
create table att.deliveries (a bigint, b bigint, c int, d bigint);
create table att.routes (a int, b int, c int, d int, e int);
create table att.events (seq text, xid text, aggregate_type int);
create table att.events_0 (a bigint);
create schema alike;
create table alike.deliveries (like outbox.deliveries including all);
create table alike.routes (like outbox.routes including all);
create table alike.events_0 (like outbox.events including all);
create function outbox_attach(function regproc, at regclass) returns setof text language plpgsql as $$
declare
  firing text;
begin
  foreach firing in array array['before insert', 'before update', 'before delete', 'after insert', 'after update', 'after delete', 'before truncate', 'after truncate'] loop
    if firing not like '%truncate' then
      execute format('create trigger ours %s on %s for each row execute function %s()', firing, at, function);
      return next outbox_try(format('do $d$ begin insert into %1$s default values; update %1$s set %2$s; delete from %1$s; end $d$', at,
        (select format('%1$I = %1$I', attname) from pg_attribute where attrelid = at and attnum > 0 limit 1)));
      execute format('drop trigger ours on %s', at);
    end if;
    execute format('create trigger ours %s on %s for each statement execute function %s()', firing, at, function);
    return next outbox_try(format('do $d$ begin insert into %1$s default values; update %1$s set %2$s; delete from %1$s; truncate %1$s; end $d$', at,
      (select format('%1$I = %1$I', attname) from pg_attribute where attrelid = at and attnum > 0 limit 1)));
    execute format('drop trigger ours on %s', at);
  end loop;
end $$;
alter table alike.deliveries alter seq set default 1, alter xid set default 123456789012, alter slot set default 0, alter event_id set default gen_random_uuid(),
  alter lane set default 1, alter topic set default 't', alter partition_key set default 'k', alter state set default 'FAILED', alter blocking set default true;
alter table alike.events_0 alter seq set default 1, alter xid set default 1, alter aggregate_type set default 't', alter aggregate_id set default 't', alter event_type set default 't';
select f.f, t.t, a, count(*) from (select p.oid::regproc from pg_proc p where p.pronamespace = 'outbox'::regnamespace and p.prorettype = 'trigger'::regtype) f (f),
  unnest('{att.deliveries,att.routes,att.events,att.events_0,alike.deliveries,alike.routes,alike.events_0}'::regclass[]) t (t), outbox_attach(f.f, t.t) a
group by 1, 2, 3 order by f.f::text, t.t::text, a collate "C";
insert into att.deliveries values (1, 1, 1, 123456789012);
create trigger ours before insert on att.deliveries for each row execute function outbox.before_delivery_insert();
select outbox_try('insert into att.deliveries values (1, 1, 1, 123456789012)');
select count(*) from outbox.restored_deliveries;
-- and on our own ones, whose columns somebody has changed
alter table outbox.restored_deliveries add column note text;
create function outbox_restore_delivery() returns text language sql as $$
  select outbox_try('insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, reason) '
    'values (1, 1, 0, gen_random_uuid(), 1, ''t'', ''k'', ''FAILED'', true, ''why'')')
$$;
select outbox_restore_delivery();
alter table outbox.restored_deliveries drop column note;
select outbox_restore_delivery();
alter table outbox.deliveries drop column reason, add column reason text;
select outbox_restore_delivery();
select xid, lane, reason from outbox.restored_deliveries;

-- What keeps our triggers on: of the altered table and its partitions, and nothing for anybody else's.
\pset format aligned
\pset tuples_only off
create view enabled as select tgrelid::regclass as "table", tgenabled from pg_trigger
where tgfoid in ('outbox.before_event_insert'::regproc, 'outbox.before_delivery_insert'::regproc) and tgrelid <> 'outbox.events'::regclass and tgrelid::regclass::text like 'outbox.%';
alter table outbox.events_3 disable trigger all;
alter table outbox.events disable trigger all;
alter table outbox.deliveries disable trigger all;
select tgenabled, count(*) from enabled group by 1;
alter event trigger outbox_keep_triggers disable;
alter table outbox.events_3 disable trigger all;
alter table outbox.deliveries disable trigger all;
alter event trigger outbox_keep_triggers enable always;
create role outbox_test_owner;
grant usage on schema outbox to outbox_test_owner;
grant create on schema public to outbox_test_owner;
alter table outbox.events_5 owner to outbox_test_owner;
set role outbox_test_owner;
create table own (a int);
alter table own add b int;
alter table outbox.events_5 disable trigger all;
alter table outbox.events_5 set (fillfactor = 90);
reset role;
select * from enabled where tgenabled <> 'A' order by 1;
alter table outbox.events alter headers set statistics 50;
alter table outbox.deliveries set (fillfactor = 90);
select * from enabled where tgenabled <> 'A' order by 1;
revoke execute on function pg_event_trigger_ddl_commands() from public;
set role outbox_test_owner;
alter table own add c int;
reset role;

\c :home
alter database outbox_event_triggers is_template false;
drop database outbox_event_triggers;
drop role outbox_test_emitter, outbox_test_owner;
