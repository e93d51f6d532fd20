-- Effect once for consumers: which events each has processed, and how far it has come.

create table outbox.processed_events (
  consumer text collate "C" not null,
  event_id uuid not null,
  processed_at timestamptz not null default pg_catalog.now(),
  constraint processed_events_pkey primary key (event_id, consumer)
);
comment on table outbox.processed_events is
  'Events that consumers of this database have processed, for outbox.processed_retention; written by outbox.mark_processed().';
comment on column outbox.processed_events.consumer is 'Name of the consumer.';
comment on column outbox.processed_events.event_id is 'Id of the event, from the Kafka record''s header id.';
comment on column outbox.processed_events.processed_at is 'Start of the transaction that processed it.';
select pg_catalog.pg_extension_config_dump('outbox.processed_events', '');

create function outbox.mark_processed(event_id uuid, consumer text)
returns boolean
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_mark_processed';
comment on function outbox.mark_processed(uuid, text) is
  'True the first time that this consumer sees the event, in the caller''s transaction; false for every repetition. A concurrent duplicate waits for the first to end.';

create function outbox.mark_processed_many(event_ids uuid[], consumer text)
returns setof uuid
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_mark_processed_many';
comment on function outbox.mark_processed_many(uuid[], text) is
  'outbox.mark_processed() for many events in one statement: returns each of those that are new to this consumer once, in no particular order. Consumers that mark the same events in other orders do not deadlock.';

-- Sequential scans are off so that no plan made for a small table is used for a large one, and a
-- serializable transaction is not in the way of those that it has nothing to do with.
create function outbox.is_processed(event_id uuid, consumer text)
returns boolean
language c stable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_is_processed';
comment on function outbox.is_processed(uuid, text) is
  'Whether this consumer has processed the event, as far as the caller''s snapshot shows. Does not wait, and so does not replace outbox.mark_processed().';

create table outbox.consumer_offsets (
  consumer text collate "C" not null,
  topic text collate "C" not null,
  kafka_partition int not null,
  next_offset bigint not null,
  recorded_at timestamptz not null default pg_catalog.now(),
  constraint consumer_offsets_pkey primary key (consumer, topic, kafka_partition)
) with (fillfactor = 50);
comment on table outbox.consumer_offsets is
  'How far consumers of this database have come in Kafka''s topics; written by outbox.record_offset(). Delete a row to let its consumer begin again.';
comment on column outbox.consumer_offsets.consumer is 'Name of the consumer.';
comment on column outbox.consumer_offsets.topic is 'Kafka topic.';
comment on column outbox.consumer_offsets.kafka_partition is 'Partition of the topic.';
comment on column outbox.consumer_offsets.next_offset is 'Offset of the next record to be processed.';
comment on column outbox.consumer_offsets.recorded_at is 'Start of the transaction that recorded it.';
select pg_catalog.pg_extension_config_dump('outbox.consumer_offsets', '');

create function outbox.record_offset(consumer text, topic text, kafka_partition int, next_offset bigint)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_record_offset';
comment on function outbox.record_offset(text, text, int, bigint) is
  'Stores how far the consumer has come, in the transaction of its effects: the offset of the last record, plus one. False, and nothing stored, when the stored offset is there already or further: another process has processed these records, so roll back.';

create function outbox.stored_offsets(consumer text)
returns table (topic text, kafka_partition int, next_offset bigint)
language c stable parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_stored_offsets';
comment on function outbox.stored_offsets(text) is
  'Where the consumer continues in each partition that it has recorded an offset of.';
