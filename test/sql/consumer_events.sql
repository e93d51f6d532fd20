-- mark_processed_many(), is_processed() and a consumer's offsets.
\set SHOW_CONTEXT never
\set one '\'00000000-0000-4000-8000-0000000000a1\''
\set two '\'00000000-0000-4000-8000-0000000000a2\''
\set three '\'00000000-0000-4000-8000-0000000000a3\''
select outbox.mark_processed(:two, 'many');
select id from outbox.mark_processed_many(array[:three, :two, :one, :three]::uuid[], 'many') id order by id;
select id from outbox.mark_processed_many(array[:three, :two, :one, :three]::uuid[], 'many') id;
select outbox.mark_processed_many(array[array[:one], array[:two]]::uuid[], 'other');
select outbox.mark_processed_many('{}', 'many');
select consumer, event_id from outbox.processed_events where consumer in ('many', 'other') order by 1, 2;
select outbox.is_processed(:one, 'many'), outbox.is_processed(:three, 'other');
-- gone with the transaction
begin;
select outbox.mark_processed_many(array[:three]::uuid[], 'other');
select outbox.is_processed(:three, 'other');
rollback;
select outbox.is_processed(:three, 'other');
-- bad input changes nothing
select outbox.mark_processed_many(array[:three, null]::uuid[], 'other');
select outbox.mark_processed_many(null, 'other');
select outbox.mark_processed_many(array[:three]::uuid[], null);
select outbox.mark_processed_many(array[:three]::uuid[], '');
select outbox.mark_processed_many(array[:three]::uuid[], repeat('c', 256));
select outbox.mark_processed_many('{not-an-id}', 'other');
select outbox.mark_processed(:three, repeat('c', 256));
select outbox.mark_processed('not-an-id', 'other');
select outbox.is_processed(null, 'other');
select outbox.is_processed(:three, null);
select outbox.is_processed(:three, '');
select count(*) from outbox.processed_events where consumer not in ('many', 'other') and event_id = :three;
-- the longest name that is allowed fits into an index entry
select outbox.mark_processed(:one, string_agg(chr(8000 + n), '')) from generate_series(1, 255) n;
begin read only;
select outbox.mark_processed_many(array[:three]::uuid[], 'other');
rollback;
begin read only;
select outbox.is_processed(:one, 'other');
commit;

-- offsets
select outbox.record_offset('many', 'orders', 1, 10), outbox.record_offset('many', 'orders', 0, 0),
  outbox.record_offset('many', 'carts', 0, 9223372036854775807), outbox.record_offset('other', 'orders', 0, 3);
select outbox.record_offset('many', 'orders', 1, 11), outbox.record_offset('many', 'orders', 1, 11),
  outbox.record_offset('many', 'orders', 1, 10);
select * from outbox.stored_offsets('many');
select * from outbox.stored_offsets('nobody');
begin;
select outbox.record_offset('many', 'orders', 1, 20);
rollback;
select next_offset from outbox.stored_offsets('many') where topic = 'orders' and kafka_partition = 1;
select outbox.record_offset(null, 'orders', 0, 1);
select outbox.record_offset('', 'orders', 0, 1);
select outbox.record_offset(repeat('c', 256), 'orders', 0, 1);
select outbox.record_offset('bad', null, 0, 1);
select outbox.record_offset('bad', '', 0, 1);
select outbox.record_offset('bad', 'or ders', 0, 1);
select outbox.record_offset('bad', repeat('t', 250), 0, 1);
select outbox.record_offset('bad', 'orders', null, 1);
select outbox.record_offset('bad', 'orders', -1, 1);
select outbox.record_offset('bad', 'orders', 0, null);
select outbox.record_offset('bad', 'orders', 0, -1);
select outbox.stored_offsets('bad');
select outbox.stored_offsets(null);
select outbox.stored_offsets('');
