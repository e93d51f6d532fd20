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
    insert into balances as b values (placed ->> 'customer', 1, (placed ->> 'cents')::bigint)
    on conflict (customer) do update set orders = b.orders + 1, cents = b.cents + excluded.cents;
exception when data_exception or integrity_constraint_violation then
    -- A record that can never be processed must not stop those behind it.
    insert into refused_records values (topic, kafka_partition, kafka_offset, line, sqlerrm);
end $$;
-- end: consume
