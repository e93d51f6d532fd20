-- Start closed: PUBLIC can do nothing, and what is granted is enough.
\set SHOW_CONTEXT never
create role outbox_test_nobody;
create role outbox_test_app;
set role outbox_test_nobody;
select outbox.emit('order', '1', 'made', '{}');
select * from outbox.events;
select * from outbox.relay_status;
select outbox.mark_processed('00000000-0000-4000-8000-0000000000dd', 'me');
reset role;
select relname, relacl from pg_class
where relnamespace = 'outbox'::regnamespace and relkind in ('r', 'p', 'v', 'S')
  and exists (select from aclexplode(relacl) a where a.grantee = 0);
select proname from pg_proc
where pronamespace = 'outbox'::regnamespace
  and (proacl is null or exists (select from aclexplode(proacl) a where a.grantee = 0));

-- emit() and mark_processed() need no right on any table
grant usage on schema outbox to outbox_test_app;
grant execute on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int) to outbox_test_app;
grant execute on function outbox.mark_processed(uuid, text) to outbox_test_app;
set role outbox_test_app;
select outbox.emit('granted', '1', 'made', '{}') is not null;
select outbox.mark_processed('00000000-0000-4000-8000-0000000000dd', 'me');
select current_user;
select * from outbox.processed_events;
select outbox.mark_processed_many('{}', 'me');
select outbox.is_processed('00000000-0000-4000-8000-0000000000dd', 'me');
select outbox.record_offset('me', 'orders', 0, 1);
select outbox.stored_offsets('me');
select outbox.idempotency_begin('me', 'key', sha256('x'));
select outbox.idempotency_complete('me', 'key', '00000000-0000-4000-8000-0000000000dd', 200, null, null, null);
select outbox.idempotency_release('me', 'key', '00000000-0000-4000-8000-0000000000dd');
select outbox.request_hash('GET', '/', null);
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', '1', 'made');
-- secrets and topics are not for applications
\set VERBOSITY sqlstate
show outbox.kafka_config;
show outbox.kafka_config_file;
set outbox.topic_template = 'mine';
set outbox.bootstrap_servers = 'elsewhere:9092';
\set VERBOSITY default
set outbox.serialize_keys = on;
reset role;

-- the others need none either; operators and tables of the caller's search_path are not asked
grant execute on function outbox.mark_processed_many(uuid[], text), outbox.is_processed(uuid, text),
  outbox.record_offset(text, text, int, bigint), outbox.stored_offsets(text), outbox.request_hash(text, text, bytea),
  outbox.idempotency_begin(text, text, bytea, interval, text, interval),
  outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb), outbox.idempotency_release(text, text, uuid)
to outbox_test_app;
create schema outbox_test_app authorization outbox_test_app;
set role outbox_test_app;
create function outbox_test_app.never(text, text) returns boolean language plpgsql as
  $$ begin raise exception 'called as %', current_user; end $$;
create operator outbox_test_app.= (leftarg = text, rightarg = text, procedure = outbox_test_app.never);
set search_path = outbox_test_app, pg_catalog;
select outbox.mark_processed('00000000-0000-4000-8000-0000000000dd', 'me'),
  outbox.is_processed('00000000-0000-4000-8000-0000000000dd', 'me');
select outbox.mark_processed_many('{00000000-0000-4000-8000-0000000000de}', 'me');
select outbox.record_offset('me', 'orders', 0, 1);
select outbox.stored_offsets('me');
select owner from outbox.idempotency_begin('me', 'key', outbox.request_hash('GET', '/', null)) \gset
select outbox.idempotency_complete('me', 'key', :'owner', 200, null, null, null);
select owner from outbox.idempotency_begin('me', 'key2', outbox.request_hash('GET', '/', null)) \gset
select outbox.idempotency_release('me', 'key2', :'owner');
select * from outbox.idempotency_keys;
select * from outbox.consumer_offsets;
set outbox.max_response_size = '2kB';
set outbox.processed_retention = '1s';
reset search_path;
reset role;

-- an INSERT right on the application's columns does not let it forge numbers
grant insert (aggregate_type, aggregate_id, event_type, payload) on outbox.events to outbox_test_app;
grant execute on function outbox.uuid_v7(), outbox.current_slot() to outbox_test_app;
set role outbox_test_app;
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('granted', '2', 'made');
insert into outbox.events (aggregate_type, aggregate_id, event_type, seq, xid) values ('granted', '3', 'forged', 1, 3);
reset role;
reset outbox.serialize_keys;
select aggregate_id from outbox.events where aggregate_type = 'granted' order by seq;
drop owned by outbox_test_app cascade;
drop role outbox_test_nobody, outbox_test_app;
-- every object says what it is for
select classid::regclass, objid::regclass from pg_depend d
where refobjid = (select oid from pg_extension where extname = 'outbox') and classid = 'pg_class'::regclass
  and obj_description(objid, 'pg_class') is null and (select relkind from pg_class where oid = objid) <> 'i';
select objid::regprocedure from pg_depend d
where refobjid = (select oid from pg_extension where extname = 'outbox') and classid = 'pg_proc'::regclass
  and obj_description(objid, 'pg_proc') is null;
select attrelid::regclass, attname from pg_attribute a join pg_class c on c.oid = attrelid
where c.relnamespace = 'outbox'::regnamespace and relkind in ('r', 'p') and not c.relispartition and attnum > 0
  and col_description(attrelid, attnum) is null;
