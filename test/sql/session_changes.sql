-- outbox.session_changes: what is left in a session since outbox.refuse_commit was first set, and what
-- a commit would do, done where it is set to on again.
\set SHOW_CONTEXT never
\set event '\'00000000-0000-4000-8000-0000000000ce\''
create role session_nobody;
create table session_work (n int primary key);
create table session_late (path text);
grant insert on session_late to public;
create function session_late() returns trigger language plpgsql as $$
begin
  insert into public.session_late values (current_setting('search_path'));
  return null;
end $$;
create constraint trigger late after insert on session_work deferrable initially deferred
  for each row execute function session_late();
create function session_defers() returns void language plpgsql as $$
begin
  set constraints all deferred;
end $$;
show outbox.session_changes;
set outbox.session_changes = '';
begin;
set local outbox.refuse_commit = on;
show outbox.session_changes;
-- Ordinary work leaves nothing, neither do our own locks.
set local outbox.serialize_keys = on;
select outbox.mark_processed(:event, 'billing');
select outbox.emit('order', '1', 'order.paid', '{}') is not null as emitted;
insert into session_work values (1);
set local work_mem = '1MB';
declare c cursor for select 1;
listen channel;
show outbox.session_changes;
-- A role, which needs no right to read it, until it is taken back.
savepoint part;
set local role session_nobody;
show outbox.session_changes;
rollback to part;
show outbox.session_changes;
release part;
set role session_nobody;
-- To set it again makes it no beginning.
set local outbox.refuse_commit = off;
set local outbox.refuse_commit = on;
show outbox.session_changes;
reset role;
show outbox.session_changes;
set local session authorization session_nobody;
show outbox.session_changes;
reset session authorization;
show outbox.session_changes;
-- Advisory locks of the session are released by the next setting, and told of; but not those of the
-- transaction.
select pg_advisory_xact_lock(41), pg_advisory_lock_shared(41);
set local outbox.refuse_commit = on;
show outbox.session_changes;
select pg_advisory_lock(42);
show outbox.session_changes;
set local outbox.refuse_commit = on;
show outbox.session_changes;
select objid, mode from pg_locks where pid = pg_backend_pid() and locktype = 'advisory' and objsubid = 1;
-- Deferred triggers run as at a commit, and are deferred as before; cursors are closed, and ON COMMIT
-- is carried out.
set local search_path = pg_temp;
create temp table session_gone (n int) on commit drop;
create temp table session_emptied (n int) on commit delete rows;
insert into session_emptied values (1);
insert into public.session_work values (2);
declare c scroll cursor for table session_emptied;
table public.session_late;
set local outbox.refuse_commit = on;
table public.session_late;
table session_emptied;
select to_regclass('session_gone'), (select count(*) from pg_cursors) as cursors;
create temp table session_gone (n int) on commit drop;
reset all;
insert into session_work values (3), (4);
select count(*) from session_late;
-- Not within a savepoint, which could be rolled back to, and not within a function.
savepoint part;
do $$ begin set local outbox.refuse_commit = on; end $$;
show outbox.session_changes;
set local outbox.refuse_commit = on;
select count(*) from session_late;
show outbox.session_changes;
rollback to part;
release part;
set local outbox.refuse_commit = off;
select count(*) from session_late;
set local outbox.refuse_commit = on;
select count(*) from session_late;
-- Constraints, also from within a function; and a transaction that is read-only.
savepoint part;
select session_defers();
show outbox.session_changes;
select pg_advisory_lock(42);
set local role session_nobody;
set transaction read only;
show outbox.session_changes;
rollback;
select pg_advisory_unlock_all();
-- The next transaction begins anew.
show outbox.session_changes;
begin;
set local outbox.refuse_commit = on;
show outbox.session_changes;
rollback;
-- A role that was there before is no change, and to lose it is one.
set role session_nobody;
begin;
set local outbox.refuse_commit = on;
show outbox.session_changes;
reset role;
show outbox.session_changes;
rollback;
reset role;
-- What fails there fails the statement.
create table session_unique (n int unique deferrable initially deferred);
begin;
set local outbox.refuse_commit = on;
insert into session_unique values (1), (1);
set local outbox.refuse_commit = on;
rollback;
drop table session_unique, session_work, session_late;
drop function session_late();
drop function session_defers();
drop role session_nobody;
