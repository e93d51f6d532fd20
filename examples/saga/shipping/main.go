// The shipping service: sends a parcel for an order whose goods are reserved, if it knows the customer's address.
package main

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"

	"saga/service"
)

func ship(ctx context.Context, tx pgx.Tx, order service.Order) error {
	tag, err := tx.Exec(ctx, "insert into shipments select $1, customer from addresses where customer = $2",
		order.ID, order.Customer)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return service.Emit(ctx, tx, "shipping.refused", order)
	}
	return service.Emit(ctx, tx, "shipping.sent", order)
}

func main() {
	err := service.Consume("shipping", []string{"saga.order"},
		map[string]service.Handler{"order.reserved": ship})
	if err != nil {
		log.Fatal(err)
	}
}
