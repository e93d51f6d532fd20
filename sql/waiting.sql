-- Waiting for a subscription's relay; the functions for the default one are in status.sql.

create function outbox.wait_published(event_id uuid, timeout interval, subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
as 'MODULE_PATHNAME', 'outbox_wait_published_by';
comment on function outbox.wait_published(uuid, interval, text) is
  'The same for what this subscription sends. An error for an event that it does not send.';

create function outbox.drain(timeout interval, subscription text)
returns boolean
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as 'MODULE_PATHNAME', 'outbox_drain_one';
comment on function outbox.drain(interval, text) is
  'The same for one subscription; null: for all that are attached, as without it.';
comment on function outbox.drain(interval) is
  'Waits until no committed event is unpublished, in any subscription that is attached; false when the timeout passes first. Stop what emits before. Failed events are not waited for.';
