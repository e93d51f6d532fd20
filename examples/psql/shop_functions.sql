-- What the two scripts call. Run it once, after ../shop.sql, as the owner of the tables.

-- begin: emit
-- The order service's transaction: one statement, so it commits as a whole or not at all.
create or replace function place_order(customer text, cents bigint) returns bigint language plpgsql as $$
declare
    order_id bigint;
begin
    insert into orders (customer, cents) values (place_order.customer, place_order.cents) returning id into order_id;
    perform outbox.emit('order', order_id::text, 'order.placed',
        jsonb_build_object('order_id', order_id, 'customer', customer, 'cents', cents));
    return order_id;
end $$;
-- end: emit

-- An order as it comes, which may be anything. What is no order is an error of class 22, "data exception".
create or replace function place_order(line bytea) returns bigint language plpgsql as $$
declare
    request jsonb := convert_from(line, 'UTF8')::jsonb;
begin
    if jsonb_typeof(request -> 'customer') <> 'string' or jsonb_typeof(request -> 'cents') <> 'number' then
        raise data_exception using message = 'an order has a customer and cents';
    end if;
    -- By way of text, as a number with a fraction is refused there, and not rounded.
    return place_order(request ->> 'customer', (request ->> 'cents')::bigint);
end $$;

-- begin: consume
-- One record, as kcat -J prints it. A block with an exception clause is a savepoint: what was done in it is undone,
-- the mark included, and the rest of the batch stays.
create or replace function bill(consumer text, topic text, kafka_partition int, kafka_offset bigint, line bytea)
returns void language plpgsql as $$
declare
    record jsonb;
    headers jsonb;
    placed jsonb;
begin
    record := convert_from(line, 'UTF8')::jsonb;
    headers := jsonb_object(array(select jsonb_array_elements_text(record -> 'headers')));
    if not outbox.mark_processed((headers ->> 'id')::uuid, consumer) or headers ->> 'event_type' <> 'order.placed' then
        return; -- a repetition, or an event that billing has no use for
    end if;
    placed := (record ->> 'payload')::jsonb;
    if jsonb_typeof(placed -> 'customer') <> 'string' then
        raise data_exception using message = 'a customer is a text';
    end if;
    insert into balances as b values (placed ->> 'customer', 1, (placed ->> 'cents')::bigint)
    on conflict (customer) do update set orders = b.orders + 1, cents = b.cents + excluded.cents;
exception when data_exception or integrity_constraint_violation or program_limit_exceeded then
    -- A record that can never be processed must not stop those behind it.
    insert into refused_records values (topic, kafka_partition, kafka_offset, line, sqlerrm) on conflict do nothing;
end $$;
-- end: consume
