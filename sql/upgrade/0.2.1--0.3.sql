-- outbox: from 0.2.1 to 0.3. A line "-- include x" stands for sql/x.sql; see "Change the schema" in CONTRIBUTING.md.
\echo Use "ALTER EXTENSION outbox UPDATE" to load this file. \quit

-- include library
-- include older_objects
-- include remade_functions

-- What belongs to a subscription: all of what there is, to the one that every database has.
alter table outbox.relay_position add subscription text collate "C" not null default 'default';
alter table outbox.pauses add subscription text collate "C" not null default 'default';
alter table outbox.pauses add gone text;
alter table outbox.deliveries add subscription text collate "C" not null default 'default';
alter table outbox.replay_requests add subscription text collate "C" not null default 'default';
alter table outbox.restored_deliveries add subscription text collate "C" not null default 'default';
alter table outbox.deliveries drop constraint deliveries_pkey;
alter table outbox.deliveries add constraint deliveries_pkey primary key (seq, subscription);
drop index outbox.deliveries_waiting;
drop index outbox.deliveries_blockers;
drop index outbox.deliveries_due;
-- include delivery_indexes
-- include subscription_columns
drop function outbox.delivery_to_settle(uuid);
-- include dumped_rows
-- include restored_rows
-- include subscriptions
-- include changing
-- include attaching
-- include current_position
-- include replay_columns
-- include replays_view
-- include replayable_events
-- include stats_views
-- include backpressure_columns
-- include dead_letters
-- include relay_status
-- include event_status
-- include event_deliveries
-- include waiting

-- include operating
-- include pausing
-- include grants
-- include closed
-- include remade_rights

-- Last: the relay, which waited for this version, continues when the update commits.
select outbox.request_relay();
