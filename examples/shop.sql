-- The tables and roles of the shop. All examples share them:
--   createdb shop && psql -d shop -f examples/shop.sql         (as a superuser)
create extension if not exists outbox;

create table customers (name text primary key);

create table orders (
    id bigint generated always as identity primary key,
    -- Checked at the commit: an order that fails there has emitted its event already, and takes it along.
    customer text not null references customers deferrable initially deferred,
    cents bigint not null check (cents > 0)
);

-- What billing makes of the events. Adding up is an effect that must not happen twice.
create table balances (customer text primary key, orders int not null, cents bigint not null);

-- Records that billing cannot process, for a person to look at.
create table refused_records (
    topic text,
    kafka_partition int,
    kafka_offset bigint,
    value bytea,
    error text not null,
    refused_at timestamptz not null default now(),
    primary key (topic, kafka_partition, kafka_offset)
);

-- Roles belong to all databases of a server.
select format('create role %I login', name) from unnest(array['shop', 'billing']) as name
where not exists (select from pg_roles where rolname = name) \gexec

grant select, insert on orders to shop;
grant select on customers to shop; -- for the foreign key
grant select, insert, update on balances to billing;
grant select, insert on refused_records to billing;

-- May emit, and read no event.
select outbox.grant_emitter('shop');
-- May mark events as processed, and emit none.
select outbox.grant_consumer('billing');
