
-- An older library lacks functions that this script names, and must not work on tables that it does not know.
do $$
begin
  if pg_catalog.string_to_array(outbox.version(), '.')::int[] operator(pg_catalog.<)
     pg_catalog.string_to_array('@version@', '.')::int[] then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = pg_catalog.format('the outbox library in use is version %s, older than @version@', outbox.version()),
      hint = 'Restart PostgreSQL so that it loads the library of the installed package, then try again.';
  end if;
end
$$;
