-- outbox.session_changes: what is left in a session since outbox.refuse_commit was first set.
\set SHOW_CONTEXT never
\set event '\'00000000-0000-4000-8000-0000000000ce\''
create role session_nobody;
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
create table session_work (n int primary key);
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
-- Advisory locks, of the session and of the transaction, exclusive or shared.
select pg_advisory_lock(42);
show outbox.session_changes;
select pg_advisory_unlock_all();
show outbox.session_changes;
select pg_advisory_lock_shared(4, 2);
show outbox.session_changes;
select pg_advisory_unlock_shared(4, 2);
show outbox.session_changes;
savepoint part;
select pg_advisory_xact_lock(42);
show outbox.session_changes;
rollback to part;
show outbox.session_changes;
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
drop function session_defers();
drop role session_nobody;
