-- What the relay is doing, and what became of events; the views are in files of their own.

create function outbox.relay_state(
  out state text,
  out pid int,
  out backlog_events bigint,
  out oldest_event_at timestamptz,
  out in_flight_events int,
  out in_flight_bytes bigint,
  out published_since_start bigint,
  out last_published_at timestamptz,
  out consecutive_failures int,
  out next_attempt_at timestamptz,
  out last_error text,
  out last_error_at timestamptz,
  out config_error text)
returns record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_relay_state';
comment on function outbox.relay_state() is
  'State of this database''s relay, from shared memory. Use the view outbox.relay_status.';

create function outbox.wait_published(event_id uuid, timeout interval default '10 s')
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_wait_published';
comment on function outbox.wait_published(uuid, interval) is
  'Waits until Kafka has acknowledged the event; false when the timeout passes first. Call it after the emitting transaction has committed, and within outbox.retention.';

-- Without sequential scans plans look expensive to the compiler of expressions.
create function outbox.drain(timeout interval default '1 min')
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as 'MODULE_PATHNAME', 'outbox_drain';
comment on function outbox.drain(interval) is
  'Waits until no committed event is unpublished; false when the timeout passes first. Stop what emits before. Failed events are not waited for.';
