-- A GRANT or REVOKE in an extension's script makes all rights that the object has initial ones, those too that people
-- granted before: pg_dump would leave these out. So the owner's alone are initial.
do $$
declare
  object record;
begin
  for object in
    select i.classoid, i.objoid, i.objsubid, array(
        select r.item from pg_catalog.unnest(pg_catalog.acldefault(o.kind, o.owner)) r (item)
        where exists (select from pg_catalog.aclexplode(array[r.item]) a where a.grantee operator(pg_catalog.=) o.owner)) as owners
    from (
      select 'pg_catalog.pg_namespace'::regclass, n.oid, n.nspowner, 'n'::"char" from pg_catalog.pg_namespace n
        where n.oid operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select 'pg_catalog.pg_proc'::regclass, p.oid, p.proowner, 'f'::"char" from pg_catalog.pg_proc p
        where p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
      union all
      select 'pg_catalog.pg_class'::regclass, c.oid, c.relowner, (case c.relkind when 'S' then 's' else 'r' end)::"char" from pg_catalog.pg_class c
        where c.relnamespace operator(pg_catalog.=) 'outbox'::regnamespace) o (classid, objid, owner, kind)
    join pg_catalog.pg_init_privs i on i.classoid operator(pg_catalog.=) o.classid and i.objoid operator(pg_catalog.=) o.objid
    where exists (select from pg_catalog.aclexplode(i.initprivs) a where a.grantee operator(pg_catalog.<>) o.owner)
  loop
    if object.objsubid operator(pg_catalog.<>) 0 then -- of a column an owner has none by itself
      delete from pg_catalog.pg_init_privs i where i.classoid operator(pg_catalog.=) object.classoid
        and i.objoid operator(pg_catalog.=) object.objoid and i.objsubid operator(pg_catalog.=) object.objsubid;
    else
      update pg_catalog.pg_init_privs i set initprivs = object.owners where i.classoid operator(pg_catalog.=) object.classoid
        and i.objoid operator(pg_catalog.=) object.objoid and i.objsubid operator(pg_catalog.=) object.objsubid;
    end if;
  end loop;
  -- From PostgreSQL 17 on the roles in initial rights are noted.
  delete from pg_catalog.pg_shdepend d
    where d.dbid operator(pg_catalog.=) (select b.oid from pg_catalog.pg_database b where b.datname operator(pg_catalog.=) pg_catalog.current_database())
      and d.deptype operator(pg_catalog.=) 'i' and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_authid'::regclass
      and not exists (select from pg_catalog.pg_init_privs i cross join lateral pg_catalog.aclexplode(i.initprivs) a
        where i.classoid operator(pg_catalog.=) d.classid and i.objoid operator(pg_catalog.=) d.objid
          and i.objsubid operator(pg_catalog.=) d.objsubid
          and (a.grantee operator(pg_catalog.=) d.refobjid or a.grantor operator(pg_catalog.=) d.refobjid))
      and exists (select from pg_catalog.pg_depend m join pg_catalog.pg_extension x on x.oid operator(pg_catalog.=) m.refobjid
          and x.extname operator(pg_catalog.=) 'outbox'
        where m.classid operator(pg_catalog.=) d.classid and m.objid operator(pg_catalog.=) d.objid
          and m.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::regclass and m.deptype operator(pg_catalog.=) 'e');
end
$$;
