-- What the relay remembers, and what it shows.

-- No unique constraint: a restored dump brings its row beside the one of this database, and the install
-- script inserts nothing for the same reason. The relay knows its own row by the cluster, the database and
-- written_by: the row's xmin is that transaction exactly as long as the row is where the relay put it.
create function outbox.system_identifier()
returns bigint
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_system_identifier';
comment on function outbox.system_identifier() is
  'Identifier of this database cluster, as in pg_control_system().';

create function outbox.data_directory()
returns bigint
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_data_directory';
comment on function outbox.data_directory() is
  'A number that a copy of the data directory, unlike the directory itself, does not have: from the inode of its control file and the time when that was made.';

create function outbox.timeline()
returns int
language c stable parallel safe
as 'MODULE_PATHNAME', 'outbox_timeline';
comment on function outbox.timeline() is
  'The timeline that this server writes.';

create table outbox.relay_position (
  system_identifier bigint not null,
  database_oid oid not null,
  timeline int not null,
  data_directory bigint not null,
  written_by xid8 not null,
  from_snapshot pg_snapshot not null,
  to_snapshot pg_snapshot not null,
  last_seq bigint not null,
  published_total bigint not null,
  updated_at timestamptz not null,
  rows_counted boolean,
  subscription text collate "C" not null default 'default'
) with (fillfactor = 50);
-- For one row, as its versions may be millions: while an old snapshot keeps them, and in their place until the table is
-- written anew.
create index relay_position_database on outbox.relay_position (database_oid);
comment on table outbox.relay_position is
  'How far the relay has published. Written by the relay only; one row, and another one after a restore.';
comment on column outbox.relay_position.system_identifier is 'Cluster that the position belongs to.';
comment on column outbox.relay_position.database_oid is 'Database that the position belongs to.';
comment on column outbox.relay_position.timeline is 'Timeline of the cluster when the row was written.';
comment on column outbox.relay_position.data_directory is 'Which data directory it was, see outbox.data_directory().';
comment on column outbox.relay_position.written_by is 'Transaction that wrote this row; differs from xmin in a restored row.';
comment on column outbox.relay_position.from_snapshot is 'Every event visible in this snapshot is published.';
comment on column outbox.relay_position.to_snapshot is 'Of those visible only in this one, the events up to last_seq are published.';
comment on column outbox.relay_position.last_seq is 'See to_snapshot.';
comment on column outbox.relay_position.published_total is 'Events published since the extension was created.';
comment on column outbox.relay_position.updated_at is 'When the relay wrote this row.';
-- include position_columns

create table outbox.ticks (
  next_xid bigint not null,
  snapshot pg_snapshot not null,
  published_at timestamptz not null,
  written_by xid8 not null default pg_catalog.pg_current_xact_id()
);
create index ticks_next_xid on outbox.ticks (next_xid);
create index ticks_published_at on outbox.ticks (published_at);
comment on table outbox.ticks is
  'At most about once a second: every event visible in the snapshot was published at that time or before.';
comment on column outbox.ticks.next_xid is 'First transaction id that the snapshot does not see (its xmax), for look-ups by an event''s xid.';
comment on column outbox.ticks.snapshot is 'Every event visible in it was published by published_at.';
comment on column outbox.ticks.published_at is 'When this was known.';
comment on column outbox.ticks.written_by is 'Transaction that wrote this row; differs from xmin in a restored row, whose snapshot is of another history.';
select pg_catalog.pg_extension_config_dump('outbox.ticks', '');

create function outbox.visible_in(xid bigint, snapshot pg_snapshot)
returns boolean
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'outbox_visible_in';
comment on function outbox.visible_in(bigint, pg_snapshot) is
  'Whether the transaction had ended when the snapshot was taken; pg_visible_in_snapshot() for the bigint that events carry.';

-- include current_position

-- Last statement about the relay: it asks the launcher for one as soon as this transaction commits.
create function outbox.request_relay()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_request_relay';
comment on function outbox.request_relay() is
  'Starts this database''s relay when the current transaction commits; CREATE EXTENSION calls it.';
select outbox.request_relay();
