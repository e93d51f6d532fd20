-- Routes: what is refused when it is written, which row counts, who may do what.
\set SHOW_CONTEXT never
insert into outbox.routes values
  ('order', 'paid', 'billing', 'skip', 'both'),
  ('order', null, 'orders.{event_type}', null, 'cloudevents'),
  ('*', 'audited', 'audit', null, null);
insert into outbox.routes (aggregate_type) values ('plain');
select * from outbox.routes order by 1, 2;

-- the most specific row counts as a whole; what it leaves out is as the settings say
select t.*, r.* from (values ('order', 'paid'), ('order', 'audited'), ('bill', 'audited'), ('plain', 'made'), ('plain', 'audited'), ('bill', 'made'))
  t (aggregate_type, event_type), outbox.route_of(t.aggregate_type, t.event_type) r;
set outbox.topic_template = 'all';
set outbox.on_failure = 'skip';
set outbox.headers_format = 'both';
select t.*, r.* from (values ('order', 'made'), ('bill', 'audited'), ('plain', 'made'), ('bill', 'made'))
  t (aggregate_type, event_type), outbox.route_of(t.aggregate_type, t.event_type) r;
reset outbox.topic_template;
reset outbox.on_failure;
reset outbox.headers_format;
select * from outbox.route_of('no topic', 'made');
select outbox.route_of(null, 'made') is null as unknown;

-- refused when written, with the reason
insert into outbox.routes values ('a', 'b', 'my topic');
insert into outbox.routes values ('a', 'b', '{aggregate_id}');
insert into outbox.routes values ('a', 'b', '');
insert into outbox.routes values ('a b', '*', 'x.{aggregate_type}');
insert into outbox.routes values ('a', 'b', null, 'stop');
insert into outbox.routes values ('a', 'b', null, null, 'CloudEvents');
insert into outbox.routes values ('', 'b', 'c');
insert into outbox.routes values (repeat('a', 1001), 'b', 'c');
insert into outbox.routes values ('order', null, 'again');
update outbox.routes set topic = '..' where event_type = 'paid';
update outbox.routes set event_type = null where event_type = 'paid';
begin;
insert into outbox.routes (aggregate_type) select 'type ' || n from generate_series(1, 9996) n;
insert into outbox.routes (aggregate_type) values ('one too many');
rollback;
select count(*) from outbox.routes;
set session_replication_role = replica;
insert into outbox.routes values ('a', 'b', 'my topic');
reset session_replication_role;

-- emit() judges the topic by the route, at once, and again as before after a rollback
select outbox.emit('Größe', '1', 'made', '{}');
begin;
insert into outbox.routes values ('Größe', '*', 'groesse');
select outbox.emit('Größe', '1', 'made', '{}') is not null as emitted;
savepoint s;
update outbox.routes set topic = 'x.{event_type}' where aggregate_type = 'Größe';
select outbox.emit('Größe', '1', 'zu groß', '{}');
rollback to s;
select outbox.emit('Größe', '1', 'zu groß', '{}') is not null as emitted;
rollback;
select outbox.emit('Größe', '1', 'made', '{}');
-- the settings
set outbox.headers_format = 'json';
set outbox.cloudevents_source = 'https://example.com/shop?a=%20#x';
set outbox.cloudevents_source = 'my shop';
set outbox.cloudevents_source = '/%2';
reset outbox.cloudevents_source;

-- operators write, monitors read, emitters and consumers neither
create role outbox_test_emitter;
create role outbox_test_operator;
create role outbox_test_monitor;
select outbox.grant_emitter('outbox_test_emitter'), outbox.grant_consumer('outbox_test_emitter'),
  outbox.grant_operator('outbox_test_operator'), outbox.grant_monitor('outbox_test_monitor');
set role outbox_test_emitter;
select outbox.emit('order', '1', 'paid', '{}') is not null as emitted;
select * from outbox.routes;
insert into outbox.routes values ('mine');
select outbox.route_of('order', 'paid');
set outbox.headers_format = 'both';
set outbox.cloudevents_source = '/mine';
set role outbox_test_monitor;
select topic from outbox.routes where event_type = 'paid';
update outbox.routes set topic = 'mine';
delete from outbox.routes;
set role outbox_test_operator;
insert into outbox.routes values ('mine', 'made', 'mine') on conflict (aggregate_type, event_type) do update set topic = excluded.topic;
insert into outbox.routes values ('mine', 'made', 'ours') on conflict (aggregate_type, event_type) do update set topic = excluded.topic;
select topic from outbox.route_of('mine', 'made');
delete from outbox.routes where aggregate_type = 'mine' returning topic;
select topic from outbox.route_of('mine', 'made');
truncate outbox.routes;
alter table outbox.routes disable trigger before_change;
create trigger mine before insert on outbox.routes for each row execute function suppress_redundant_updates_trigger();
reset role;
-- from one group only
select outbox.grant_monitor('outbox_test_operator');
select outbox.revoke_operator('outbox_test_operator');
set role outbox_test_operator;
select count(topic) from outbox.routes;
delete from outbox.routes;
reset role;
select outbox.grant_operator('outbox_test_operator');
select outbox.revoke_monitor('outbox_test_operator');
set role outbox_test_operator;
select count(*) from outbox.routes;
reset role;

-- a dump has them
select 'outbox.routes'::regclass = any (extconfig) as dumped from pg_extension where extname = 'outbox';
select outbox.on_route_change();
truncate outbox.routes;
select topic from outbox.route_of('order', 'paid');
drop owned by outbox_test_emitter, outbox_test_operator, outbox_test_monitor;
drop role outbox_test_emitter, outbox_test_operator, outbox_test_monitor;
