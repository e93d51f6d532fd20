-- A plain INSERT, INSERT ... SELECT and COPY are as good as emit().
insert into outbox.events (aggregate_type, aggregate_id, event_type, payload)
values ('plain', '1', 'made', '{"n": 1}'), ('plain', '2', 'made', null);
insert into outbox.events (aggregate_type, aggregate_id, event_type, payload)
select 'plain', n::text, 'selected', jsonb_build_object('n', n) from generate_series(3, 5) n;
copy outbox.events (aggregate_type, aggregate_id, event_type, payload, headers) from stdin;
plain	6	copied	{"n": 6}	{"h": "x"}
plain	7	copied	\N	\N
\.
select aggregate_id, event_type, payload, headers,
       seq > 0 as seq, xid = xmin::text::bigint as xid, substr(id::text, 15, 1) as uuid_version, slot,
       created_at between now() - interval '1 minute' and clock_timestamp() as recent
from outbox.events where aggregate_type = 'plain' order by seq;
select count(distinct id), count(*) from outbox.events where aggregate_type = 'plain';

-- given values are kept; NULL means the default, as object mappers write it
insert into outbox.events (id, aggregate_type, aggregate_id, event_type, created_at)
values ('00000000-0000-4000-8000-0000000000bb', 'given', '1', 'made', '2020-01-01 00:00:00+00'),
       (null, 'given', '2', 'made', null);
select case when aggregate_id = '1' then id end as id, created_at = '2020-01-01 00:00:00+00' as of_2020,
       id is not null as has_id, created_at is not null as has_time
from outbox.events where aggregate_type = 'given' order by seq;

-- the savepoint's rows carry the top-level transaction id
begin;
savepoint s;
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('nested insert', '1', 'made');
rollback to s;
insert into outbox.events (aggregate_type, aggregate_id, event_type) values ('nested-insert', '1', 'made');
release s;
select xid = txid_current() as top_level from outbox.events where aggregate_type = 'nested-insert';
commit;
