-- The order service's transaction, for every client that speaks SQL. Run it once, as the owner of the tables.
-- begin: emit
create or replace function place_order(customer text, cents bigint) returns bigint
language sql begin atomic
    with placed as (
        insert into orders (customer, cents) values (place_order.customer, place_order.cents)
        returning id, orders.customer, orders.cents
    ), emitted as (
        select placed.id, outbox.emit('order', placed.id::text, 'order.placed', jsonb_build_object(
            'order_id', placed.id, 'customer', placed.customer, 'cents', placed.cents))
        from placed
    )
    select id from emitted;
end;
-- end: emit
