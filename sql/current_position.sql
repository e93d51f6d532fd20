-- Upgrades run this file too.

create or replace view outbox.current_positions as
select p.subscription, p.from_snapshot, p.to_snapshot, p.last_seq, p.published_total, p.updated_at
from outbox.relay_position p
where p.system_identifier operator(pg_catalog.=) outbox.system_identifier()
  and p.database_oid operator(pg_catalog.=) (
    select d.oid from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())
  and p.xmin operator(pg_catalog.=) p.written_by::xid;
comment on view outbox.current_positions is
  'The rows of outbox.relay_position that are this database''s, one for each subscription; none of one whose relay never ran.';

create or replace view outbox.current_position as
select p.from_snapshot, p.to_snapshot, p.last_seq, p.published_total, p.updated_at
from outbox.current_positions p
where p.subscription operator(pg_catalog.=) 'default';
comment on view outbox.current_position is
  'The row of outbox.relay_position that is this database''s and of the default subscription; none before the relay first ran.';
