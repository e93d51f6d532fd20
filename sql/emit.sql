-- Emitting events.

create function outbox.emit(
  aggregate_type text,
  aggregate_id text,
  event_type text,
  payload jsonb,
  headers jsonb default null,
  partition_key text default null,
  event_id uuid default null,
  schema_version int default null)
returns uuid
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_emit';
comment on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int) is
  'Emits an event with a JSON payload in the current transaction and returns its id. It is published if and only if the transaction commits. A NULL payload is a tombstone.';

create function outbox.emit_bytes(
  aggregate_type text,
  aggregate_id text,
  event_type text,
  payload bytea,
  headers jsonb default null,
  partition_key text default null,
  event_id uuid default null,
  schema_version int default null)
returns uuid
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_emit_bytes';
comment on function outbox.emit_bytes(text, text, text, bytea, jsonb, text, uuid, int) is
  'As outbox.emit(), with a binary payload (Avro, Protobuf, ...) that is sent as it is.';
