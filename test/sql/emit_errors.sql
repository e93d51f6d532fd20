-- Bad input: a clear error, its SQLSTATE, a hint; nothing is written.
\set VERBOSITY verbose
\set SHOW_CONTEXT never
create function pg_temp.try(statement text) returns text language plpgsql as $$
declare
  detail text;
  hint text;
begin
  execute statement;
  return 'no error';
exception when others then
  get stacked diagnostics detail = pg_exception_detail, hint = pg_exception_hint;
  return sqlstate || ': ' || sqlerrm || coalesce(E'\n  detail: ' || nullif(detail, ''), '') || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
end $$;
\pset format unaligned
\pset tuples_only on
select pg_temp.try($$ select outbox.emit(null, '1', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('', '1', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('order', null, 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('order', '', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', null, '{}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', '', '{}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', partition_key => '') $$);

-- topic names
select pg_temp.try($$ select outbox.emit('my order', '1', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('größe', '1', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit(repeat('x', 249), '1', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit(repeat('x', 236), '1', 'made', '{}') $$);
set outbox.topic_template = '{aggregate_type}';
select pg_temp.try($$ select outbox.emit('..', '1', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('.', '1', 'made', '{}') $$);
reset outbox.topic_template;

-- headers
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '[]') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '"text"') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => 'null') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '{"a": {}}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '{"a": [1]}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '{"a": true}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '{"a": null}') $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '{"": "x"}') $$);
-- a long name is cut between two characters
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => jsonb_build_object('x' || repeat('ä', 300), true)) $$);
select pg_temp.try(format($$ select outbox.emit('order', '1', 'made', '{}', headers => '{"%s": "x"}') $$, name))
from unnest(array['id', 'event_type', 'aggregate_type', 'created_at', 'schema_version', 'replay_id']) name;
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => '{}') $$);

-- size
select pg_temp.try($$ select outbox.emit('order', '1', 'made', to_jsonb(repeat('x', 1000000))) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', to_jsonb(repeat('x', 999900))) $$);
-- the text counts, not what PostgreSQL stores: every one of these characters takes six bytes in JSON
select pg_temp.try($$ select outbox.emit('order', '1', 'made', to_jsonb(repeat(chr(1), 200000))) $$);
select pg_temp.try($$ select outbox.emit_bytes('order', '1', 'made', convert_to(repeat('x', 1000000), 'UTF8')) $$);
set outbox.max_event_size = '2kB';
select pg_temp.try($$ select outbox.emit('order', repeat('k', 2048), 'made', null) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', null, headers => jsonb_build_object('h', repeat('h', 2048))) $$);
reset outbox.max_event_size;

-- an id may be chosen once in a transaction; a rolled-back savepoint gives it free again
\set id '\'00000000-0000-4000-8000-0000000000aa\''
begin;
select outbox.emit('order', '1', 'made', '{}', event_id => :id);
select pg_temp.try(format($$ select outbox.emit('order', '1', 'made', '{}', event_id => %L) $$, :id));
select pg_temp.try(format($$ insert into outbox.events (id, aggregate_type, aggregate_id, event_type) values (%L, 'order', '1', 'made') $$, :id));
rollback;
begin;
savepoint s;
select outbox.emit('order', '1', 'made', '{}', event_id => :id);
rollback to s;
select outbox.emit('order', '1', 'made', '{}', event_id => :id);
savepoint s;
release s;
select pg_temp.try(format($$ select outbox.emit_bytes('order', '1', 'made', '', event_id => %L) $$, :id));
rollback;

-- what a plain INSERT could get wrong on top
select pg_temp.try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, payload_bytes) values ('order', '1', 'made', '{}', '') $$);
select pg_temp.try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', '', 'made') $$);
select pg_temp.try($$ insert into outbox.events (aggregate_type, event_type) values ('order', 'made') $$);
select pg_temp.try($$ insert into outbox.events (slot, aggregate_type, aggregate_id, event_type) values (99, 'order', '1', 'made') $$);
select pg_temp.try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) values ('order', '1', 'made', 'infinity') $$);
select pg_temp.try(format($$ insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) values ('times', '1', 'made', %L) $$, t))
from unnest(array['-infinity', '4713-01-01 00:00:00+00 BC', '0001-12-31 23:59:59.999999+00 BC', '0001-01-01 00:00:00+00', '9999-12-31 23:59:59.999999+00', '10000-01-01 00:00:00+00', '294276-12-31 23:59:59+00']) t;
select pg_temp.try($$ select outbox.before_event_insert() $$);

-- what CloudEvents allows in no attribute, where the event gets such headers
begin;
set local outbox.topic_template = 'fixed';
set local outbox.headers_format = 'cloudevents';
select f.field, encode(convert_to(c.c, 'UTF8'), 'hex'), pg_temp.try(format('select outbox.emit(%s, null)', (select string_agg(quote_literal(v || case when i = f.i then c.c else '' end), ', ' order by i)
  from unnest(array['type', 'id', 'made']) with ordinality x (v, i))))
from unnest(array['aggregate_type', 'aggregate_id', 'event_type']) with ordinality f (field, i), unnest(array[E'\x01', E'\n', E'\x7f', E'\u0085', E'\uffff', E'\U0001fffe']) c (c) order by f.i, c.c collate "C";
select pg_temp.try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('order', E'1\t', 'made') $$);
set local outbox.headers_format = 'both';
select pg_temp.try($$ select outbox.emit_bytes('order', E'1\r', 'made', '') $$);
set local outbox.headers_format = 'debezium';
select pg_temp.try($$ select outbox.emit('order', E'1\t', 'made', '{}') $$);
select pg_temp.try($$ select outbox.emit('order', E'1\u00e4 \u3042 \U0001f600', 'made', '{}') $$);
rollback;

\pset format aligned
\pset tuples_only off
select aggregate_id, event_type, headers, length(payload::text) from outbox.events
where aggregate_id = '1' and event_type = 'made' and aggregate_type in ('order', repeat('x', 236)) order by seq;
