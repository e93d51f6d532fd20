-- outbox: from 0.2 to 0.2.1. A line "-- include x" stands for sql/x.sql; see "Change the schema" in CONTRIBUTING.md.
\echo Use "ALTER EXTENSION outbox UPDATE" to load this file. \quit

-- include library

-- What changes in objects that 0.2 has.
alter view outbox.dead_letters set (security_barrier);
create index deliveries_slot on outbox.deliveries (slot, state);
alter table outbox.relay_position add rows_counted boolean;
-- include position_columns
-- include event_status
-- include replayable_events
comment on function outbox.data_directory() is
  'A number that a copy of the data directory, unlike the directory itself, does not have: from the inode of its control file and the time when that was made.';

-- What 0.2 does not have.
-- include restore
-- include identity

-- Functions only, each "create or replace": what operators call, and what roles may be granted.
-- include operating
-- include grants
-- include closed

-- Last: the relay, which waited for this version, continues when the update commits.
select outbox.request_relay();
