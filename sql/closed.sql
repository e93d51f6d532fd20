-- Start closed: nothing for PUBLIC, nor for whom the default privileges of the role that runs this script would give
-- something. Scripts grant nothing, so whatever an object is born with came from there or is PostgreSQL's default. Of an
-- object that is older than the update (sql/older_objects.sql) only those rights are taken away which it has had from
-- the beginning, and not where others' rights rest on them.
do $$
declare
  taken record;
begin
  for taken in
    with objects (kind, name, classid, objid, owner, acl) as (
      select 'schema', pg_catalog.quote_ident(n.nspname), 'pg_catalog.pg_namespace'::regclass, n.oid, n.nspowner,
        coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))
      from pg_catalog.pg_namespace n where n.oid operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select 'function', p.oid::regprocedure::text, 'pg_catalog.pg_proc'::regclass, p.oid, p.proowner,
        coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
      from pg_catalog.pg_proc p where p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass::text, 'pg_catalog.pg_class'::regclass, c.oid, c.relowner,
        coalesce(c.relacl, pg_catalog.acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))
      from pg_catalog.pg_class c
      where c.relnamespace operator(pg_catalog.=) 'outbox'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
      union all
      select 'type', pg_catalog.format('outbox.%I', t.typname), 'pg_catalog.pg_type'::regclass, t.oid, t.typowner,
        coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))
      from pg_catalog.pg_type t
      where t.typnamespace operator(pg_catalog.=) 'outbox'::regnamespace and t.typtype operator(pg_catalog.<>) 'b'
        and not exists (select from pg_catalog.pg_class c
          where c.reltype operator(pg_catalog.=) t.oid and c.relkind operator(pg_catalog.<>) 'c'))
    select o.kind, o.name, a.grantee, 'all' as rights
    from objects o
    cross join lateral (
      select e.grantee from pg_catalog.aclexplode(o.acl) e where e.grantee operator(pg_catalog.<>) o.owner
      -- So that there are initial rights from now on, even where PUBLIC has none.
      union select 0) a
    where not exists (select from pg_temp.outbox_older r
      where r.classid operator(pg_catalog.=) o.classid and r.objid operator(pg_catalog.=) o.objid)
    union all
    select o.kind, o.name, e.grantee, pg_catalog.string_agg(e.privilege_type, ', ')
    from objects o
    join pg_temp.outbox_older r on r.classid operator(pg_catalog.=) o.classid and r.objid operator(pg_catalog.=) o.objid
    join pg_catalog.pg_init_privs i on i.classoid operator(pg_catalog.=) o.classid and i.objoid operator(pg_catalog.=) o.objid
      and i.objsubid operator(pg_catalog.=) 0
    cross join lateral (
      select b.grantee, b.privilege_type from pg_catalog.aclexplode(i.initprivs) b
      intersect select c.grantee, c.privilege_type from pg_catalog.aclexplode(o.acl) c) e
    where e.grantee operator(pg_catalog.<>) o.owner
      and (e.grantee operator(pg_catalog.=) 0 or exists (select from pg_catalog.pg_roles m where m.oid operator(pg_catalog.=) e.grantee))
    group by 1, 2, 3
  loop
    begin
      execute pg_catalog.format('revoke %s on %s %s from %s', taken.rights, taken.kind, taken.name,
        case when taken.grantee operator(pg_catalog.=) 0 then 'public' else taken.grantee::regrole::text end);
    exception when dependent_objects_still_exist then
      raise warning using message = pg_catalog.format('%s on %s %s stay granted to %s, as others have them from there',
          taken.rights, taken.kind, taken.name, taken.grantee::regrole),
        hint = 'They came from default privileges. Take them away by hand if they are not wanted: revoke ... cascade.';
    end;
  end loop;
end
$$;
drop table pg_temp.outbox_older;

-- include initial_rights

-- A column of a table's row type, in a user's table, would block every later change. These types never
-- have default privileges, only PUBLIC can use them. Dumps take no rights of theirs, and pg_dump warns of each one that has
-- initial rights: so they have none, and a right that PUBLIC has is taken away whenever it was granted.
do $$
declare
  row_type record;
begin
  for row_type in
    select t.oid, t.typname as name from pg_catalog.pg_type t join pg_catalog.pg_class c on c.reltype operator(pg_catalog.=) t.oid
    where t.typnamespace operator(pg_catalog.=) 'outbox'::regnamespace and c.relkind operator(pg_catalog.<>) 'c' and exists (
      select from pg_catalog.aclexplode(coalesce(t.typacl, pg_catalog.acldefault('T', t.typowner))) a
      where a.grantee operator(pg_catalog.=) 0)
    order by t.oid
  loop
    execute pg_catalog.format('revoke all on type outbox.%I from public', row_type.name);
    delete from pg_catalog.pg_init_privs i
      where i.classoid operator(pg_catalog.=) 'pg_catalog.pg_type'::regclass and i.objoid operator(pg_catalog.=) row_type.oid;
    -- From PostgreSQL 17 on the roles in initial rights are noted.
    delete from pg_catalog.pg_shdepend d
      where d.dbid operator(pg_catalog.=) (select b.oid from pg_catalog.pg_database b where b.datname operator(pg_catalog.=) pg_catalog.current_database())
        and d.classid operator(pg_catalog.=) 'pg_catalog.pg_type'::regclass and d.objid operator(pg_catalog.=) row_type.oid and d.deptype operator(pg_catalog.=) 'i';
  end loop;
end
$$;
