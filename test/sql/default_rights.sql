-- Nothing of the extension is for anybody, whatever default privileges the role has that creates it, until it is granted
-- on purpose. In a database of its own, as a template, so that no relay works there.
\set SHOW_CONTEXT never
set client_min_messages = warning;
select current_database() as home \gset
create database outbox_closed is_template true;
create role outbox_test_reader;
\c outbox_closed
set client_min_messages = warning;
alter default privileges grant all on tables to public, outbox_test_reader;
alter default privileges grant all on sequences to public, outbox_test_reader;
alter default privileges grant all on functions to public, outbox_test_reader;
alter default privileges grant all on types to public, outbox_test_reader;
alter default privileges grant all on schemas to public, outbox_test_reader;
create view open_to_others as
with members (classid, objid) as (
  select d.classid, d.objid from pg_depend d join pg_extension x on x.oid = d.refobjid and x.extname = 'outbox'
  where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'),
objects (name, owner, acl) as (
  select 'schema ' || n.oid::regnamespace, n.nspowner, coalesce(n.nspacl, acldefault('n', n.nspowner))
  from pg_namespace n where exists (select from members m where m.objid = n.oid and m.classid = 'pg_namespace'::regclass)
  union all
  select 'function ' || p.oid::regprocedure, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
  from pg_proc p where p.pronamespace = to_regnamespace('outbox')
  union all
  select 'relation ' || c.oid::regclass, c.relowner, coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))
  from pg_class c where c.relnamespace = to_regnamespace('outbox') and c.relkind not in ('i', 'I', 't')
  union all
  select 'column ' || a.attname || ' of ' || c.oid::regclass, c.relowner, a.attacl
  from pg_attribute a join pg_class c on c.oid = a.attrelid where c.relnamespace = to_regnamespace('outbox')
  union all
  select 'type ' || t.oid::regtype, t.typowner, coalesce(t.typacl, acldefault('T', t.typowner))
  from pg_type t where t.typnamespace = to_regnamespace('outbox') and t.typtype <> 'b')
select o.name, case a.grantee when 0 then 'PUBLIC' else a.grantee::regrole::text end as grantee, string_agg(a.privilege_type, ' ' order by a.privilege_type) as rights
from objects o, aclexplode(o.acl) a where a.grantee <> o.owner group by 1, 2;
-- members that are of no kind that is looked at
create view not_looked_at as
select distinct d.classid::regclass from pg_depend d join pg_extension x on x.oid = d.refobjid and x.extname = 'outbox'
where d.deptype = 'e' and d.classid not in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_namespace'::regclass,
  'pg_event_trigger'::regclass); -- these have no rights
-- pg_dump warns of each
create view not_for_dumps as
select i.classoid::regclass, t.oid::regtype from pg_init_privs i join pg_type t on i.classoid = 'pg_type'::regclass and i.objoid = t.oid
join pg_class c on c.oid = t.typrelid and c.relkind <> 'c'
union all
select d.classid::regclass, t.oid::regtype from pg_shdepend d join pg_type t on d.classid = 'pg_type'::regclass and d.objid = t.oid
where d.deptype = 'i' and d.dbid = (select oid from pg_database where datname = current_database());
create extension outbox;
select * from open_to_others;
select * from not_looked_at;
select * from not_for_dumps;
drop extension outbox;
-- 0.2 was open to them; the update closes it, and keeps what has been granted since
create extension outbox version '0.2';
select grantee, count(*) > 50 as many from open_to_others group by 1 order by 1;
create role outbox_test_operator;
select outbox.grant_operator('outbox_test_operator');
grant select (topic) on outbox.deliveries to outbox_test_operator;
create temp table granted as select * from open_to_others where grantee = 'outbox_test_operator';
alter extension outbox update;
select * from open_to_others where grantee <> 'outbox_test_operator';
select * from not_for_dumps;
-- a function with an argument more is another one, for the same people
select split_part(name, '(', 1) as name, grantee, rights from granted except select split_part(name, '(', 1), grantee, rights from open_to_others;
-- what people granted is theirs: pg_dump leaves initial rights out
select pg_describe_object(classoid, objoid, objsubid) from pg_init_privs where initprivs::text ~ 'outbox_test_operator';
-- who could not use a row type before, is not in the way of a change of its table
set role outbox_test_operator;
create temp table mine (delivery outbox.deliveries);
reset role;
drop extension outbox;
alter default privileges revoke all on tables from public, outbox_test_reader;
alter default privileges revoke all on sequences from public, outbox_test_reader;
alter default privileges revoke all on functions from outbox_test_reader;
alter default privileges revoke all on types from outbox_test_reader;
alter default privileges revoke all on schemas from public, outbox_test_reader;
-- pg_upgrade brings no initial rights of what has those that it would have anyway: such an object is not new for that
create extension outbox version '0.2';
select outbox.grant_operator('outbox_test_operator'), outbox.grant_emitter('outbox_test_operator');
create temp table held as select * from open_to_others where grantee = 'outbox_test_operator';
delete from pg_init_privs i using pg_depend d join pg_extension x on x.oid = d.refobjid and x.extname = 'outbox'
where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e' and i.classoid = d.classid and i.objoid = d.objid;
alter extension outbox update;
select split_part(name, '(', 1) as name, grantee, rights from held except select split_part(name, '(', 1), grantee, rights from open_to_others;
drop extension outbox;
-- what default privileges gave goes, what the same role was granted besides stays, and so does what others have from it
alter default privileges grant select on tables to outbox_test_reader;
alter default privileges grant usage on schemas to outbox_test_reader with grant option;
create extension outbox version '0.2';
select outbox.grant_emitter('outbox_test_reader');
set role outbox_test_reader;
grant usage on schema outbox to outbox_test_operator;
reset role;
alter extension outbox update;
select name, grantee, rights from open_to_others where name like 'schema %' or name like '% outbox.events' order by 1, 2;
drop extension outbox;
alter default privileges revoke all on tables from outbox_test_reader;
alter default privileges revoke all on schemas from outbox_test_reader;
\c :home
set client_min_messages = warning;
alter database outbox_closed is_template false;
drop database outbox_closed;
drop role outbox_test_reader, outbox_test_operator;
