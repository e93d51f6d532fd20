-- Kafka's texts are UTF-8. What has no equivalent there is refused, in whatever field it is; the rest flows.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
set client_min_messages = warning;
select current_database() as home \gset
create database outbox_win1252 encoding 'WIN1252' template template0 lc_collate 'C' lc_ctype 'C';
create database outbox_sql_ascii encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C';
create database outbox_mule encoding 'MULE_INTERNAL' template template0 lc_collate 'C' lc_ctype 'C';
create database outbox_euc_jp encoding 'EUC_JP' template template0 lc_collate 'C' lc_ctype 'C';

-- Each field in turn, by emit() and by INSERT.
select $prepare$
set client_min_messages = warning;
create extension outbox;
insert into outbox.routes (aggregate_type, topic) values ('*', 'all');
create function attempt(field text, value text, by_insert boolean) returns text language plpgsql as $$
declare
  context text;
  type text := case field when 'aggregate_type' then value else 'order' end;
  id text := case field when 'aggregate_id' then value else '1' end;
  event text := case field when 'event_type' then value else 'made' end;
  body jsonb := case field when 'payload' then jsonb_build_object(value, array[value]) else '{}' end;
  head jsonb := case field when 'header' then jsonb_build_object('h', value) when 'header name' then jsonb_build_object(value, 'v') end;
  key text := case field when 'partition_key' then value end;
begin
  if by_insert then
    insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, headers, partition_key)
    values (type, id, event, body, head, key);
  else
    perform outbox.emit(type, id, event, body, head, key);
  end if;
  return 'accepted';
exception when others then
  get stacked diagnostics context = pg_exception_context;
  return sqlstate || ' ' || regexp_replace(concat_ws(', ', sqlerrm, substring(context from '^[^\n]* of an outbox event')), '[^ -~]', '?', 'g');
end $$;
create view fields as select * from unnest(array['aggregate_type', 'aggregate_id', 'event_type', 'payload', 'header', 'header name', 'partition_key']) field, unnest(array[false, true]) by_insert;
$prepare$ as prepare \gset

\c outbox_win1252
:prepare
select field, by_insert, attempt(field, 'caf' || chr(233), by_insert), attempt(field, 'x' || chr(129), by_insert) from fields;
set outbox.max_event_size = '1kB';
select attempt('payload', repeat(chr(128), 150), false), attempt('payload', repeat(chr(128), 200), false);

\c outbox_sql_ascii
:prepare
select field, by_insert, attempt(field, 'caf' || chr(195) || chr(169), by_insert), attempt(field, 'x' || chr(233), by_insert) from fields;

\c outbox_mule
:prepare
select field, by_insert, attempt(field, 'plain', by_insert), attempt(field, 'x' || convert_from('\x81e9', 'MULE_INTERNAL'), by_insert) from fields;
-- Keys of requests need no conversion: ASCII has the hash that it has everywhere, and other text one of its own.
select outbox.request_hash('POST', '/orders', '{"sku":1}') = sha256(
  '\x0000000000000004' || 'POST'::bytea || '\x0000000000000007' || '/orders'::bytea ||
  '\x0000000000000009' || '{"sku":1}'::bytea) as as_documented;
select convert_from('\x81e9', 'MULE_INTERNAL') as odd \gset
select outbox.request_hash('POST', '/' || :'odd', null) = outbox.request_hash('POST', '/x', null);
select owner from outbox.idempotency_begin('shop', 'k' || :'odd', outbox.request_hash('POST', '/' || :'odd', null)) \gset
select outbox.idempotency_complete('shop', 'k' || :'odd', :'owner', 201, 'done', null, null);
select outcome, response from outbox.idempotency_begin('shop', 'k' || :'odd', outbox.request_hash('POST', '/' || :'odd', null));

\c outbox_euc_jp
:prepare
select field, by_insert, attempt(field, convert_from('\xa4a2', 'EUC_JP'), by_insert), attempt(field, convert_from('\xa9a1', 'EUC_JP'), by_insert) from fields;
-- longer than what is converted at a time, the pieces of which must not cut a character
set outbox.max_event_size = '1MB';
select attempt('payload', 'x' || repeat(convert_from('\xa4a2', 'EUC_JP'), 150000), false), attempt('payload', 'x' || repeat(convert_from('\xa4a2', 'EUC_JP'), 200000), false);

\c :home
drop database outbox_win1252;
drop database outbox_sql_ascii;
drop database outbox_mule;
drop database outbox_euc_jp;
