
-- Roles get what they need by explicit grants. Upgrades run this file too: "or replace" everywhere.

-- The groups of rights, disjoint except for the schema and outbox.version().
create or replace function outbox.rights_of(kind text)
returns setof text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select r.granted from (values
    ('emitter', 'execute on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int)'),
    ('emitter', 'execute on function outbox.emit_bytes(text, text, text, bytea, jsonb, text, uuid, int)'),
    ('emitter', 'insert (aggregate_type, aggregate_id, event_type, partition_key, payload, payload_bytes, headers, schema_version, id, created_at) on table outbox.events'),
    ('emitter', 'execute on function outbox.uuid_v7()'),
    ('emitter', 'execute on function outbox.current_slot()'),
    ('emitter', 'execute on function outbox.wait_published(uuid, interval)'),
    ('emitter', 'execute on function outbox.wait_published(uuid, interval, text)'),
    ('consumer', 'execute on function outbox.mark_processed(uuid, text)'),
    ('consumer', 'execute on function outbox.mark_processed_many(uuid[], text)'),
    ('consumer', 'execute on function outbox.is_processed(uuid, text)'),
    ('consumer', 'execute on function outbox.record_offset(text, text, int, bigint)'),
    ('consumer', 'execute on function outbox.stored_offsets(text)'),
    ('consumer', 'execute on function outbox.request_hash(text, text, bytea)'),
    ('consumer', 'execute on function outbox.idempotency_begin(text, text, bytea, interval, text, interval)'),
    ('consumer', 'execute on function outbox.idempotency_complete(text, text, uuid, int, bytea, text, jsonb)'),
    ('consumer', 'execute on function outbox.idempotency_release(text, text, uuid)'),
    ('operator', 'execute on function outbox.retry(uuid)'),
    ('operator', 'execute on function outbox.retry(uuid, text)'),
    ('operator', 'execute on function outbox.retry_failed(text, text, timestamptz, int)'),
    ('operator', 'execute on function outbox.retry_failed(text, text, timestamptz, int, text)'),
    ('operator', 'execute on function outbox.discard(uuid, text)'),
    ('operator', 'execute on function outbox.discard(uuid, text, text)'),
    ('operator', 'execute on function outbox.pause(text)'),
    ('operator', 'execute on function outbox.pause(text, text)'),
    ('operator', 'execute on function outbox.resume()'),
    ('operator', 'execute on function outbox.resume(text)'),
    ('operator', 'execute on function outbox.drain(interval)'),
    ('operator', 'execute on function outbox.drain(interval, text)'),
    ('operator', 'execute on function outbox.replay(text, text, text, timestamptz, timestamptz, int, int, boolean, text, text)'),
    ('operator', 'execute on function outbox.cancel_replay(uuid)'),
    ('operator', 'select on table outbox.replays'),
    ('operator', 'select on table outbox.dead_letters'),
    ('operator', 'select on table outbox.pauses'),
    ('operator', 'select, insert, update, delete on table outbox.routes'),
    ('operator', 'execute on function outbox.route_of(text, text)'),
    ('operator', 'execute on function outbox.stats_reset()'),
    ('operator', 'execute on function outbox.stats_reset(text)'),
    ('monitor', 'select on table outbox.relay_status'),
    ('monitor', 'select on table outbox.subscription_status'),
    ('monitor', 'execute on function outbox.subscription_states()'),
    ('monitor', 'execute on function outbox.sinks()'),
    ('monitor', 'select on table outbox.delivery_status'),
    ('monitor', 'execute on function outbox.event_deliveries(uuid)'),
    ('monitor', 'execute on function outbox.matches_types(text, text[])'),
    ('monitor', 'select on table outbox.maintenance_status'),
    ('monitor', 'select (id, aggregate_type, aggregate_id, event_type, partition_key, schema_version, created_at, seq, status, attempts, next_attempt_at, published_at, last_error) on table outbox.event_status'),
    ('monitor', 'select (event_id, aggregate_type, aggregate_id, event_type, topic, partition_key, attempts, last_error, failed_at, waiting_behind, created_at, seq, subscription) on table outbox.dead_letters'),
    ('monitor', 'select (aggregate_type, event_type, topic, on_failure, headers_format) on table outbox.routes'),
    ('monitor', 'select (replay_id, state, total, published, refused, missing, percent, remaining, last_error, aggregate_type, event_type, aggregate_id, since, until, max_count, rate_per_second, topic, matching, requested_by, requested_at, started_at, ended_at, cancelled_by, subscription) on table outbox.replays'),
    ('monitor', 'select (seq, event_id, topic, partition_key, state, blocking, attempts, next_attempt_at, last_error, failed_at, settled_by, settled_at, reason, subscription) on table outbox.deliveries'),
    ('monitor', 'select on table outbox.stats'),
    ('monitor', 'select on table outbox.stats_total'),
    ('monitor', 'select on table outbox.stats_histogram'),
    ('monitor', 'select on table outbox.backpressure'),
    ('monitor', 'execute on function outbox.topic_stats()'),
    ('monitor', 'execute on function outbox.database_stats()'),
    ('monitor', 'execute on function outbox.latency_histograms()'),
    ('monitor', 'execute on function outbox.backlog_state()'),
    ('monitor', 'execute on function outbox.relay_state()'),
    ('monitor', 'execute on function outbox.system_identifier()'),
    ('monitor', 'execute on function outbox.visible_in(bigint, pg_snapshot)')
  ) r (kind, granted) where r.kind = rights_of.kind
$$;
comment on function outbox.rights_of(text) is
  'What outbox.grant_emitter(), grant_consumer(), grant_operator() and grant_monitor() grant.';

-- With the caller's rights: a role that may not grant grants nothing.
create or replace function outbox.change_rights(kind text, role regrole, grants boolean)
returns void
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  granted text;
begin
  if role is null or role::oid = 0 then
    raise exception using errcode = 'null_value_not_allowed', message = 'role must not be null';
  end if;
  if grants then
    execute format('grant usage on schema outbox to %s', role);
    execute format('grant execute on function outbox.version() to %s', role);
  end if;
  for granted in select outbox.rights_of(kind) loop
    if grants then
      execute format('grant %s to %s', granted, role);
    else
      execute format('revoke %s from %s', granted, role);
    end if;
  end loop;
  -- A right on a table, taken back, takes those on its columns with it.
  if not grants and kind = 'operator' and exists (
      select from pg_proc p, aclexplode(p.proacl) a
      where p.oid = 'outbox.relay_state'::regproc and a.grantee = role) then
    perform outbox.change_rights('monitor', role, true);
  end if;
  -- The last group takes the schema with it.
  if not grants and not exists (
      select from pg_proc p, aclexplode(p.proacl) a
      where p.pronamespace = 'outbox'::regnamespace and p.proname <> 'version' and a.grantee = role)
    and not exists (
      select from pg_class c, aclexplode(c.relacl) a where c.relnamespace = 'outbox'::regnamespace and a.grantee = role)
    and not exists (
      select from pg_attribute t join pg_class c on c.oid = t.attrelid, aclexplode(t.attacl) a
      where c.relnamespace = 'outbox'::regnamespace and a.grantee = role)
  then
    execute format('revoke execute on function outbox.version() from %s', role);
    execute format('revoke usage on schema outbox from %s', role);
  end if;
end
$$;
comment on function outbox.change_rights(text, regrole, boolean) is
  'For outbox.grant_emitter() and the like.';

do $$
declare
  kind text;
begin
  foreach kind in array array['emitter', 'consumer', 'operator', 'monitor'] loop
    execute pg_catalog.format(
      'create or replace function outbox.grant_%s(role regrole) returns void language sql volatile parallel unsafe '
      'set search_path = pg_catalog, pg_temp as $f$ select outbox.change_rights(%L, role, true) $f$', kind, kind);
    execute pg_catalog.format(
      'create or replace function outbox.revoke_%s(role regrole) returns void language sql volatile parallel unsafe '
      'set search_path = pg_catalog, pg_temp as $f$ select outbox.change_rights(%L, role, false) $f$', kind, kind);
    execute pg_catalog.format(
      'comment on function outbox.revoke_%s(regrole) is ''Takes back what outbox.grant_%s() granted.''', kind, kind);
  end loop;
end
$$;
comment on function outbox.grant_emitter(regrole) is
  'Lets a role emit events, by function or INSERT, and wait for their being published; not read any, not choose topics.';
comment on function outbox.grant_consumer(regrole) is
  'Lets a role mark events as processed, record offsets, and use idempotency keys.';
comment on function outbox.grant_operator(regrole) is
  'Lets a role retry and discard failed events and see them with their payloads, replay published ones, pause and resume the relay, drain, change routes, and reset the statistics.';
comment on function outbox.grant_monitor(regrole) is
  'Lets a role see the state of the relay, of its maintenance, of replays and of each event, the routes and the statistics; no payloads and no headers.';
