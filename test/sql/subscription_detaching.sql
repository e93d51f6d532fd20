-- A subscription that a superuser detaches: errors, rights, what it takes from when on, and what transactions leave behind.
-- Kafka is not there, so nothing is ever published.
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
create function event(n int) returns uuid language sql as $$ select format('0190b000-0000-7000-8000-0000000000%s', to_char(n, 'FM00'))::uuid $$;
create function emit(n int) returns bigint language sql as $$
  select count(*) from outbox.emit('order', '1', 'made', '{}', event_id => event(n)) $$;
-- the relay is ended, and needs a moment to come again
create procedure becomes(wanted text) language plpgsql as $$
begin
  for i in 1..300 loop
    exit when (select state from outbox.relay_status) = wanted;
    perform pg_sleep(0.1);
    commit;
  end loop;
end $$;
call becomes('not_configured');

-- errors and rights
select try($$select outbox.detach_subscription('none')$$);
select try($$select outbox.detach_subscription(null)$$);
select try($$select outbox.attach_subscription('default', 'now')$$);
select try($$select outbox.attach_subscription('default', null)$$);
create role outbox_test_detacher;
grant usage on schema outbox to outbox_test_detacher;
set role outbox_test_detacher;
select try($$select outbox.detach_subscription('default')$$);
reset role;
grant execute on all functions in schema outbox to outbox_test_detacher;
set role outbox_test_detacher;
select try($$select outbox.detach_subscription('default')$$);
select try($$select outbox.detach_subscription_as_owner('default')$$);
select try($$select outbox.attach_default('now')$$);
select try($$select outbox.stop_subscription('default')$$);
reset role;
revoke execute on all functions in schema outbox from outbox_test_detacher;
revoke usage on schema outbox from outbox_test_detacher;
drop role outbox_test_detacher;
begin isolation level repeatable read;
select try($$select outbox.detach_subscription('default')$$);
rollback;

-- nothing is left of what is rolled back
select emit(10);
begin;
select outbox.detach_subscription('default') > 0 as some;
select outbox.drain('1 ms'); -- although no relay has passed anything
select status from outbox.event_status where id = event(10);
select try($$select outbox.detach_subscription('default')$$);
rollback;
select status from outbox.event_status where id = event(10);
select count(*) from outbox.subscription_history where subscription = 'default';

-- What it has set aside, and has not sent, it gives up; the transaction's own events are among those that it does not take,
-- before the call and after it.
select emit(n) from generate_series(11, 14) n;
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, failed_at, last_error)
select e.seq, e.xid, e.slot, e.id, 1, 't', '1', s.state, true, 3, now(), 'REFUSED: refused'
from (values (11, 'RETRYING'), (12, 'WAITING'), (13, 'FAILED')) s (n, state) join outbox.events e on e.id = event(n);
select outbox.drain('1 ms');
begin;
select emit(15);
select outbox.detach_subscription('default') - (select count(*) from outbox.events e where e.xid > 0) as beside_all_events;
select emit(16);
commit;
select emit(17);
call becomes('detached');
select state, config_error from outbox.relay_status;
select outbox.drain('10 s');
select backlog_events from outbox.relay_status;
select right(id::text, 2) as event, status, published_at from outbox.event_status where id between event(10) and event(17) order by 1;
select right(event_id::text, 2) as event, subscription, status from outbox.delivery_status where event_id between event(10) and event(17) order by 1;
select right(event_id::text, 2) as event, state, topic, settled_by = session_user as by_caller, reason
from outbox.deliveries where event_id between event(10) and event(17) order by 1;
select number, takes, aggregate_types, event_types, changed_by = session_user as by_caller from outbox.subscription_history
where subscription = 'default' order by number;
select try(format('select outbox.wait_published(%L, ''1 s'')', event(17)));
select try(format('select outbox.wait_published(%L, ''1 s'', ''default'')', event(17)));
select try($$select outbox.drain('1 s', 'default')$$);
select try($$select outbox.detach_subscription('default')$$);
select try($$select outbox.attach_subscription('default', 'retained')$$);
select try($$select outbox.replay(dry_run => false)$$);
select split_part(try(format('select outbox.retry(%L)', event(13))), ' | ', 2);
select try($$select outbox.drop_subscription('default')$$);

-- attached again: with all of the transaction's events, those before the call too
begin;
select emit(18);
select outbox.attach_subscription('default', 'now');
select emit(19);
commit;
select emit(20);
call becomes('not_configured');
select right(id::text, 2) as event, status from outbox.event_status where id between event(17) and event(20) order by 1;
select outbox.drain('1 ms');
select outbox.wait_published(event(19), '1 ms');
select try(format('select outbox.wait_published(%L, ''1 s'')', event(17)));
select try($$select outbox.attach_subscription('default', 'now')$$);
-- and detached, attached and detached in one transaction
begin;
select outbox.detach_subscription('default') >= 3 as those_after_it_was_attached;
select outbox.attach_subscription('default', 'now');
select emit(21);
select outbox.detach_subscription('default') > 0 as some;
savepoint one;
select outbox.attach_subscription('default', 'now');
rollback to one;
commit;
select emit(22);
call becomes('detached');
select outbox.drain('10 s');
select right(id::text, 2) as event, status from outbox.event_status where id between event(18) and event(22) order by 1;

-- another one
select outbox.create_subscription('other', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', event_types => '{made}', start => 'retained');
select outbox.detach_subscription('other') = count(*) as all_events from outbox.events where event_type = 'made' and xid > 0;
select state, detached_at is not null as detached, missed_events, replace(last_error, session_user, 'me') as last_error
from outbox.subscription_status where name = 'other';
select right(event_id::text, 2) as event, status from outbox.delivery_status
where event_id between event(21) and event(22) and subscription = 'other' order by 1;
select try($$select outbox.detach_subscription('other')$$);
select try($$select outbox.drain('1 s', 'other')$$);
select outbox.drain('10 s');
-- What it has missed it has passed, when it is attached with what commits from now on. That stays so.
select outbox.attach_subscription('other', 'now');
select emit(23);
select outbox.detach_subscription('other');
select right(event_id::text, 2) as event, status from outbox.delivery_status
where event_id between event(21) and event(23) and subscription = 'other' order by 1;
select outbox.attach_subscription('other', 'retained');
select right(event_id::text, 2) as event, status from outbox.delivery_status
where event_id between event(21) and event(23) and subscription = 'other' order by 1;
select takes from outbox.subscription_history where subscription = 'other';
begin;
select outbox.detach_subscription('other') > 0 as some;
rollback;
select detached_at, detached_by from outbox.subscriptions;
select outbox.drop_subscription('other');
select outbox.attach_subscription('default', 'now');
call becomes('not_configured');
-- a limit, which a subscription reaches that is changed all the time
begin;
insert into outbox.subscription_history (subscription, number, since, takes)
select 'default', 1000 + n, pg_current_snapshot(), true from generate_series(1, 100) n;
select try($$select outbox.detach_subscription('default')$$);
rollback;
call becomes('not_configured');
drop procedure becomes(text);
drop function try(text), emit(int), event(int);
