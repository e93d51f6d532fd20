-- Replays as far as sessions see them: what is refused, what is counted and listed, who may. No relay publishes here.
\set SHOW_CONTEXT never
set timezone = 'UTC';
create function pg_temp.id(n int) returns uuid language sql as $$ select format('00000000-0000-4000-b000-%s', lpad(n::text, 12, '0'))::uuid $$;
create function pg_temp.as_published() returns void language sql as $$
  delete from outbox.relay_position;
  insert into outbox.relay_position
  select outbox.system_identifier(), oid, outbox.timeline(), outbox.data_directory(), pg_current_xact_id(),
    pg_current_snapshot(), pg_current_snapshot(), 0, 0, now()
  from pg_database where datname = current_database()
$$;
-- what a replay has listed, as ids
create function pg_temp.listed(replay uuid) returns table (chunk int, n bigint, id text, held_slots smallint[]) language sql as $$
  select l.chunk, u.n, right(e.id::text, 2), l.held_slots
  from outbox.replay_events l, unnest(l.seqs, l.xids, l.slots) with ordinality u (seq, xid, slot, n)
  join outbox.events e on (e.seq, e.xid, e.slot) = (u.seq, u.xid, u.slot)
  where l.replay_id = replay order by l.chunk, u.n
$$;
begin;
insert into outbox.events (id, aggregate_type, aggregate_id, event_type, created_at)
select pg_temp.id(n), 'replayed', case when n <= 3 then 'a' else 'b' end, case when n % 2 = 0 then 'even' else 'odd' end,
  timestamptz '2026-01-01' + n * interval '1 day'
from generate_series(1, 9) n;
commit;
select pg_temp.as_published();
insert into outbox.events (id, aggregate_type, aggregate_id, event_type) select pg_temp.id(10), 'replayed', 'b', 'even';
insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking)
select e.seq, e.xid, e.slot, e.id, 1, 't', 'k', case e.id when pg_temp.id(7) then 'FAILED' when pg_temp.id(8) then 'DISCARDED' else 'WAITING' end, false
from outbox.events e where e.id in (pg_temp.id(7), pg_temp.id(8), pg_temp.id(9));

-- each is refused, and leaves nothing
select outbox.replay(max_count => 0);
select outbox.replay(max_count => 1000001);
select outbox.replay(max_count => null);
select outbox.replay(rate_per_second => 0);
select outbox.replay(rate_per_second => 10001);
select outbox.replay(rate_per_second => null);
select outbox.replay(dry_run => null);
select outbox.replay(since => '2026-01-02', until => '2026-01-02');
select outbox.replay(topic => '');
select outbox.replay(topic => 'no topic', dry_run => false);
select outbox.replay(topic => repeat('x', 250));
select outbox.replay(topic => '..');
select outbox.cancel_replay(null);
select outbox.cancel_replay('00000000-0000-4000-b000-000000000000');
select count(*) from outbox.replays;

-- a dry run counts what is published and nothing else; the notice says it, and the row
select outbox.replay('replayed') is not null as id;
select state, total, matching, percent, remaining, max_count, rate_per_second, ended_at is not null as ended, requested_by = session_user as by_me
from outbox.replays;
select count(*) from outbox.replay_events;
select outbox.replay('replayed', max_count => 4, rate_per_second => 2) as replay_id \gset
select state, total, matching, remaining from outbox.replays where replay_id = :'replay_id';
select outbox.cancel_replay(:'replay_id');
-- by each of the conditions, and by all of them
\set VERBOSITY terse
select outbox.replay('nothing') is not null, outbox.replay('replayed', 'even') is not null, outbox.replay('replayed', null, 'a') is not null,
  outbox.replay('replayed', since => '2026-01-03') is not null, outbox.replay('replayed', until => '2026-01-03') is not null,
  outbox.replay('replayed', 'even', 'b', '2026-01-05', '2026-01-07') is not null;
\set VERBOSITY default

-- a replay is listed in order, the oldest first, and no more than was asked for
select outbox.replay('replayed', 'odd', max_count => 2, dry_run => false, topic => 'elsewhere') as replay_id \gset
select state, total, matching, percent, published, refused, missing, topic, ended_at is null as goes_on from outbox.replays where replay_id = :'replay_id';
select chunk, n, id from pg_temp.listed(:'replay_id');
select held_slots = array[outbox.current_slot()] as held from outbox.replay_events where replay_id = :'replay_id';
select outbox.replay('replayed', dry_run => false) as second \gset
select state, total, matching from outbox.replays where replay_id = :'second';
select string_agg(id, ' ' order by n) from pg_temp.listed(:'second');
-- nothing to do is done at once
select outbox.replay('nothing', dry_run => false) as nothing \gset
select state, total, percent, remaining, ended_at is not null as ended from outbox.replays where replay_id = :'nothing';
-- a thousand a row
begin;
insert into outbox.events (aggregate_type, aggregate_id, event_type) select 'many', n::text, 'e' from generate_series(1, 2500) n;
commit;
select pg_temp.as_published();
select outbox.replay('many', max_count => 2400, dry_run => false) as many \gset
select chunk, cardinality(seqs), cardinality(xids), cardinality(slots) from outbox.replay_events where replay_id = :'many' order by chunk;
select bool_and(lower.s < upper.s) from (select max(s) as s, chunk from outbox.replay_events, unnest(seqs) s where replay_id = :'many' group by chunk) lower
  join (select min(s) as s, chunk from outbox.replay_events, unnest(seqs) s where replay_id = :'many' group by chunk) upper on upper.chunk = lower.chunk + 1;
select total, matching from outbox.replays where replay_id = :'many';

-- cancelled once; the list is gone, and others stay
select outbox.cancel_replay(:'replay_id');
select outbox.cancel_replay(:'replay_id');
select state, cancelled_by = session_user as by_me, ended_at is not null as ended from outbox.replays where replay_id = :'replay_id';
select count(*) filter (where replay_id = :'replay_id') as cancelled, count(*) filter (where replay_id = :'second') as other from outbox.replay_events;
-- rolled back: nothing was asked for
begin;
select outbox.replay('replayed', dry_run => false) is not null as id;
rollback;
select count(*) from outbox.replays where state = 'QUEUED';
-- no more than sixteen at a time; dry runs are none
do $$ begin for n in 1..14 loop perform outbox.replay('replayed', dry_run => false); end loop; end $$;
select outbox.replay('replayed', dry_run => false);
\set VERBOSITY terse
select outbox.replay('replayed') is not null as counted;
\set VERBOSITY default
-- those that have ended stay, up to a thousand
insert into outbox.replay_requests (id, state, max_count, rate_per_second, total, requested_at, database_oid)
select outbox.uuid_v7(), 'DONE', 1, 1, 1, timestamptz '2020-01-01' + n * interval '1 s', 0 from generate_series(1, 1100) n;
set client_min_messages = warning;
select outbox.replay('replayed') is not null as counted;
reset client_min_messages;
select count(*) filter (where state in ('QUEUED', 'RUNNING')) as active, count(*) filter (where state not in ('QUEUED', 'RUNNING')) as ended from outbox.replays;

-- who has the right needs none on a table; others can do nothing
create role outbox_test_operator;
create role outbox_test_monitor;
select outbox.grant_operator('outbox_test_operator'), outbox.grant_monitor('outbox_test_monitor');
set role outbox_test_operator;
set client_min_messages = warning;
select outbox.replay('replayed') as mine \gset
reset client_min_messages;
select requested_by = session_user as by_session from outbox.replays where replay_id = :'mine';
select outbox.cancel_replay(:'second');
select * from outbox.replay_requests;
select * from outbox.replay_events;
select * from outbox.replayable_events(null, null, null, null, null, 'default');
set role outbox_test_monitor;
select total from outbox.replays where replay_id = :'mine';
select count(*) > 0 as all_columns from (select * from outbox.replays) r;
select outbox.replay('replayed');
select outbox.cancel_replay(:'many');
reset role;
select outbox.revoke_monitor('outbox_test_monitor'), outbox.grant_monitor('outbox_test_operator'), outbox.revoke_monitor('outbox_test_operator');
set role outbox_test_operator;
select count(*) > 0 as still_seen from outbox.replays;
reset role;
select outbox.revoke_operator('outbox_test_operator');
drop role outbox_test_operator, outbox_test_monitor;
delete from outbox.replay_requests;
delete from outbox.replay_events;
delete from outbox.deliveries;
delete from outbox.relay_position;
