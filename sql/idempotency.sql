-- Effect once: which events a consumer has processed.

create table outbox.processed_events (
  consumer text not null,
  event_id uuid not null,
  processed_at timestamptz not null default pg_catalog.now(),
  constraint processed_events_pkey primary key (consumer, event_id)
);
comment on table outbox.processed_events is
  'Events that consumers of this database have processed; written by outbox.mark_processed().';
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
