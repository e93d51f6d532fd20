-- What the relay removes when it has expired.

-- Not part of a dump: a restored database counts from 0.
create table outbox.expiry (
  table_name text collate "C" not null,
  removed_total bigint not null default 0,
  last_removed_at timestamptz,
  constraint expiry_pkey primary key (table_name)
) with (fillfactor = 10);
comment on table outbox.expiry is
  'What the relay has removed: processed events after outbox.processed_retention, idempotency keys after their ttl.';
comment on column outbox.expiry.table_name is 'Table in the schema outbox.';
comment on column outbox.expiry.removed_total is 'Rows removed so far.';
comment on column outbox.expiry.last_removed_at is 'When rows were removed last.';
insert into outbox.expiry (table_name) values ('processed_events'), ('idempotency_keys');
