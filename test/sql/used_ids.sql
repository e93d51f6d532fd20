-- An id is used once in a transaction, whoever made it and however it comes, unless what used it was rolled back.
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
begin;
insert into outbox.events (id, aggregate_type, aggregate_id, event_type)
select made.id, 'used', n::text, 'made' from (select outbox.uuid_v7() as id offset 0) made, generate_series(1, 2) n;
rollback;

\set VERBOSITY default
-- random ids, new and old ones, and a table that knows those that were used and is rolled back with them
do $$
declare
  seed float8 := round(random()::numeric, 6);
  drawn uuid[] := '{}';
  wanted uuid;
  used uuid;
  is_free boolean;
  accepted int := 0;
  refused int := 0;
  undone int := 0;
  wrong int := 0;
begin
  perform setseed(seed);
  create temp table used_ids (id uuid) on commit drop;
  for step in 1..3000 loop
    begin
      wanted := case floor(random() * 5)
        when 0 then null
        when 1 then outbox.uuid_v7()
        when 2 then gen_random_uuid()
        when 3 then drawn[cardinality(drawn)]
        else drawn[1 + floor(random() * cardinality(drawn))] end;
      is_free := not exists (select from used_ids u where u.id = wanted);
      begin
        case floor(random() * 4)
          when 0 then
            used := outbox.emit('used', '1', 'made', null, event_id => wanted);
          when 1 then
            used := outbox.emit_bytes('used', '1', 'made', null, event_id => wanted);
          when 2 then
            insert into outbox.events (id, aggregate_type, aggregate_id, event_type)
              values (wanted, 'used', '1', 'made') returning id into used;
          else
            insert into outbox.events (aggregate_type, aggregate_id, event_type)
              values ('used', '1', 'made') returning id into used;
            is_free := true;
        end case;
        accepted := accepted + 1;
        insert into used_ids values (used);
        drawn := drawn || used;
        wrong := wrong + (not is_free)::int;
      exception when unique_violation then
        refused := refused + 1;
        wrong := wrong + is_free::int;
      end;
      if random() < 0.5 then
        drawn := drawn || outbox.uuid_v7();
      end if;
      if random() < 0.3 then
        raise exception 'undo';
      end if;
    exception when raise_exception then
      undone := undone + 1;
    end;
  end loop;
  if wrong > 0 then
    raise notice 'seed %: % wrong answers', seed, wrong;
  end if;
  raise notice 'enough of each: %', least(accepted, refused, undone) > 100;
end $$;
select count(*) = count(distinct id) as distinct_ids, count(*) > 1000 as many from outbox.events where aggregate_type = 'used';
