-- Replays of subscriptions as far as sessions see them: what they list, whose they are, and that they go with theirs.
\set SHOW_CONTEXT never
begin;
insert into outbox.events (aggregate_type, aggregate_id, event_type)
select 'again', (n % 3)::text, case when n % 4 = 0 then 'other' else 'even.' || n % 2 end from generate_series(1, 12) n;
commit;
-- What there was when it began counts as passed.
select outbox.create_subscription('copy', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}', event_types => '{even.*}');
select outbox.create_subscription('all', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
select outbox.pause('test', 'copy'), outbox.pause('test', 'all');

select outbox.replay('again', subscription => 'none');
select outbox.replay('again', subscription => null);
\set VERBOSITY terse
-- what it takes, and no other's
select outbox.replay('again') is not null, outbox.replay('again', subscription => 'copy') is not null,
  outbox.replay('again', 'even.1', subscription => 'copy') is not null, outbox.replay('again', 'other', subscription => 'copy') is not null,
  outbox.replay('again', subscription => 'all') is not null;
-- what one has set aside another may send
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, subscription)
select e.seq, e.xid, e.slot, e.id, 1, 't', 'k', 'FAILED', false, 'copy' from outbox.events e
where e.aggregate_type = 'again' and e.event_type = 'even.1' order by e.seq limit 2;
select outbox.replay('again', subscription => 'copy') is not null, outbox.replay('again', subscription => 'all') is not null;
\set VERBOSITY default
select subscription, state, total from outbox.replays order by requested_at desc, subscription limit 2;

-- sixteen at a time of each
select count(outbox.replay('again', max_count => 1, dry_run => false, subscription => 'copy')) from generate_series(1, 16);
select outbox.replay('again', dry_run => false, subscription => 'copy');
select outbox.replay('again', dry_run => false, subscription => 'all') as replay_id \gset
select subscription, count(*) from outbox.replays where state <> 'DRY_RUN' group by 1 order by 1;
select outbox.cancel_replay(:'replay_id');
-- a thousand that have ended stay of each
select count(outbox.replay('nothing', dry_run => false, subscription => 'all')) from generate_series(1, 1001);
select count(*) from outbox.replays where subscription = 'all';
select count(*) > 0 as others_stay from outbox.replays where subscription = 'copy' and state = 'DRY_RUN';

-- they go with it
begin isolation level repeatable read;
select outbox.drop_subscription('copy');
rollback;
select outbox.drop_subscription('copy');
select subscription, count(*) from outbox.replays group by 1 order by 1;
select count(*) from outbox.replay_events;
select outbox.create_subscription('copy', 'kafka', '{"bootstrap_servers": "127.0.0.1:1"}');
select count(*) from outbox.replays where subscription = 'copy';
select outbox.stats_reset('none');
select outbox.drop_subscription('copy'), outbox.drop_subscription('all');
delete from outbox.replay_requests;
delete from outbox.events where aggregate_type = 'again';
