-- request_hash(), idempotency_begin(), idempotency_complete() and idempotency_release().
\set SHOW_CONTEXT never
-- what is hashed is unambiguous, and the same in a client
select outbox.request_hash('POST', '/orders', '{"sku":1}') = sha256(
  '\x0000000000000004' || 'POST'::bytea || '\x0000000000000007' || '/orders'::bytea ||
  '\x0000000000000009' || '{"sku":1}'::bytea) as as_documented;
select count(distinct outbox.request_hash(method, path, body)) from (values
  ('POST', '/a', 'b'::bytea), ('POST', '/ab', ''), ('POST', '/ab', null), ('POST/', 'ab', ''), ('PUT', '/ab', ''),
  ('', 'POST/ab', ''), ('', '', 'POST/ab')) as requests (method, path, body);
select outbox.request_hash('GET', '/ä', null) = sha256(
  '\x0000000000000003' || 'GET'::bytea || '\x0000000000000003' || '\x2fc3a4' || '\x0000000000000000') as utf8;
select outbox.request_hash(null, '/', '');
select outbox.request_hash('GET', null, '');
select outbox.request_hash('POST', '/orders', '{"sku":1}') as hash, outbox.request_hash('POST', '/orders', '{"sku":2}') as hash2
\gset

-- the work, its response, and another request with the same key
begin;
select outcome, owner is not null as owner, status, response, content_type, headers, retry_after
from outbox.idempotency_begin('shop', 'k1', :'hash') \gx
select owner from outbox.idempotency_keys where key = 'k1' \gset
select outcome, owner, status, retry_after from outbox.idempotency_begin('shop', 'k1', :'hash');
select outbox.idempotency_complete('shop', 'k1', :'owner', 201, '{"id":7}', 'application/json', '{"Location": "/orders/7"}');
commit;
select * from outbox.idempotency_begin('shop', 'k1', :'hash') \gx
select outcome, owner, status, response from outbox.idempotency_begin('shop', 'k1', :'hash2');
select outcome from outbox.idempotency_begin('other', 'k1', :'hash');
select outcome from outbox.idempotency_begin('shop', 'k1x', :'hash');
select expires_at - started_at, lease_until, completed_at >= started_at from outbox.idempotency_keys where key = 'k1' and scope = 'shop';
-- a large response that is stored out of line
select owner from outbox.idempotency_begin('shop', 'large', :'hash') \gset
select outbox.idempotency_complete('shop', 'large', :'owner', 200, string_agg(sha256(n::text::bytea), ''), null, null)
from generate_series(1, 2000) n;
select outcome, length(response), content_type, headers from outbox.idempotency_begin('shop', 'large', :'hash');
-- in a read-only transaction nothing can be started
begin read only;
select outcome from outbox.idempotency_begin('shop', 'k1', :'hash');
select outcome from outbox.idempotency_begin('shop', 'k2', :'hash');
rollback;

-- two_phase: lease, takeover, stale owners
select outcome, owner from outbox.idempotency_begin('shop', 'k3', :'hash', '2 h', 'two_phase', '1 h') \gset first_
select outcome, owner, retry_after > '59 min' and retry_after <= '1 h' as soon
from outbox.idempotency_begin('shop', 'k3', :'hash', '2 h', 'two_phase', '1 h');
update outbox.idempotency_keys set lease_until = clock_timestamp() where key = 'k3';
select outcome from outbox.idempotency_begin('shop', 'k3', :'hash2', '2 h', 'two_phase', '1 h');
select outcome, owner from outbox.idempotency_begin('shop', 'k3', :'hash', '2 h', 'two_phase', '1 h') \gset second_
select :'first_outcome', :'second_outcome', :'first_owner' <> :'second_owner' as other_owner;
select outbox.idempotency_complete('shop', 'k3', :'first_owner', 200, 'stale', null, null);
select outbox.idempotency_release('shop', 'k3', :'first_owner');
select outbox.idempotency_complete('shop', 'k3', :'second_owner', 200, 'right', null, null);
select outbox.idempotency_complete('shop', 'k3', :'second_owner', 200, 'twice', null, null);
select outbox.idempotency_release('shop', 'k3', :'second_owner');
select outcome, convert_from(response, 'UTF8') from outbox.idempotency_begin('shop', 'k3', :'hash');
-- released: as if it had never been
select owner from outbox.idempotency_begin('shop', 'k4', :'hash', mode => 'two_phase') \gset
select outbox.idempotency_release('shop', 'k4', :'owner');
select outbox.idempotency_release('shop', 'k4', :'owner');
select outbox.idempotency_complete('shop', 'k4', :'owner', 200, null, null, null);
select outcome from outbox.idempotency_begin('shop', 'k4', :'hash2');
-- expired: forgotten, before anybody has removed it
update outbox.idempotency_keys set expires_at = clock_timestamp() where key in ('k1', 'k4');
select outcome, status, response from outbox.idempotency_begin('shop', 'k1', :'hash2');
select outcome from outbox.idempotency_begin('shop', 'k4', :'hash');
select status, response, content_type, headers, completed_at, request_hash = :'hash2' as hash
from outbox.idempotency_keys where scope = 'shop' and key = 'k1';

-- bad input changes nothing
-- of those that expired the relay removes some meanwhile
select count(*) as keys from outbox.idempotency_keys where expires_at > clock_timestamp() \gset
select outbox.idempotency_begin(null, 'bad', :'hash');
select outbox.idempotency_begin('', 'bad', :'hash');
select outbox.idempotency_begin(repeat('s', 256), 'bad', :'hash');
select outbox.idempotency_begin('shop', null, :'hash');
select outbox.idempotency_begin('shop', '', :'hash');
select outbox.idempotency_begin('shop', repeat('k', 256), :'hash');
select outbox.idempotency_begin('shop', 'bad', null);
select outbox.idempotency_begin('shop', 'bad', '');
select outbox.idempotency_begin('shop', 'bad', sha512('x'));
select outbox.idempotency_begin('shop', 'bad', :'hash', null);
select outbox.idempotency_begin('shop', 'bad', :'hash', '0');
select outbox.idempotency_begin('shop', 'bad', :'hash', '-1 s');
select outbox.idempotency_begin('shop', 'bad', :'hash', '1000000 years');
select outbox.idempotency_begin('shop', 'bad', :'hash', '-178000000 years');
select outbox.idempotency_begin('shop', 'bad', :'hash', mode => null);
select outbox.idempotency_begin('shop', 'bad', :'hash', mode => 'two phase');
select outbox.idempotency_begin('shop', 'bad', :'hash', lease => null);
select outbox.idempotency_begin('shop', 'bad', :'hash', mode => 'two_phase', lease => '0');
select outbox.idempotency_begin('shop', 'bad', :'hash', mode => 'two_phase', ttl => '1 s', lease => '2 s');
-- a day is 24 hours, also where the clocks are set forward within the next ones
select set_config('timezone', format('AAA0BBB-1,%s/%s,%s/%s', t.doy, t.hour, (t.doy + 180) % 365, 0), false) is not null as set
from (select extract(doy from n.at)::int - 1 as doy, extract(hour from n.at)::int as hour
  from (select clock_timestamp() at time zone 'UTC' + interval '6 h' as at) n) t;
select clock_timestamp() + interval '1 day' < clock_timestamp() + interval '23.5 h' as short_day;
begin;
select outcome from outbox.idempotency_begin('shop', 'short day', :'hash', mode => 'two_phase', ttl => '1 day', lease => '24 h');
rollback;
reset timezone;
select count(*) - :keys as added from outbox.idempotency_keys where expires_at > clock_timestamp();
select owner from outbox.idempotency_begin('shop', 'k5', :'hash', mode => 'two_phase') \gset
select outbox.idempotency_complete(null, 'k5', :'owner', 200, '', null, null);
select outbox.idempotency_complete('shop', null, :'owner', 200, '', null, null);
select outbox.idempotency_complete('shop', 'k5', null, 200, '', null, null);
select outbox.idempotency_complete('shop', 'k5', 'me', 200, '', null, null);
select outbox.idempotency_complete('shop', 'k5', :'owner', null, '', null, null);
select outbox.idempotency_complete('shop', 'k5', :'owner', 99, '', null, null);
select outbox.idempotency_complete('shop', 'k5', :'owner', 600, '', null, null);
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, '', null, '[1]');
select outbox.idempotency_complete('shop', 'k5', '00000000-0000-4000-8000-000000000000', 200, '', null, null);
select outbox.idempotency_release('shop', 'k5', null);
select outbox.idempotency_release('shop', 'k5', '00000000-0000-4000-8000-000000000000');
set outbox.max_response_size = '1kB';
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, repeat('x', 1025)::bytea, null, null);
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, repeat('x', 1000)::bytea, repeat('x', 25), null);
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, repeat('x', 1000)::bytea, null,
  jsonb_build_object('x', repeat('x', 25)));
select owner = :'owner' as held, completed_at, status, response, content_type, headers
from outbox.idempotency_keys where key = 'k5';
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, repeat('x', 1000)::bytea, repeat('x', 24), null);
reset outbox.max_response_size;
-- what a program tells errors by
\set VERBOSITY sqlstate
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, 'twice', null, null);
select outbox.idempotency_release('shop', 'k5', '00000000-0000-4000-8000-000000000000');
select outbox.idempotency_complete('shop', 'k5', :'owner', 200, repeat('x', 1048577)::bytea, null, null);
select outbox.idempotency_complete('shop', 'k5', :'owner', 600, '', null, null);
select outbox.idempotency_begin('shop', null, :'hash');
select outbox.idempotency_begin('shop', 'bad', :'hash', '0');
\set VERBOSITY default
