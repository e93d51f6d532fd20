-- The limit is on what Kafka gets, not on what PostgreSQL stores; it is known without the text being made.
\pset format unaligned
\pset tuples_only on
set outbox.max_event_size = '1kB';

-- The size that emit() finds, beside that of the text. The padding makes the event too large.
create function pg_temp.difference(document jsonb) returns bigint language plpgsql as $$
declare
  payload jsonb := jsonb_build_array(document, repeat('x', 1024));
  detail text;
begin
  perform outbox.emit('order', '1', 'made', payload);
  return null;
exception when program_limit_exceeded then
  get stacked diagnostics detail = pg_exception_detail;
  return substring(detail from 'payload takes (\d+)')::bigint - octet_length(payload::text);
end $$;
select count(*), count(d), max(abs(d)) from (select pg_temp.difference(to_jsonb((sign || digits || 'e' || exponent)::numeric)) as d
  from unnest(array['', '-']) sign,
    unnest(array['0', '0.0', '1', '9', '10', '99', '999', '1000', '9999', '10000', '12345', '1.5', '0.1', '0.0001', '0.00001', '123456789.123456789', '1' || repeat('0', 300), repeat('7', 301) || '.' || repeat('3', 77)]) digits,
    unnest(array[-300, -65, -64, -63, -20, -5, -4, -3, -1, 0, 1, 3, 4, 5, 15, 251, 252, 253, 256]) exponent) n;
select number, pg_temp.difference(to_jsonb(number::numeric)) from unnest(array['1e130000', '-99e-16000', '1.5e16000', '0e-16383', '-0.0001e16000']) number;
select count(*), max(abs(pg_temp.difference(document))) from (
  select jsonb_build_object(chr(n), chr(n) || chr(n), 'k"\' || n, jsonb_build_array(null, true, false, '{}'::jsonb, '[]'::jsonb, n, chr(n + 2000), repeat(chr(1 + n % 40), n))) as document
  from generate_series(1, 300) n) d;
select pg_temp.difference('null'), pg_temp.difference('""'), pg_temp.difference('{}'),
  pg_temp.difference((repeat('[', 1900) || repeat(']', 1900))::jsonb);

-- Small events are not measured when they surely fit. What grows most from the database to Kafka: at the limit, and a byte above it.
set outbox.max_event_size = '4kB';
create function pg_temp.at_limit(document jsonb, more int) returns text language plpgsql as $$
begin
  perform outbox.emit('order', '1', 'made', jsonb_build_array(document, repeat('x', 4096 - 10 - octet_length(jsonb_build_array(document, '')::text) + more)));
  return 'fits';
exception when program_limit_exceeded then
  return 'too large';
end $$;
select more, pg_temp.at_limit(document, more), count(*) from (
  select to_jsonb(repeat(c, n)) from unnest(array[chr(1), chr(9), '"', 'x', chr(8364)]) c, generate_series(1, 670, 9) n
  union all select to_jsonb(array_fill(v, array[n])) from unnest(array['{}', '[]', 'null', 'true', 'false', '0', '-1', '""', '"\u0001"', '[[]]', '{"": false}', '{"\u0001": -0.1}']::jsonb[]) v, generate_series(1, 2000, 71) n
  union all select to_jsonb(array_fill((sign || digits || 'e' || exponent)::numeric, array[n])) from unnest(array['', '-']) sign, unnest(array['1', '9999']) digits, unnest(array[-63, -62, 0, 3, 4, 251, 252, 256]) exponent, generate_series(1, 15, 7) n
  union all select to_jsonb(array_fill(('-1' || repeat('0', 255) || '.' || repeat(d, 63))::numeric, array[n])) from unnest(array['0', '9']) d, generate_series(1, 12) n
  union all select (repeat('[', n) || repeat(']', n))::jsonb from generate_series(1, 400, 7) n
  union all select jsonb_object_agg(chr(1 + i) || i, i) from generate_series(1, 20) i) d(document), unnest(array[0, 1]) more
where octet_length(document::text) < 4060 group by 1, 2 order by 1, 2;

-- Numbers that take ten bytes in the database, and 131 kB in Kafka.
reset outbox.max_event_size;
create function pg_temp.try(statement text) returns text language plpgsql as $$
declare
  detail text;
begin
  execute statement;
  return 'no error';
exception when others then
  get stacked diagnostics detail = pg_exception_detail;
  return sqlstate || ': ' || sqlerrm || E'\n  ' || detail;
end $$;
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => (select ('{' || string_agg(format('"h%s": 1e131071', i), ', ') || '}')::jsonb from generate_series(1, 2000) i)) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', ('[' || repeat('1e131071, ', 8999) || '1e131071]')::jsonb) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '1e131071', headers => '{"h": 1e131071}') $$);
set outbox.max_event_size = '256MB';
select pg_temp.try($$ select outbox.emit('order', '1', 'made', ('[' || repeat('1e131071, ', 8999) || '1e131071]')::jsonb) $$);
select pg_temp.try($$ insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) values ('order', '1', 'made', ('[' || repeat('1e131071, ', 8999) || '1e131071]')::jsonb) $$);
reset outbox.max_event_size;

-- As many headers as nobody needs, JSON as deep as nobody reads
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => (select jsonb_object_agg('h' || i, i) from generate_series(1, 10001) i)) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', '{}', headers => (select jsonb_object_agg('h' || i, i) from generate_series(1, 10000) i)) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', (repeat('[', 2001) || repeat(']', 2001))::jsonb) $$);
select pg_temp.try($$ select outbox.emit('order', '1', 'made', (repeat('{"a":', 2000) || '1' || repeat('}', 2000))::jsonb) $$);

-- Each header has its lengths in Kafka's record, and some formats repeat the names.
set outbox.max_event_size = '1kB';
select pg_temp.try($$ select outbox.emit('order', '1', 'made', null, headers => jsonb_build_object('h', repeat('v', 1000), 'i', 17)) $$);
select pg_temp.try($$ select outbox.emit('order', repeat('i', 600), 'made', null) $$);
set outbox.headers_format = 'cloudevents';
select pg_temp.try($$ select outbox.emit('order', repeat('i', 600), 'made', null) $$);
set outbox.headers_format = 'both';
select pg_temp.try($$ select outbox.emit('order', repeat('i', 600), 'made', null) $$);
