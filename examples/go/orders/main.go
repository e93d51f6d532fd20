// The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id.
//
// A line of stdin stands for an HTTP request. PGHOST, PGDATABASE, PGUSER and so on name the database.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Order is the request and, with its ID, the payload of the event.
type Order struct {
	ID       int64  `json:"order_id,omitempty"`
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// begin: emit

// emit emits in the transaction: there is an event if, and only if, it commits.
func emit(ctx context.Context, tx pgx.Tx, aggregateType, aggregateID, eventType string, payload any) error {
	_, err := tx.Exec(ctx, "select outbox.emit($1, $2, $3, $4)", aggregateType, aggregateID, eventType, payload)
	return err
}

func placeOrder(ctx context.Context, pool *pgxpool.Pool, order *Order) error {
	// Commits if the function returns nil, and rolls back otherwise. An error of the commit is returned too.
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "insert into orders (customer, cents) values ($1, $2) returning id",
			order.Customer, order.Cents).Scan(&order.ID)
		if err != nil {
			return err
		}
		return emit(ctx, tx, "order", strconv.FormatInt(order.ID, 10), "order.placed", order)
	})
}

// end: emit

// handle returns an error only for what the request is not to be blamed for.
func handle(ctx context.Context, pool *pgxpool.Pool, line []byte) (string, error) {
	var order Order
	if err := json.Unmarshal(line, &order); err != nil {
		return "refused: " + err.Error(), nil
	}
	order.ID = 0
	err := placeOrder(ctx, pool, &order)
	var refusal *pgconn.PgError
	switch {
	// An error about data or, also from the commit, a constraint.
	case errors.As(err, &refusal) && (strings.HasPrefix(refusal.Code, "22") || strings.HasPrefix(refusal.Code, "23")):
		return "refused: " + refusal.Message, nil
	case err != nil:
		return "", err
	}
	return strconv.FormatInt(order.ID, 10), nil
}

func main() {
	ctx := context.Background()
	// pgx sends UTF-8 and does not say so: to a database in LATIN1 each byte would be a character.
	pool, err := pgxpool.New(ctx, "client_encoding=UTF8")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20) // a line that is longer ends the program
	for lines.Scan() {
		answer, err := handle(ctx, pool, lines.Bytes())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
