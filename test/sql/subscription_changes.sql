-- How subscriptions change: what they take from when on, what becomes of events, who may do what, and what transactions
-- leave behind.
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
create function event(n int) returns uuid language sql as $$ select format('0190a000-0000-7000-8000-0000000000%s', to_char(n, 'FM00'))::uuid $$;

-- how long one may hold events back
select o, try(format('select outbox.create_subscription(''lag'', ''kafka'', ''{"bootstrap_servers": "127.0.0.1:1"}''::jsonb || %L::jsonb)', o))
from unnest(array['{"max_lag": "300000 years"}', '{"max_lag": "300000d"}', '{"max_lag": 0}', '{"max_lag": "-1d"}', '{"max_lag": ""}',
  '{"max_lag": null}', '{"max_lag": true}', '{"max_lag": {"a": 1}}', '{"max_lag": "3651d"}', '{"max_lag": "1 lightyear"}', '{"max_lag": 1e300}',
  '{"on_lag": "detach"}', '{"on_lag": "drop", "max_lag": "1d"}', '{"on_lag": null, "max_lag": "1d"}',
  '{"on_lag": "hold"}']) o;
select outbox.drop_subscription('lag');
select o, try(format('select outbox.create_subscription(''lag'', ''kafka'', ''{"bootstrap_servers": "127.0.0.1:1"}''::jsonb || %L::jsonb)', o))
from unnest(array['{"max_lag": "3650d", "on_lag": "detach"}']) o;
select try($$select outbox.attach_subscription('lag', 'now')$$);
select try($$select outbox.attach_subscription('lag', 'then')$$);
select try($$select outbox.attach_subscription('lag', null)$$);
select try($$select outbox.attach_subscription('none', 'now')$$);
select try($$select outbox.attach_subscription(null, 'now')$$);
select outbox.drop_subscription('lag');

-- Each event has the filter of its commit: the own transaction's are among those after the call.
begin;
select count(*) from outbox.emit('order', '1', 'made', '{}', event_id => event(10));
select outbox.create_subscription('s', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', '{order}', '{made}');
select count(*) from outbox.emit('order', '1', 'made', '{}', event_id => event(11));
commit;
select count(*) from outbox.emit('order', '1', 'paid', '{}', event_id => event(12));
select outbox.alter_subscription('s', aggregate_types => null, event_types => '{paid*}');
select count(*) from outbox.emit('order', '1', 'made', '{}', event_id => event(13));
select count(*) from outbox.emit('other', '1', 'paid.twice', '{}', event_id => event(14));
select right(event_id::text, 2) as event, subscription, status from outbox.delivery_status
where event_id between event(10) and event(14) order by 1, 2;
select number, takes, aggregate_types, event_types from outbox.subscription_history where subscription = 's' order by number;
select subscription, status, attempts from outbox.event_deliveries(event(14));
select count(*) from outbox.event_deliveries('0190a000-0000-7000-8000-ffffffffffff');
select aggregate_types, event_types from outbox.subscription_status where name = 's';
-- both lists are always given, so none moves to the other unnoticed
select try($$select outbox.alter_subscription('s', event_types => '{paid}')$$);
select try($$select outbox.alter_subscription('s', '{}', '{paid}')$$);
select try($$select outbox.alter_subscription('s', null, '{a*b}')$$);
select try($$select outbox.alter_subscription('none', null, '{paid}')$$);

-- what of an own transaction counts as before it, whoever has ended since
begin;
select pg_current_xact_id() is not null;
\! psql -X -q -d "${PGDATABASE:-contrib_regression}" -c "select pg_current_xact_id()" >/dev/null
select outbox.create_subscription('own', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
select not outbox.visible_in(pg_current_xact_id()::text::bigint, from_snapshot) as to_be_sent
from outbox.relay_position where subscription = 'own';
rollback;

-- a deferred trigger emits at the commit, as somebody else
create table public.outbox_test_rows (n int);
create role outbox_test_writer;
grant insert on public.outbox_test_rows to outbox_test_writer;
select outbox.grant_emitter('outbox_test_writer');
create function public.outbox_test_emits() returns trigger language plpgsql as $$
begin
  perform outbox.emit('order', '1', 'late', '{}', event_id => event(20));
  return null;
end $$;
create constraint trigger emits after insert on public.outbox_test_rows deferrable initially deferred
  for each row execute function public.outbox_test_emits();
begin;
insert into public.outbox_test_rows values (1);
select outbox.create_subscription('late', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
set local role outbox_test_writer;
commit;
select subscription, status from outbox.event_deliveries(event(20));
select outbox.drop_subscription('late');

-- waiting
select try($$select outbox.wait_published(event(12), '1 ms', 's')$$);
select try($$select outbox.wait_published(event(14), '1 ms', 'none')$$);
select try($$select outbox.wait_published(event(14), '1 ms', null)$$);
select outbox.wait_published(event(14), '1 ms', 's'), outbox.wait_published(event(14), '1 ms', 'default');
select try($$select outbox.drain('1 ms', 'none')$$);
select outbox.drain('1 ms', 's'), outbox.drain('1 ms', 'default'), outbox.drain('1 ms', null), outbox.drain('1 ms');

-- failed events of one of them
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, failed_at, last_error, subscription)
select e.seq, e.xid, e.slot, e.id, 1, 't', '1', 'FAILED', true, 3, now(), 'REFUSED: refused', 's' from outbox.events e where e.id = event(11);
select subscription, status, attempts, last_error from outbox.event_deliveries(event(11));
select outbox.retry_failed(null, null, null, 10, 'default'), outbox.retry_failed(), outbox.retry_failed('other', null, null, 10, 's');
select outbox.retry_failed(null, null, null, 10, 's');
select subscription, status from outbox.event_deliveries(event(11));
select try($$select outbox.retry_failed(null, null, null, 10, 'none')$$);
select try($$select outbox.resume('none')$$);
select try($$select outbox.adopt_position('none')$$);
select outbox.adopt_position('s');

-- the levels that keep their snapshot would miss what relays have written since
begin isolation level repeatable read;
select try($$select outbox.drop_subscription('s')$$);
select try($$select outbox.create_subscription('rr', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}')$$);
select try($$select outbox.alter_subscription('s', null, null)$$);
rollback;
begin isolation level serializable;
select try($$select outbox.drop_subscription('s')$$);
rollback;

-- created and dropped, in all the ways of a transaction
begin;
select outbox.create_subscription('brief', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
select outbox.drop_subscription('brief');
commit;
begin;
savepoint one;
select outbox.create_subscription('brief', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', start => 'retained');
savepoint two;
select outbox.drop_subscription('brief');
select outbox.create_subscription('brief', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
rollback to two;
select outbox.pause('why', 'brief');
rollback to one;
commit;
begin;
select outbox.create_subscription('prepared', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
prepare transaction 'outbox_test_create';
select count(*) from outbox.subscriptions where name = 'prepared';
rollback prepared 'outbox_test_create';
begin;
select outbox.create_subscription('prepared', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
prepare transaction 'outbox_test_create';
commit prepared 'outbox_test_create';
begin;
select outbox.drop_subscription('prepared');
prepare transaction 'outbox_test_drop';
commit prepared 'outbox_test_drop';
select subscription, (select count(*) from outbox.relay_position p where p.subscription = n.subscription and p.xmin = p.written_by::xid) as positions,
  (select count(*) from outbox.subscription_history h where h.subscription = n.subscription) > 0 as history
from (select 's' as subscription union select subscription from outbox.relay_position union select subscription from outbox.pauses
  union select subscription from outbox.subscription_history) n where subscription <> 'default' order by 1;

-- who was granted the table gets no file's password sent to a place of his own
grant select, insert, update, delete, truncate on outbox.subscriptions, outbox.subscription_history to outbox_test_writer;
-- nor does who was granted all functions stop a relay, or make others wait
grant execute on all functions in schema outbox to outbox_test_writer;
set role outbox_test_writer;
select try($$update outbox.subscriptions set options = options || '{"bootstrap_servers": "127.0.0.1:6666"}'$$);
select try($$insert into outbox.subscriptions (name, sink, options) values ('mine', 'kafka', '{}')$$);
select try($$delete from outbox.subscriptions$$);
select try($$truncate outbox.subscriptions$$);
select try($$update outbox.subscription_history set takes = false$$);
select try($$select outbox.end_subscription('it')$$);
select try($$select outbox.hold_subscriptions(true)$$);
select try($$set session_replication_role = replica$$);
reset role;
revoke all on outbox.subscriptions, outbox.subscription_history from outbox_test_writer;
revoke execute on all functions in schema outbox from outbox_test_writer;
select try($$select outbox.before_subscription_change()$$);

-- who may only create triggers does not become a superuser by what one calls, at once or at the commit
grant trigger on outbox.subscriptions, outbox.subscription_history, outbox.relay_position, outbox.pauses, outbox.deliveries, outbox.ticks
  to outbox_test_writer;
grant create on schema public to outbox_test_writer;
set role outbox_test_writer;
create function public.outbox_test_rises() returns trigger language plpgsql as $$
begin
  insert into public.outbox_test_rows values (-1);
  execute 'alter role outbox_test_writer superuser';
  return coalesce(new, old);
end $$;
do $$
declare
  target text;
begin
  foreach target in array array['subscriptions', 'subscription_history', 'relay_position', 'pauses', 'deliveries', 'ticks'] loop
    execute format('create constraint trigger c_rises after insert or update or delete on outbox.%s deferrable initially deferred '
      'for each row execute function public.outbox_test_rises()', target);
    execute format('create trigger b_rises before insert or update or delete on outbox.%s for each row execute function public.outbox_test_rises()', target);
    execute format('create trigger s_rises after insert or update or delete or truncate on outbox.%s for each statement execute function public.outbox_test_rises()', target);
  end loop;
end $$;
reset role;
select outbox.create_subscription('trapped', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
select outbox.alter_subscription('trapped', '{"bootstrap_servers": "127.0.0.1:2"}');
select outbox.alter_subscription('trapped', null, '{paid}');
select outbox.pause('why', 'trapped'), outbox.adopt_position('trapped'), outbox.resume('trapped');
select outbox.drop_subscription('trapped');
select rolsuper from pg_roles where rolname = 'outbox_test_writer';
select count(*) from public.outbox_test_rows where n = -1;
set client_min_messages = error;
drop function public.outbox_test_rises() cascade;
reset client_min_messages;

select outbox.drop_subscription('s');
-- what is left of one whose row a superuser has deleted
select outbox.create_subscription('left', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
select count(*) from outbox.pause('why', 'left');
delete from outbox.subscriptions where name = 'left';
select outbox.drop_subscription('left');
select try($$select outbox.drop_subscription('left')$$);
select try($$select outbox.drop_subscription('default')$$);
select count(*) from outbox.relay_position where subscription <> 'default';
select count(*) from outbox.pauses;

delete from outbox.events where id between event(10) and event(20);
drop table public.outbox_test_rows;
drop function public.outbox_test_emits();
drop owned by outbox_test_writer;
drop role outbox_test_writer;
drop function event(int);
drop function try(text);
