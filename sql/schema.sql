-- outbox: transactional outbox inside PostgreSQL
\echo Use "CREATE EXTENSION outbox" to load this file. \quit

create schema outbox;
comment on schema outbox is
  'Transactional outbox: events emitted in a transaction are published to Kafka once it has committed.';
revoke all on schema outbox from public;

create function outbox.version()
returns text
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'outbox_version';
comment on function outbox.version() is
  'Version of the loaded outbox library, for example 0.1.';
