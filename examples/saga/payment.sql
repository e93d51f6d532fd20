-- The database of the payment service.
-- Topics of the saga's own, saga.order and so on: other examples emit orders too. The relay, which begins with the
-- extension, reads it once.
select format('alter database %I set outbox.topic_template = %L', current_database(), 'saga.{aggregate_type}') \gexec
create extension if not exists outbox;

create table accounts (customer text primary key, cents bigint not null check (cents >= 0));
create table payments (
    order_id bigint primary key,
    customer text not null references accounts,
    cents bigint not null,
    state text not null check (state in ('taken', 'refunded'))
);

-- One customer has little money.
insert into accounts select 'c' || n, case n when 8 then 5000 else 100000000 end from generate_series(0, 9) as n;

grant select, insert, update on accounts, payments to saga;
select outbox.grant_emitter('saga');
select outbox.grant_consumer('saga');
