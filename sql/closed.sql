
-- Start closed: nothing for PUBLIC. Only what this script has made is changed, because PostgreSQL takes the rights
-- that an extension's script leaves on an object for the initial ones, which pg_dump does not write: an upgrade
-- that went over older objects too would keep what people were granted on them out of every later dump.
do $$
declare
  object text;
begin
  for object in
    select pg_catalog.format('function %s', p.oid::regprocedure)
    from pg_catalog.pg_proc p
    left join pg_catalog.pg_init_privs i
      on i.objoid operator(pg_catalog.=) p.oid and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_proc'::regclass
    where p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
      and exists (
        select from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
        where a.grantee operator(pg_catalog.=) 0)
      -- Older, and given to PUBLIC by somebody since: theirs to decide.
      and (i.objoid is null or exists (
        select from pg_catalog.aclexplode(i.initprivs) a where a.grantee operator(pg_catalog.=) 0))
    union all
    select pg_catalog.format('table %s', c.oid::regclass)
    from pg_catalog.pg_class c
    where c.relnamespace operator(pg_catalog.=) 'outbox'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
      and not exists (
        select from pg_catalog.pg_init_privs i
        where i.objoid operator(pg_catalog.=) c.oid and i.classoid operator(pg_catalog.=) 'pg_catalog.pg_class'::regclass
          and i.objsubid operator(pg_catalog.=) 0)
  loop
    execute pg_catalog.format('revoke all on %s from public', object);
  end loop;
end
$$;
