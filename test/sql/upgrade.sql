-- A database that was updated from any released version has the same catalogue as a fresh one: the objects, their
-- definitions, order of columns, comments, rights, dependencies, what a dump takes, and the rows they begin with.
\set SHOW_CONTEXT never
set client_min_messages = warning;
-- As a template, so that no relay writes into it.
select current_database() as home \gset
create database outbox_upgrade is_template true;
create role upgrade_app;
\c outbox_upgrade
set client_min_messages = warning;
create schema look;

-- Without the numbers that differ from database to database.
create function look.tidy(text) returns text language sql immutable as $$
  select regexp_replace(regexp_replace($1, 'pg_toast_\d+', 'pg_toast_N', 'g'), 'ConstraintTrigger_(\w)_\d+', 'ConstraintTrigger_\1_N', 'g')
$$;
create function look.rights(acl aclitem[], kind "char", owner oid) returns text language sql stable as $$
  select string_agg(format('%s=%s%s/%s', case when a.grantee = 0 then 'PUBLIC' else a.grantee::regrole::text end, a.privilege_type,
                           case when a.is_grantable then '*' end, a.grantor::regrole), ' ' order by a.grantee::regrole::text, a.privilege_type, a.grantor)
  from aclexplode(coalesce(acl, acldefault(kind, owner))) a
$$;

-- The members, and what belongs to them: indexes, constraints, triggers, rules, defaults, row types, TOAST tables.
create view look.objects as
with recursive o (classid, objid) as (
  select d.classid, d.objid from pg_depend d join pg_extension x on x.oid = d.refobjid and x.extname = 'outbox'
  where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
  union
  select d.classid, d.objid from o join pg_depend d on d.refclassid = o.classid and d.refobjid = o.objid
  where d.deptype in ('a', 'i', 'P', 'S'))
select * from o;

-- A member of another class must be compared too: its class is to be added to look.properties.
create view look.not_compared as
select distinct classid::regclass from look.objects
where classid not in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_namespace'::regclass, 'pg_constraint'::regclass,
                      'pg_trigger'::regclass, 'pg_rewrite'::regclass, 'pg_attrdef'::regclass, 'pg_event_trigger'::regclass);

create view look.properties as
select pg_describe_object(o.classid, o.objid, 0) as object, 'there' as property, o.classid::regclass::text as value from look.objects o
union all
select pg_describe_object(o.classid, o.objid, d.objsubid), 'comment', d.description
from look.objects o join pg_description d on d.classoid = o.classid and d.objoid = o.objid
union all
select pg_describe_object(o.classid, o.objid, d.objsubid), 'depends on ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), d.deptype::text
from look.objects o join pg_depend d using (classid, objid)
union all
select pg_describe_object(o.classid, o.objid, i.objsubid), 'initial rights', look.rights(i.initprivs, 'r', 10)
from look.objects o join pg_init_privs i on i.classoid = o.classid and i.objoid = o.objid
union all
select pg_describe_object(o.classid, o.objid, 0), p.property, p.value
from look.objects o join pg_class c on o.classid = 'pg_class'::regclass and c.oid = o.objid
cross join lateral (values
  ('owner', c.relowner::regrole::text), ('kind', format('%s %s %s', c.relkind, c.relpersistence, c.relreplident)),
  ('options', c.reloptions::text), ('access method', (select a.amname from pg_am a where a.oid = c.relam)),
  ('row security', format('%s %s', c.relrowsecurity, c.relforcerowsecurity)), ('partition', pg_get_expr(c.relpartbound, c.oid)),
  ('partition key', case c.relkind when 'p' then pg_get_partkeydef(c.oid) end),
  ('rights', look.rights(c.relacl, (case c.relkind when 'S' then 's' else 'r' end)::"char", c.relowner)),
  ('view', case c.relkind when 'v' then pg_get_viewdef(c.oid) end),
  ('index', case when c.relkind in ('i', 'I') then pg_get_indexdef(c.oid) end),
  ('index marks', (select format('%s %s %s %s %s', indisclustered, indisvalid, indisreplident, indimmediate, indisready) from pg_index where indexrelid = c.oid)),
  ('TOAST options', (select t.reloptions::text from pg_class t where t.oid = c.reltoastrelid)),
  ('sequence', (select format('%s %s %s %s %s %s %s', s.seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle)
                from pg_sequence s where s.seqrelid = c.oid))) p (property, value)
where p.value is not null
union all
select pg_describe_object(o.classid, o.objid, 0), 'column ' || row_number() over (partition by c.oid order by a.attnum),
  format('%s %s %s default %s rights %s %s', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation,
         pg_get_expr(f.adbin, f.adrelid), look.rights(a.attacl, 'c', c.relowner),
         array[a.attnotnull::text, a.attidentity::text, a.attgenerated::text, a.attstorage::text, to_jsonb(a) ->> 'attcompression',
               to_jsonb(a) ->> 'attstattarget', a.attislocal::text, a.attinhcount::text, to_jsonb(a) ->> 'attndims',
               -- One that some servers write by themselves.
               (select string_agg(x, ' ' order by x) from unnest(a.attoptions) x where x !~ '^pg_attver=')])
from look.objects o join pg_class c on o.classid = 'pg_class'::regclass and c.oid = o.objid
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef f on f.adrelid = c.oid and f.adnum = a.attnum
union all
select pg_describe_object(o.classid, o.objid, 0), p.property, p.value
from look.objects o join pg_proc c on o.classid = 'pg_proc'::regclass and c.oid = o.objid
cross join lateral (values
  ('owner', c.proowner::regrole::text), ('rights', look.rights(c.proacl, 'f', c.proowner)),
  ('function', case when c.prokind in ('f', 'p') then pg_get_functiondef(c.oid) else 'an aggregate: to be compared' end)) p (property, value)
union all
select pg_describe_object(o.classid, o.objid, 0), p.property, p.value
from look.objects o join pg_type c on o.classid = 'pg_type'::regclass and c.oid = o.objid
cross join lateral (values
  ('owner', c.typowner::regrole::text), ('rights', look.rights(c.typacl, 'T', c.typowner)),
  ('type', format('%s %s %s %s %s', c.typtype, c.typcategory, c.typnotnull, format_type(c.typbasetype, c.typtypmod), c.typdefault)),
  ('labels', (select string_agg(e.enumlabel, ', ' order by e.enumsortorder) from pg_enum e where e.enumtypid = c.oid))) p (property, value)
union all
select pg_describe_object(o.classid, o.objid, 0), p.property, p.value
from look.objects o join pg_namespace c on o.classid = 'pg_namespace'::regclass and c.oid = o.objid
cross join lateral (values
  ('owner', c.nspowner::regrole::text), ('rights', look.rights(c.nspacl, 'n', c.nspowner))) p (property, value)
union all
select pg_describe_object(o.classid, o.objid, 0), 'constraint', format('%s %s', pg_get_constraintdef(c.oid), c.convalidated)
from look.objects o join pg_constraint c on o.classid = 'pg_constraint'::regclass and c.oid = o.objid
union all
select pg_describe_object(o.classid, o.objid, 0), 'event trigger',
  format('%s %s %s %s', c.evtevent, c.evttags, c.evtfoid::regprocedure, c.evtenabled)
from look.objects o join pg_event_trigger c on o.classid = 'pg_event_trigger'::regclass and c.oid = o.objid
union all
select pg_describe_object(o.classid, o.objid, 0), 'trigger', format('%s %s', pg_get_triggerdef(c.oid), c.tgenabled)
from look.objects o join pg_trigger c on o.classid = 'pg_trigger'::regclass and c.oid = o.objid
union all
select pg_describe_object(o.classid, o.objid, 0), 'rule', format('%s %s %s', c.ev_type, c.ev_enabled, c.is_instead)
from look.objects o join pg_rewrite c on o.classid = 'pg_rewrite'::regclass and c.oid = o.objid
union all
select 'extension', p.property, p.value
from pg_extension x cross join lateral (
  values ('version', x.extversion), ('owner', x.extowner::regrole::text), ('schema', x.extnamespace::regnamespace::text),
    ('relocatable', x.extrelocatable::text), ('comment', obj_description(x.oid, 'pg_extension'))
  union all
  select 'dumps ' || c.t::regclass, c.condition from unnest(x.extconfig, x.extcondition) c (t, condition)) p (property, value)
where x.extname = 'outbox';

create view look.granted as
select pg_describe_object(o.classid, o.objid, 0) as object, a.privilege_type
from look.objects o
left join pg_proc p on o.classid = 'pg_proc'::regclass and p.oid = o.objid
left join pg_class c on o.classid = 'pg_class'::regclass and c.oid = o.objid
left join pg_namespace n on o.classid = 'pg_namespace'::regclass and n.oid = o.objid
cross join lateral aclexplode(coalesce(p.proacl, c.relacl, n.nspacl)) a
where a.grantee::regrole::text = 'upgrade_app';

create table look.compared (version text);
create table look.found (side text, object text, property text, value text);
create procedure look.remember(side text) language plpgsql as $$
declare
  t regclass;
begin
  delete from look.found f where f.side = remember.side;
  insert into look.found select remember.side, look.tidy(p.object), look.tidy(p.property), look.tidy(p.value) from look.properties p;
  -- What the script put in: all but times.
  for t in select o.objid from look.objects o join pg_class c on o.classid = 'pg_class'::regclass and c.oid = o.objid where c.relkind = 'r' loop
    execute format('insert into look.found select %L, ''table %s'', ''row'', to_jsonb(r) - array(select attname from pg_attribute '
                   'where attrelid = %L::regclass and atttypid = ''timestamptz''::regtype) from %s r', side, t, t, t);
  end loop;
end $$;
create view look.differences as
select 'only fresh' as side, * from (select object, property, value from look.found where side = 'fresh'
  except all select object, property, value from look.found where side = 'updated') d
union all
select 'only updated', * from (select object, property, value from look.found where side = 'updated'
  except all select object, property, value from look.found where side = 'fresh') d;

create extension outbox;
select * from look.not_compared;
call look.remember('fresh');
select count(*) > 1000 as much_found, count(distinct object) > 100 as many_objects from look.found;
drop extension outbox;

-- What is granted before an update is granted after it, and stays a matter of dumps.
do $$
declare
  version text;
  difference record;
begin
  for version in select a.version from pg_available_extension_versions a
      where a.name = 'outbox' and a.version <> (select default_version from pg_available_extensions where name = 'outbox')
      order by string_to_array(a.version, '.')::int[] loop
    execute format('create extension outbox version %L', version);
    perform outbox.grant_emitter('upgrade_app'), outbox.grant_consumer('upgrade_app'), outbox.grant_operator('upgrade_app'), outbox.grant_monitor('upgrade_app');
    create table look.had as table look.granted;
    perform outbox.emit('order', '1', 'made', '{}');
    insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts)
      select e.seq, e.xid, e.slot, e.id, 1, 'topic', '1', 'FAILED', true, 3 from outbox.events e;
    insert into outbox.pauses (reason) values ('why');
    insert into outbox.relay_position select r.* from jsonb_populate_record(null::outbox.relay_position, jsonb_build_object(
      'system_identifier', outbox.system_identifier(), 'database_oid', 1, 'timeline', 1, 'data_directory', 1, 'written_by', pg_current_xact_id()::text,
      'from_snapshot', '3:5:4', 'to_snapshot', '3:7:', 'last_seq', 5, 'published_total', 77, 'updated_at', now())) r;
    create table look.kept as
      select 'deliveries' as name, to_jsonb(d) as content from outbox.deliveries d
      union all select 'pauses', to_jsonb(p) from outbox.pauses p
      union all select 'relay_position', to_jsonb(p) from outbox.relay_position p;
    alter extension outbox update;
    -- Position, dead letters and pause are of the subscription that there was.
    for difference in select k.name from look.kept k where not exists (
        select from (select 'deliveries' as name, to_jsonb(d) as content from outbox.deliveries d
          union all select 'pauses', to_jsonb(p) from outbox.pauses p
          union all select 'relay_position', to_jsonb(p) from outbox.relay_position p) n
        where n.name = k.name and n.content @> (k.content || '{"subscription": "default"}')) loop
      raise warning 'from %: a row of % is lost or another one', version, difference.name;
    end loop;
    if (select count(*) from look.kept) <> 3 or (select count(*) from outbox.dead_letters where subscription = 'default') <> 1 then
      raise warning 'from %: rows are missing', version;
    end if;
    drop table look.kept;
    delete from outbox.deliveries;
    delete from outbox.pauses;
    delete from outbox.relay_position;
    delete from outbox.events;
    if (select count(*) from look.had) < 25 then
      raise warning 'version % granted %', version, (select count(*) from look.had);
    end if;
    -- A function that was made anew with one more argument is granted as the older one was.
    for difference in
        select h.object from look.had h where not exists (select from look.granted g
          where g.privilege_type = h.privilege_type and split_part(g.object, '(', 1) = split_part(h.object, '(', 1)
            and (g.object = h.object or g.object like replace(rtrim(h.object, ')'), '\', '\\') || ',%')) loop
      raise warning 'from %: the grant on % is lost', version, difference.object;
    end loop;
    for difference in select pg_describe_object(classoid, objoid, objsubid) as object from pg_init_privs where initprivs::text ~ 'upgrade_app' loop
      raise warning 'from %: pg_dump would leave out what people granted on %', version, difference.object;
    end loop;
    drop owned by upgrade_app;
    call look.remember('updated');
    for difference in select * from look.differences order by object, property, side loop
      raise warning 'from %: %, %: % = %', version, difference.side, difference.object, difference.property, difference.value;
    end loop;
    drop table look.had;
    drop extension outbox;
    insert into look.compared values (version);
  end loop;
end $$;
select version as updated_from from look.compared;

-- What somebody has put where the update is to put its own does not become the extension's, nor is anything granted by it.
create procedure look.stand_in(body text) language plpgsql as $$
begin
  create extension outbox version '0.2.1';
  grant usage, create on schema outbox to upgrade_app;
  set local role upgrade_app;
  execute body;
  reset role;
  begin
    alter extension outbox update;
    raise notice 'UPDATED';
  exception when others then
    raise notice '%', sqlstate;
  end;
  execute 'drop owned by upgrade_app';
  drop extension outbox;
end $$;
set client_min_messages = notice;
call look.stand_in('create function outbox.drain(timeout interval, subscription text) returns boolean language sql as ''select true''');
call look.stand_in('create function outbox.pause(reason text, subscription text) returns boolean language sql as ''select true''');
call look.stand_in('create table outbox.subscriptions (name text)');
call look.stand_in('create view outbox.delivery_status as select 1 as one');
set client_min_messages = warning;

-- The comparison sees each kind of thing that an upgrade script may forget.
create extension outbox;
create procedure look.see(forgotten text) language plpgsql as $$
begin
  execute forgotten;
  call look.remember('updated');
  raise notice '%', case when exists (table look.differences) then 'seen' else 'NOT SEEN' end;
end $$;
set client_min_messages = notice;
-- Nothing forgotten, nothing seen.
call look.see('select 1');
begin; call look.see($$ comment on function outbox.resume() is null $$); rollback;
begin; call look.see($$ comment on column outbox.events.seq is 'other' $$); rollback;
begin; call look.see($$ grant execute on function outbox.resume() to public $$); rollback;
begin; call look.see($$ grant select (id) on outbox.events to upgrade_app $$); rollback;
begin; call look.see($$ revoke usage on schema outbox from postgres $$); rollback;
begin; call look.see($$ create or replace function outbox.resume() returns boolean language plpgsql as 'begin return true; end' $$); rollback;
begin; call look.see($$ alter function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int) cost 2 $$); rollback;
begin; call look.see($$ alter view outbox.relay_status rename column pid to process $$); rollback;
begin; call look.see($$ alter table outbox.ticks add more int $$); rollback;
begin; call look.see($$ alter table outbox.ticks alter published_at drop not null $$); rollback;
begin; call look.see($$ alter table outbox.ticks alter written_by drop default $$); rollback;
begin; call look.see($$ alter table outbox.ticks set (fillfactor = 50) $$); rollback;
begin; call look.see($$ drop index outbox.ticks_published_at $$); rollback;
begin; call look.see($$ alter table outbox.routes disable trigger user $$); rollback;
begin; call look.see($$ alter sequence outbox.events_seq cache 10 $$); rollback;
begin; call look.see($$ alter function outbox.resume() owner to upgrade_app $$); rollback;
begin; call look.see($$ alter extension outbox drop function outbox.resume() $$); rollback;
begin; call look.see($$ update pg_extension set extcondition[1] = 'where false' where extname = 'outbox' $$); rollback;
begin; call look.see($$ update outbox.ring set turns = 1 where slot = 0 $$); rollback;
begin; call look.see($$ create function outbox.more() returns int language sql as 'select 1'; alter extension outbox add function outbox.more() $$); rollback;

set client_min_messages = warning;
drop extension outbox;
\c :home
set client_min_messages = warning;
alter database outbox_upgrade is_template false;
drop database outbox_upgrade;
drop role upgrade_app;
