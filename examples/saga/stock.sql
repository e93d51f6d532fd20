-- The database of the stock service.
-- Topics of the saga's own, saga.order and so on: other examples emit orders too. The relay, which begins with the
-- extension, reads it once.
select format('alter database %I set outbox.topic_template = %L', current_database(), 'saga.{aggregate_type}') \gexec
create extension if not exists outbox;

create table items (item text primary key, on_hand int not null check (on_hand >= 0));
create table reservations (
    order_id bigint primary key,
    item text not null references items,
    quantity int not null,
    state text not null check (state in ('reserved', 'released'))
);

-- There are few pears.
insert into items values ('apple', 1000000), ('pear', 20);

grant select, insert, update on items, reservations to saga;
select outbox.grant_emitter('saga');
select outbox.grant_consumer('saga');
