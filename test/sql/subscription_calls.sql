-- What subscriptions take, and who may have them. What they send is tested elsewhere.
\set SHOW_CONTEXT never
create function try(statement text) returns text language plpgsql as $$
declare
  message text; detail text; hint text;
begin
  execute statement;
  return 'ok';
exception when others then
  get stacked diagnostics message = message_text, detail = pg_exception_detail, hint = pg_exception_hint;
  return concat_ws(' | ', sqlstate, message, nullif(detail, ''), nullif(hint, ''));
end $$;

select name, library, installed from outbox.sinks() where name = 'kafka';
-- names, sinks, starts, types
select n, try(format('select outbox.create_subscription(%L, ''kafka'', ''{"bootstrap_servers": "127.0.0.1:1"}'')', n))
from unnest(array[null, '', 'default', 'A', '1a', 'a-b', 'a b', repeat('a', 64), 'é', 'pg_x']) n;
select try(format('select outbox.create_subscription(%s)', a)) from unnest(array[
  $$'s', 'pigeon', '{}'$$, $$'s', null, '{}'$$, $$'s', 'kafka', null$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', start => 'then'$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', start => null$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', '{}'$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', '{""}'$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', '{a*b}'$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', '{a**}'$$,
  $$'s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', event_types => '{a,null}'$$]) a;
-- options
select o, try(format('select outbox.create_subscription(''s'', ''kafka'', %L)', o)) from unnest(array[
  '[]', '1', '"x"', '{}', '{"bootstrap_servers": ""}', '{"bootstrap_servers": null}', '{"bootstrap_servers": {"a": 1}}',
  '{"bootstrap_servers": "no port"}', '{"bootstrap_servers": "a:1", "retention": "1s"}', '{"bootstrap_servers": "a:1", "max_attempts": 0}',
  '{"bootstrap_servers": "a:1", "backoff_max": "soon"}', '{"bootstrap_servers": "a:1", "topic_template": "{no}"}',
  '{"bootstrap_servers": "a:1", "kafka_config": "acks=0"}', '{"bootstrap_servers": "a:1", "on_failure": "maybe"}']) o;

-- by whom
create role outbox_test_reader;
select outbox.grant_operator('outbox_test_reader'), outbox.grant_monitor('outbox_test_reader');
grant execute on function outbox.create_subscription(text, text, jsonb, text[], text[], text) to outbox_test_reader;
set role outbox_test_reader;
select try($$select outbox.create_subscription('s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}')$$);
select try($$select outbox.drop_subscription('s')$$);
select try($$select * from outbox.subscriptions$$);
select name from outbox.subscription_status;
reset role;

-- together with what each has
select outbox.create_subscription('s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', '{order}', '{paid*}', 'retained');
select try($$select outbox.create_subscription('s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}')$$);
select name, sink, aggregate_types, event_types, published_total, failed_events from outbox.subscription_status;
select try($$select outbox.alter_subscription('s', '{}')$$);
select try($$select outbox.alter_subscription('t', '{"bootstrap_servers": "127.0.0.1:2"}')$$);
select outbox.alter_subscription('s', '{"bootstrap_servers": "127.0.0.1:2"}');
-- what a destination has asked for ends with other options, and what a person has paused does not
insert into outbox.pauses (subscription, gone) values ('s', 'the destination of before');
select outbox.alter_subscription('s', '{"bootstrap_servers": "127.0.0.1:2"}');
select count(*) from outbox.pauses where subscription = 's';
select outbox.pause('by a person', 's');
select outbox.alter_subscription('s', '{"bootstrap_servers": "127.0.0.1:2"}');
select reason, gone from outbox.pauses where subscription = 's';
select outbox.resume('s');
set role outbox_test_reader;
select outbox.pause('why', 's'), outbox.pause('again', 's'), outbox.pause('why'), outbox.resume('s'), outbox.resume('s'), outbox.resume();
select try($$select outbox.pause('why', 'none')$$);
select try($$select outbox.pause('why', null)$$);
select try($$select outbox.retry('0190a000-0000-7000-8000-000000000001', 'none')$$);
reset role;
select outbox.emit('order', '1', 'made', '{}', event_id => '0190a000-0000-7000-8000-000000000001');
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, subscription)
select e.seq, e.xid, e.slot, e.id, 1, 't', '1', 'FAILED', true, 3, 's' from outbox.events e where e.id = '0190a000-0000-7000-8000-000000000001';
select event_id, subscription from outbox.dead_letters;
select status from outbox.event_status where id = '0190a000-0000-7000-8000-000000000001';
select try($$select outbox.retry('0190a000-0000-7000-8000-000000000001')$$);
select outbox.retry('0190a000-0000-7000-8000-000000000001', 's');
select outbox.discard('0190a000-0000-7000-8000-000000000001', 'test', 's');
select count(*) from outbox.deliveries where state = 'DISCARDED' and subscription = 's';
select outbox.drop_subscription('s'), outbox.drop_subscription('pg_x');
select count(*) from outbox.deliveries where subscription <> 'default';
select try($$select outbox.drop_subscription('s')$$);
select try($$select outbox.drop_subscription(null)$$);
delete from outbox.events where id = '0190a000-0000-7000-8000-000000000001';
drop owned by outbox_test_reader;
drop role outbox_test_reader;
drop function try(text);
