-- The secret by which outbox.deliveries.lane is a hash. Not part of a dump: rows that come with one get their lanes by
-- the secret of the database that they come to, see bgworker/engine/stream/route_change.h.
create table outbox.lane_key (
  key uuid not null,
  one boolean not null default true,
  constraint lane_key_pkey primary key (one),
  constraint lane_key_one_check check (one)
);
comment on table outbox.lane_key is
  'The secret of this database by which events get the lanes of outbox.deliveries, so that nobody can construct an event that holds up another topic or key. Made by the relay when it starts and there is none.';
comment on column outbox.lane_key.key is 'Random.';
comment on column outbox.lane_key.one is 'Always true: there is one row.';

comment on column outbox.deliveries.lane is
  'What waits in order: a hash of topic and key; or of topic and partition, or of the topic alone, when all of that is refused. By the secret of outbox.lane_key.';
