// The stock service: reserves the goods of an order that is paid, and releases them when the order is cancelled.
package main

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"

	"saga/service"
)

func reserve(ctx context.Context, tx pgx.Tx, order service.Order) error {
	tag, err := tx.Exec(ctx, "update items set on_hand = on_hand - $1 where item = $2 and on_hand >= $1",
		order.Quantity, order.Item)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return service.Emit(ctx, tx, "stock.refused", order)
	}
	_, err = tx.Exec(ctx, "insert into reservations values ($1, $2, $3, 'reserved')", order.ID, order.Item, order.Quantity)
	if err != nil {
		return err
	}
	return service.Emit(ctx, tx, "stock.reserved", order)
}

// release gives back what was reserved by our own record, whatever the event says by now. order.paid came before, as it
// has the same key: if nothing was reserved, nothing will be.
func release(ctx context.Context, tx pgx.Tx, order service.Order) error {
	tag, err := tx.Exec(ctx, "with released as (update reservations set state = 'released'"+
		" where order_id = $1 and state = 'reserved' returning item, quantity)"+
		" update items set on_hand = on_hand + quantity from released where items.item = released.item", order.ID)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	return service.Emit(ctx, tx, "stock.released", order)
}

func main() {
	err := service.Consume("stock", []string{"saga.order"},
		map[string]service.Handler{"order.paid": reserve, "order.cancelled": release})
	if err != nil {
		log.Fatal(err)
	}
}
