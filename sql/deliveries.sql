-- The exceptions: events that Kafka refused, and those that wait behind them.

create table outbox.deliveries (
  seq bigint not null,
  xid bigint not null,
  slot smallint not null,
  event_id uuid not null,
  lane bigint not null,
  topic text not null,
  partition_key text not null,
  state text not null,
  blocking boolean not null,
  attempts int not null default 0,
  next_attempt_at timestamptz,
  last_error text,
  failed_at timestamptz,
  settled_by name,
  settled_at timestamptz,
  reason text,
  emitted_at timestamptz,
  subscription text collate "C" not null default 'default',
  constraint deliveries_pkey primary key (seq, subscription),
  constraint deliveries_state_check check (state in ('WAITING', 'RETRYING', 'FAILED', 'DISCARDED'))
);
create index deliveries_event_id on outbox.deliveries (event_id);
-- include delivery_indexes
create index deliveries_slot on outbox.deliveries (slot, state);
-- By hash, as an index takes no key of any size.
create index deliveries_keys on outbox.deliveries (pg_catalog.hashtextextended(partition_key, 0), seq) where state <> 'DISCARDED';
create index deliveries_settled on outbox.deliveries (seq) where not blocking and state <> 'WAITING';

comment on table outbox.deliveries is
  'Only the exceptions: events that Kafka refused, and events that wait behind one. A row goes when its event is published. Written by the relay and by outbox.retry() and outbox.discard().';
comment on column outbox.deliveries.seq is 'The event''s emission number.';
comment on column outbox.deliveries.xid is 'The event''s transaction id; with seq it finds the row in outbox.events.';
comment on column outbox.deliveries.slot is 'The event''s partition of the ring.';
comment on column outbox.deliveries.event_id is 'The event''s id.';
comment on column outbox.deliveries.topic is 'The Kafka topic.';
comment on column outbox.deliveries.partition_key is 'The Kafka key.';
comment on column outbox.deliveries.state is 'RETRYING: refused, tried again at next_attempt_at. FAILED: given up after outbox.max_attempts. WAITING: behind such an event of its lane. DISCARDED: by an operator.';
comment on column outbox.deliveries.blocking is 'Whether later events of the lane wait for this one.';
comment on column outbox.deliveries.attempts is 'How often Kafka refused the event.';
comment on column outbox.deliveries.next_attempt_at is 'When it is tried again.';
comment on column outbox.deliveries.last_error is 'Kafka''s name for the last error, and its text.';
comment on column outbox.deliveries.failed_at is 'When it was refused first.';
comment on column outbox.deliveries.settled_by is 'Who discarded it.';
comment on column outbox.deliveries.settled_at is 'When it was discarded.';
comment on column outbox.deliveries.reason is 'Why it was discarded.';
-- include delivery_columns

-- A row: the relay is paused.
create table outbox.pauses (
  paused_at timestamptz not null default pg_catalog.now(),
  paused_by name not null default session_user,
  reason text,
  subscription text collate "C" not null default 'default',
  gone text
);
comment on table outbox.pauses is 'Holds a row while the relay is paused; see outbox.pause().';
comment on column outbox.pauses.paused_at is 'Since when.';
comment on column outbox.pauses.paused_by is 'By whom.';
comment on column outbox.pauses.reason is 'Why.';

create function outbox.notify_relay()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_notify_relay';
comment on function outbox.notify_relay() is
  'Makes the relay look at outbox.deliveries and outbox.pauses when the current transaction commits.';
