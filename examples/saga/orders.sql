-- The database of the order service.
-- Topics of the saga's own, saga.order and so on: other examples emit orders too. The relay, which begins with the
-- extension, reads it once.
select format('alter database %I set outbox.topic_template = %L', current_database(), 'saga.{aggregate_type}') \gexec
create extension if not exists outbox;

create table orders (
    id bigint generated always as identity primary key,
    customer text not null,
    item text not null,
    quantity int not null check (quantity > 0),
    cents bigint not null check (cents > 0),
    state text not null default 'placed' check (state in ('placed', 'paid', 'reserved', 'shipped', 'cancelled')),
    reason text,                       -- why it was cancelled
    deadline timestamptz not null
);
-- What the time-outs look for. From 'reserved' on there is none: the parcel may be on its way.
create index on orders (deadline) where state in ('placed', 'paid');

grant select, insert, update on orders to saga;
select outbox.grant_emitter('saga');
select outbox.grant_consumer('saga');
