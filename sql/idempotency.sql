-- Effect once for inbound requests: a key for each, with the response of the first.

create table outbox.idempotency_keys (
  scope text collate "C" not null,
  key text collate "C" not null,
  request_hash bytea not null,
  owner uuid not null,
  started_at timestamptz not null,
  lease_until timestamptz,
  completed_at timestamptz,
  expires_at timestamptz not null,
  status int,
  response bytea,
  content_type text,
  headers jsonb,
  constraint idempotency_keys_pkey primary key (scope, key)
);
comment on table outbox.idempotency_keys is
  'Keys of inbound requests, until they expire; written by outbox.idempotency_begin(), idempotency_complete() and idempotency_release().';
comment on column outbox.idempotency_keys.scope is 'Whose key it is: the client, the operation.';
comment on column outbox.idempotency_keys.key is 'The request''s Idempotency-Key.';
comment on column outbox.idempotency_keys.request_hash is 'What the request asked for, as SHA-256.';
comment on column outbox.idempotency_keys.owner is 'Who may complete or release it; another one after each start and takeover.';
comment on column outbox.idempotency_keys.started_at is 'When this owner began.';
comment on column outbox.idempotency_keys.lease_until is 'When another caller may take it over; null in mode single_tx and once it is completed.';
comment on column outbox.idempotency_keys.completed_at is 'When its response was stored.';
comment on column outbox.idempotency_keys.expires_at is 'When the key is forgotten.';
comment on column outbox.idempotency_keys.status is 'HTTP status of the response.';
comment on column outbox.idempotency_keys.response is 'Body of the response.';
comment on column outbox.idempotency_keys.content_type is 'Content type of the response.';
comment on column outbox.idempotency_keys.headers is 'Further headers of the response, as a JSON object.';
select pg_catalog.pg_extension_config_dump('outbox.idempotency_keys', '');

create function outbox.request_hash(method text, path text, body bytea)
returns bytea
language c immutable parallel safe
as 'MODULE_PATHNAME', 'outbox_request_hash';
comment on function outbox.request_hash(text, text, bytea) is
  'SHA-256 of method, path and body: of each, its length in 8 bytes, most significant first, and then its bytes, text in UTF-8. A null body is an empty one.';

-- Sequential scans are off so that no plan made for a small table is used for a large one, and
-- serializable transactions with other keys do not meet.
create function outbox.idempotency_begin(
  scope text, key text, request_hash bytea, ttl interval default '24 h', mode text default 'single_tx',
  lease interval default '1 min',
  out outcome text, out owner uuid, out status int, out response bytea, out content_type text,
  out headers jsonb, out retry_after interval)
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_idempotency_begin';
comment on function outbox.idempotency_begin(text, text, bytea, interval, text, interval) is
  'Whether the caller is to do the work of this request: started and taken_over: yes, as owner; replay: it is done, here is the response; in_progress: another caller is at it; mismatch: the key belongs to another request. Never waits for another caller. See docs/idempotency.md.';

create function outbox.idempotency_complete(
  scope text, key text, owner uuid, status int, response bytea, content_type text, headers jsonb)
returns void
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_idempotency_complete';
comment on function outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb) is
  'Stores the response that later callers get, in the caller''s transaction; an error if the key is no longer held by this owner.';

create function outbox.idempotency_release(scope text, key text, owner uuid)
returns void
language c volatile parallel unsafe security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as 'MODULE_PATHNAME', 'outbox_idempotency_release';
comment on function outbox.idempotency_release(text, text, uuid) is
  'Forgets a key that is not completed, so that the next caller starts; an error if it is no longer held by this owner.';
