-- After sql/closed.sql: the rights on functions that sql/remade_functions.sql has dropped, and on the column that views got,
-- for who may see the others.
do $$
declare
  given record;
begin
  for given in
    select pg_catalog.format('grant execute on function %s to %s%s', p.oid::regprocedure,
      case when r.grantee operator(pg_catalog.=) 0 then 'public' else r.grantee::regrole::text end,
      case when r.is_grantable then ' with grant option' end) as command
    from pg_temp.outbox_remade r
    join pg_catalog.pg_proc p on p.proname operator(pg_catalog.=) r.name::name and p.pronamespace operator(pg_catalog.=) 'outbox'::regnamespace
    where r.grantee operator(pg_catalog.=) 0 or exists (select from pg_catalog.pg_roles m where m.oid operator(pg_catalog.=) r.grantee)
    union all
    select pg_catalog.format('grant select (subscription) on table %s to %s%s', c.attrelid::regclass,
      case when r.grantee operator(pg_catalog.=) 0 then 'public' else r.grantee::regrole::text end,
      case when r.is_grantable then ' with grant option' end)
    from pg_catalog.pg_attribute c cross join lateral pg_catalog.aclexplode(c.attacl) r
    where (c.attrelid, c.attname) in (('outbox.replays'::regclass, 'replay_id'), ('outbox.deliveries'::regclass, 'event_id'),
        ('outbox.dead_letters'::regclass, 'event_id'))
      and r.privilege_type operator(pg_catalog.=) 'SELECT'
  loop
    execute given.command;
  end loop;
end
$$;
drop table pg_temp.outbox_remade;

-- include initial_rights
