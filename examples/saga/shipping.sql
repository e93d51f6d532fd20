-- The database of the shipping service.
-- Topics of the saga's own, saga.order and so on: other examples emit orders too. The relay, which begins with the
-- extension, reads it once.
select format('alter database %I set outbox.topic_template = %L', current_database(), 'saga.{aggregate_type}') \gexec
create extension if not exists outbox;

create table addresses (customer text primary key, address text not null);
create table shipments (order_id bigint primary key, customer text not null references addresses);

-- One customer, c9, has no address.
insert into addresses select 'c' || n, n || ', Main Street' from generate_series(0, 8) as n;

grant select, insert on addresses, shipments to saga;
select outbox.grant_emitter('saga');
select outbox.grant_consumer('saga');
