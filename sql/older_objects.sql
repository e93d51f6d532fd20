-- What there is before a script makes more; sql/closed.sql needs it, and removes it.
create temp table outbox_older as
select d.classid, d.objid
from pg_catalog.pg_depend d join pg_catalog.pg_extension x on x.oid operator(pg_catalog.=) d.refobjid
where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::regclass and d.deptype operator(pg_catalog.=) 'e'
  and x.extname operator(pg_catalog.=) 'outbox';
