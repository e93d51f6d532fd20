-- What tells the relay that rows of a dump have come, and what keeps it and the other triggers of restored rows enabled.
-- Upgrades run this file too.

-- Rows of events and deliveries tell of themselves. The last rows of a dump may be those of other tables.
create function outbox.after_dump_insert()
returns trigger
language c
as 'MODULE_PATHNAME', 'outbox_after_dump_insert';
comment on function outbox.after_dump_insert() is
  'Trigger: has the relay look for restored rows before it publishes what is committed after them.';
create trigger after_insert after insert on outbox.relay_position
  for each statement execute function outbox.after_dump_insert();
create trigger after_insert after insert on outbox.dump_rows
  for each statement execute function outbox.after_dump_insert();
create trigger after_insert after insert on outbox.restored_deliveries
  for each statement execute function outbox.after_dump_insert();
alter table outbox.relay_position enable always trigger after_insert;
alter table outbox.dump_rows enable always trigger after_insert;
alter table outbox.restored_deliveries enable always trigger after_insert;

-- pg_dump --disable-triggers switches all triggers of a table off while it fills it, and all on afterwards, but not
-- as they were. Rows that are not stamped would never be published. Every ALTER TABLE of the database passes here: of a table
-- that is not outbox's only the catalogues are read, and a role that may not even read those is let pass. Of outbox's own,
-- the altered table and its partitions are put right, as far as they are the caller's to alter.
create or replace function outbox.keep_triggers()
returns event_trigger
language plpgsql volatile parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
  altered oid[];
  kept record;
begin
  begin
    select array_agg(c.objid) into altered from pg_event_trigger_ddl_commands() c
      where c.classid = 'pg_class'::regclass and c.schema_name = 'outbox';
  exception when insufficient_privilege then
    return;
  end;
  if altered is null then
    return;
  end if;
  for kept in
    select c.relname, t.tgname
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid and c.relkind = 'r' and pg_has_role(c.relowner, 'usage')
    join pg_depend m on m.classid = 'pg_class'::regclass and m.objid = c.oid and m.deptype = 'e' and m.refclassid = 'pg_extension'::regclass
    join pg_extension x on x.oid = m.refobjid and x.extname = 'outbox'
    join pg_namespace s on s.oid = c.relnamespace and s.nspname = 'outbox'
    join pg_proc p on p.oid = t.tgfoid and p.pronamespace = s.oid
    where p.proname in ('before_event_insert', 'before_delivery_insert', 'after_dump_insert') and t.tgenabled <> 'A'
      and (c.oid = any (altered) or exists (select from pg_inherits i where i.inhrelid = c.oid and i.inhparent = any (altered)))
  loop
    execute format('alter table outbox.%I enable always trigger %I', kept.relname, kept.tgname);
  end loop;
end
$$;
comment on function outbox.keep_triggers() is
  'Event trigger: the triggers that stamp events, and that keep restored rows apart, stay enabled always.';
