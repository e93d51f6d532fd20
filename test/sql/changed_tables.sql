-- What a database administrator does to outbox.events: emit() and INSERT see it alike, or say what is wrong.
\set VERBOSITY default
\set SHOW_CONTEXT never
set client_min_messages = warning;
select current_database() as home \gset
create database outbox_changed template template0;
\c outbox_changed
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
-- by emit(), emit_bytes() and INSERT
create function outbox_try_all(aggregate_id text) returns setof text language sql as $$
  select outbox_try(format('select outbox.emit(''order'', %L, ''made'', ''{"a": 1}'', ''{"h": "x"}'', ''key'', schema_version => 7)', aggregate_id))
  union all
  select outbox_try(format('select outbox.emit_bytes(''order'', %L, ''made'', ''\x01'')', aggregate_id))
  union all
  select outbox_try(format('insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, headers, partition_key, schema_version) '
    'values (''order'', %L, ''made'', ''{"a": 1}'', ''{"h": "x"}'', ''key'', 7)', aggregate_id))
$$;
\pset format unaligned
\pset tuples_only on

-- dropped columns leave their places behind
alter table outbox.events add column extra text;
select * from outbox_try_all('added');
alter table outbox.events drop column extra;
select * from outbox_try_all('dropped');
-- a partition with places of its own
alter table outbox.events detach partition outbox.events_0;
drop table if exists parked;
alter table outbox.events_0 add column hole int;
alter table outbox.events_0 drop column hole;
alter table outbox.events_0 add column payload_again jsonb;
update outbox.events_0 set payload_again = payload;
alter table outbox.events_0 drop column payload;
alter table outbox.events_0 rename column payload_again to payload;
-- which nobody must write to meanwhile
select * from outbox_try_all('detached');
alter table outbox.events attach partition outbox.events_0 for values in (0);
select * from outbox_try_all('attached');
select aggregate_id, count(*), count(distinct seq), count(payload), count(payload_bytes), min(payload->>'a'), min(headers->>'h'), min(partition_key), min(schema_version), bool_and(created_at <= clock_timestamp()), min(slot)
from outbox.events group by aggregate_id order by min(seq);

-- defaults, generated columns, constraints and triggers
alter table outbox.events add column tenant text not null default current_user, add column twice text generated always as (aggregate_id || aggregate_id) stored;
select * from outbox_try_all('default');
select tenant = current_user, twice from outbox.events where aggregate_id = 'default';
alter table outbox.events alter column tenant drop default;
select * from outbox_try_all('not null');
alter table outbox.events drop column tenant, drop column twice;
alter table outbox.events add constraint no_secrets check (aggregate_id <> 'secret');
select * from outbox_try_all('secret');
select * from outbox_try_all('no secret');
alter table outbox.events drop constraint no_secrets;
update outbox.events set schema_version = 1 where schema_version is null;
alter table outbox.events alter column schema_version set not null;
select * from outbox_try_all('version');
alter table outbox.events alter column schema_version drop not null;
create table orders (id text primary key);
insert into orders select distinct aggregate_id from outbox.events union select 'there';
alter table outbox.events add constraint order_exists foreign key (aggregate_id) references orders;
select * from outbox_try_all('there');
select * from outbox_try_all('missing');
alter table outbox.events drop constraint order_exists;
create table audited (id text, by text);
create function audit() returns trigger language plpgsql as $$ begin insert into audited values (new.aggregate_id, current_user); return null; end $$;
create trigger z_audit after insert on outbox.events for each row execute function audit();
create function shout() returns trigger language plpgsql as $$ begin new.event_type := upper(new.event_type); return new; end $$;
create trigger z_shout before insert on outbox.events for each row execute function shout();
select * from outbox_try_all('audited');
select * from audited order by id;
select event_type, seq is not null from outbox.events where aggregate_id = 'audited';
drop trigger z_audit on outbox.events;
drop trigger z_shout on outbox.events;
create index on outbox.events (lower(aggregate_id)) where aggregate_type = 'order';
select * from outbox_try_all('indexed');

-- row-level security: emit() does not know policies, so it refuses whom they concern
create role outbox_test_tenant;
grant usage on schema outbox to outbox_test_tenant;
select outbox.grant_emitter('outbox_test_tenant');
alter table outbox.events enable row level security;
create policy tenants on outbox.events for insert to outbox_test_tenant with check (aggregate_id = current_user);
set role outbox_test_tenant;
select outbox_try($$ select outbox.emit('order', 'outbox_test_tenant', 'made', null) $$);
select outbox_try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', 'outbox_test_tenant', 'made') $$);
select outbox_try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', 'other', 'made') $$);
reset role;
select * from outbox_try_all('superuser');
alter table outbox.events disable row level security;
set role outbox_test_tenant;
select outbox_try($$ select outbox.emit('order', 'other', 'made', null) $$);
reset role;

-- what cannot be used
alter table outbox.events_0 set unlogged;
select * from outbox_try_all('unlogged');
alter table outbox.events_0 set logged;
alter table outbox.events rename column headers to other_headers;
select * from outbox_try_all('renamed');
alter table outbox.events rename column other_headers to headers;
alter table outbox.events rename column schema_version to old_version;
alter table outbox.events add column schema_version bigint;
select * from outbox_try_all('typed');
alter table outbox.events drop column schema_version;
alter table outbox.events rename column old_version to schema_version;
select * from outbox_try_all('repaired');
-- our trigger functions on tables of others
create table strange (seq text, xid text, aggregate_type int);
create trigger ours before insert on strange for each row execute function outbox.before_event_insert();
select outbox_try($$ insert into strange values ('1', '2', 3) $$);
create table routes (a int, b int, c int, d int, e int);
create trigger ours before insert or update on routes for each row execute function outbox.on_route_change();
select outbox_try($$ insert into routes values (1, 2, 3, 4, 5) $$);
alter table outbox.routes add column note text;
alter table outbox.routes drop column note;
select outbox_try($$ insert into outbox.routes (aggregate_type, topic) values ('order', 'orders') $$);
alter table outbox.processed_events add column note text;
select outbox.mark_processed('00000000-0000-4000-8000-000000000001', 'c');
alter table outbox.processed_events drop column note;
select outbox.mark_processed('00000000-0000-4000-8000-000000000001', 'c'), outbox.mark_processed('00000000-0000-4000-8000-000000000002', 'c');

\c :home
drop database outbox_changed;
drop role outbox_test_tenant;
