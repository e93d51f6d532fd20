-- Functions that get one more argument or column are made anew. Who was granted the older one gets the new one, see
-- sql/remade_rights.sql. Nothing else may rest on it: views that do are emptied here, and are made anew too.
create temp table outbox_remade as
select p.proname::text as name, a.grantee, a.is_grantable
from pg_catalog.pg_proc p
cross join lateral pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
where p.oid::regprocedure::text operator(pg_catalog.=) any (array[
    'outbox.replay(text,text,text,timestamp with time zone,timestamp with time zone,integer,integer,boolean,text)',
    'outbox.topic_stats()', 'outbox.database_stats()', 'outbox.latency_histograms()'])
  and a.grantee operator(pg_catalog.<>) p.proowner
  -- Not what it was born with, see sql/closed.sql.
  and not exists (select from pg_catalog.pg_init_privs i cross join lateral pg_catalog.aclexplode(i.initprivs) b
    where i.classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::regclass and i.objoid operator(pg_catalog.=) p.oid
      and b.grantee operator(pg_catalog.=) a.grantee);

do $$
declare
  name text;
begin
  foreach name in array array['stats', 'stats_total', 'stats_histogram'] loop
    execute (
      select pg_catalog.format('create or replace view outbox.%I as select %s', name,
        pg_catalog.string_agg(pg_catalog.format('null::%s as %I', pg_catalog.format_type(a.atttypid, a.atttypmod), a.attname), ', ' order by a.attnum))
      from pg_catalog.pg_attribute a
      where a.attrelid operator(pg_catalog.=) pg_catalog.format('outbox.%I', name)::regclass and a.attnum operator(pg_catalog.>) 0);
  end loop;
end
$$;
drop function outbox.replay(text, text, text, timestamptz, timestamptz, int, int, boolean, text);
drop function outbox.replay_as_owner(text, text, text, timestamptz, timestamptz, int, int, boolean, text);
drop function outbox.replayable_events(text, text, text, timestamptz, timestamptz);
drop function outbox.topic_stats();
drop function outbox.database_stats();
drop function outbox.latency_histograms();
