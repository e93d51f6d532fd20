-- What the caller's columns are collated by is no affair of the functions that operators and superusers call.
\set VERBOSITY terse
set client_min_messages = warning;
select current_database() as home \gset
-- a template has no relay
create database outbox_collations template template0 is_template true;
\c outbox_collations
create extension outbox;
create table said (words text collate "POSIX");
insert into said values ('default');

-- Calls one with a column for each text, and null for all others. Whatever it says, it knows its collations.
create function call_with_columns(called oid) returns text language plpgsql as $$
declare
  arguments text;
begin
  select string_agg(case a.type when 'text'::regtype then 's.words' else format('null::%s', a.type::regtype) end, ', ' order by a.number)
    into arguments from pg_proc p, unnest(p.proargtypes::oid[]) with ordinality a (type, number) where p.oid = called;
  execute format('select %s(%s) from said s', (select format('%I.%I', pronamespace::regnamespace, proname) from pg_proc where oid = called),
    arguments);
  return 'done';
exception when others then
  return sqlstate;
end
$$;
select count(*) >= 15 as called, count(*) filter (where t.came_of in ('42P21', '42P22', '0A000')) as lost
  from (select call_with_columns(p.oid) as came_of from pg_proc p
    where p.prosrc in ('outbox_as_owner', 'outbox_as_superuser') and p.pronamespace = 'outbox'::regnamespace) t;

-- Those that compare what they are given. In which order the others were called nobody knows.
select outbox.resume('default') is not null as resumed;
select outbox.pause('why', words) from said;
select outbox.resume(words) from said;
select outbox.adopt_position(words) from said;
select outbox.attach_subscription(words, 'now') from said; -- it was detached above
select outbox.replay(words) is null from said;
\c :home
set client_min_messages = warning;
alter database outbox_collations is_template false;
drop database outbox_collations;
