-- What rows are called in a publication, as of one FOR ALL TABLES: PostgreSQL refuses UPDATE and DELETE of a published
-- table whose rows have no name there, and the relay could not work. A primary key is one; other tables have the whole row.
do $$
declare
  part regclass;
begin
  for part in
    select c.oid from pg_catalog.pg_class c
      where c.relnamespace operator(pg_catalog.=) 'outbox'::pg_catalog.regnamespace
        and c.relkind operator(pg_catalog.=) any ('{r,p}'::"char"[]) and c.relreplident operator(pg_catalog.=) 'd'
        and not exists (select from pg_catalog.pg_index i
          where i.indrelid operator(pg_catalog.=) c.oid and i.indisprimary)
      order by c.oid
  loop
    execute pg_catalog.format('alter table %s replica identity full', part);
  end loop;
end
$$;
