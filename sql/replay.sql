-- Replays: events that were published, and are still kept, go to Kafka once more.

-- Not part of a dump: a restored database continues no replay.
create table outbox.replay_requests (
  id uuid not null,
  state text collate "C" not null,
  aggregate_type text,
  event_type text,
  aggregate_id text,
  since timestamptz,
  until timestamptz,
  max_count int not null,
  rate_per_second int not null,
  topic text,
  matching bigint,
  total int not null,
  published int not null default 0,
  refused int not null default 0,
  missing int not null default 0,
  last_error text,
  requested_by name not null default session_user,
  requested_at timestamptz not null default pg_catalog.clock_timestamp(),
  started_at timestamptz,
  ended_at timestamptz,
  cancelled_by name,
  system_identifier bigint not null default outbox.system_identifier(),
  database_oid oid not null,
  subscription text collate "C" not null default 'default',
  constraint replay_requests_pkey primary key (id),
  constraint replay_requests_state_check
    check (state in ('DRY_RUN', 'QUEUED', 'RUNNING', 'DONE', 'CANCELLED', 'FAILED'))
) with (fillfactor = 50);
create index replay_requests_active on outbox.replay_requests (requested_at, id) where state in ('QUEUED', 'RUNNING');

comment on column outbox.replay_requests.id is 'Id of the replay, sent as the header replay_id.';
comment on column outbox.replay_requests.state is 'DRY_RUN: only counted. QUEUED: waits for those before it. RUNNING. DONE. CANCELLED: by an operator. FAILED: given up, see last_error.';
comment on column outbox.replay_requests.aggregate_type is 'Only events of this aggregate type; null: of all.';
comment on column outbox.replay_requests.event_type is 'Only events of this type; null: of all.';
comment on column outbox.replay_requests.aggregate_id is 'Only events of this aggregate; null: of all.';
comment on column outbox.replay_requests.since is 'Only events created then or later; null: from the first.';
comment on column outbox.replay_requests.until is 'Only events created before; null: to the last.';
comment on column outbox.replay_requests.max_count is 'At most so many events, the oldest.';
comment on column outbox.replay_requests.rate_per_second is 'At most so many events a second.';
comment on column outbox.replay_requests.topic is 'Topic for all of them; null: each goes where outbox.topic_template says.';
comment on column outbox.replay_requests.matching is 'How many events matched; null when they were more than max_count, and were not counted as it was no dry run.';
comment on column outbox.replay_requests.total is 'How many events are, or would be, replayed.';
comment on column outbox.replay_requests.published is 'Of these, so many have been acknowledged by Kafka.';
comment on column outbox.replay_requests.refused is 'So many were refused by Kafka and left out.';
comment on column outbox.replay_requests.missing is 'So many no longer existed.';
comment on column outbox.replay_requests.last_error is 'What Kafka refused last and why, what is in the way, or why the replay failed.';
comment on column outbox.replay_requests.requested_by is 'Who asked for it.';
comment on column outbox.replay_requests.requested_at is 'When.';
comment on column outbox.replay_requests.started_at is 'When the relay began.';
comment on column outbox.replay_requests.ended_at is 'When it was over.';
comment on column outbox.replay_requests.cancelled_by is 'Who cancelled it.';
comment on column outbox.replay_requests.system_identifier is 'Cluster in which it was asked for.';
comment on column outbox.replay_requests.database_oid is 'Database in which it was asked for: a copy of it continues no replay.';

-- include replay_columns

-- The list is made once, by the session that asks, so that the relay has nothing to search for.
create table outbox.replay_events (
  replay_id uuid not null,
  chunk int not null,
  held_slots smallint[] not null,
  seqs bigint[] not null,
  xids bigint[] not null,
  slots smallint[] not null,
  constraint replay_events_pkey primary key (replay_id, chunk)
);
comment on table outbox.replay_events is
  'The events of replays that have not ended, a thousand a row. Their partitions of outbox.events are kept meanwhile.';
comment on column outbox.replay_events.replay_id is 'Which replay.';
comment on column outbox.replay_events.chunk is 'Number of the row, from 0; it goes when all of its events are through.';
comment on column outbox.replay_events.held_slots is 'The partitions of outbox.events that its events are in.';
comment on column outbox.replay_events.seqs is 'Emission numbers of the events, in order.';
comment on column outbox.replay_events.xids is 'Their transaction ids; with seq they find the rows in outbox.events.';
comment on column outbox.replay_events.slots is 'Their partitions of outbox.events.';

-- include replays_view

create function outbox.check_topic_name(topic text)
returns void
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'outbox_check_topic_name';
comment on function outbox.check_topic_name(text) is
  'Raises invalid_parameter_value for a text that Kafka takes for no topic name.';

-- include replayable_events
