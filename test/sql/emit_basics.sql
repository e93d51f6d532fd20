-- What emit() and emit_bytes() write.
create extension outbox;
select outbox.version();

select outbox.emit('order', '42', 'created', '{"total": 12.50, "ok": true}') is not null as emitted;
select outbox.emit('order', '42', 'paid', '{}', headers => '{"traceparent": "00-ab", "tenant": 7}',
  partition_key => 'customer-1', event_id => '00000000-0000-4000-8000-000000000001', schema_version => 3);
select outbox.emit_bytes('order', '42', 'scanned', '\x00ff00', event_id => '00000000-0000-4000-8000-000000000002');
-- tombstones
select outbox.emit('order', '42', 'deleted', null, event_id => '00000000-0000-4000-8000-000000000003');
select outbox.emit_bytes('order', '42', 'deleted', null, event_id => '00000000-0000-4000-8000-000000000004');

select aggregate_type, aggregate_id, event_type, payload, payload_bytes, headers, partition_key, schema_version, slot
from outbox.events order by seq;
select e.xid = e.xmin::text::bigint as top_level_xid, created_at between now() - interval '1 minute' and clock_timestamp() as created_now
from outbox.events e where event_type = 'created';

-- the id that emit() makes is a UUIDv7 of the row's time, ascending within the session
select substr(id::text, 15, 1) as version,
       ('x' || replace(substr(id::text, 1, 13), '-', ''))::bit(48)::bigint = floor(extract(epoch from created_at) * 1000) as of_its_time
from outbox.events where event_type = 'created';
select count(*) from (select outbox.emit('many', n::text, 'made', null) from generate_series(1, 500) n) s;
select bool_and(id > previous) from
  (select id, lag(id) over (order by seq) as previous from outbox.events where aggregate_type = 'many') s;

-- emission numbers follow the order of the calls
select count(*), bool_and(seq > previous) from
  (select seq, lag(seq) over (order by seq) as previous from outbox.events) s;

-- a text of a kind that must survive untouched
select outbox.emit('order', 'Größe-Ω-訂單', 'umbenannt', '{"name": "Grüße \u00e9 \"quoted\" \\ 訂單", "big": 123456789012345678901234567890.123}') is not null;
select aggregate_id, event_type, payload from outbox.events order by seq desc limit 1;

-- rolled back with its transaction, or its savepoint
begin;
select outbox.emit('gone', '1', 'made', null) is not null;
rollback;
begin;
select outbox.emit('kept', '1', 'made', null) is not null;
savepoint s;
select outbox.emit('gone', '2', 'made', null) is not null;
rollback to s;
select outbox.emit('kept', '2', 'made', null) is not null;
commit;
select aggregate_type, count(*) from outbox.events where aggregate_type in ('gone', 'kept') group by 1;

-- a savepoint's rows carry the top-level transaction id, not their own
begin;
savepoint s;
select outbox.emit('nested', '1', 'made', null) is not null;
select xid = txid_current() as top_level, xmin::text::bigint = xid as own from outbox.events where aggregate_type = 'nested';
commit;
