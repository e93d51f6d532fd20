// Billing: adds up what each customer owes, each order once, however often its event arrives.
//
// PGHOST, PGDATABASE, PGUSER and so on name the database, KAFKA the brokers. SIGTERM ends it in order. An error that
// no record causes ends it: start it again, as systemd or Kubernetes would, and it continues where it was.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// All processes that share the work have the same name.
var name = cmp.Or(os.Getenv("CONSUMER"), "billing")

// errUnreadable is the record's fault, as are errors of PostgreSQL about data (class 22), constraints (class 23) and
// limits, such as that of an index (class 54).
var errUnreadable = errors.New("no order")

func isPoison(err error) bool {
	var refusal *pgconn.PgError
	return errors.Is(err, errUnreadable) ||
		errors.As(err, &refusal) && slices.Contains([]string{"22", "23", "54"}, refusal.Code[:2])
}

func header(record *kgo.Record, key string) string {
	for _, header := range record.Headers {
		if header.Key == key {
			return string(header.Value)
		}
	}
	return ""
}

// begin: consume

// process commits the mark and the effect together, or neither.
func process(ctx context.Context, pool *pgxpool.Pool, record *kgo.Record) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var isNew bool
		err := tx.QueryRow(ctx, "select outbox.mark_processed($1::text::uuid, $2)", header(record, "id"), name).Scan(&isNew)
		if err != nil || !isNew || header(record, "event_type") != "order.placed" {
			return err // nil for a repetition, and for an event that billing has no use for
		}
		var order struct {
			Customer *string
			Cents    *int64
		}
		if !utf8.Valid(record.Value) { // encoding/json would replace what is not
			return errUnreadable
		}
		if err := json.Unmarshal(record.Value, &order); err != nil {
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
		_, err = tx.Exec(ctx, "insert into balances as b values ($1, 1, $2) on conflict (customer)"+
			" do update set orders = b.orders + 1, cents = b.cents + excluded.cents", order.Customer, order.Cents)
		return err
	})
}

// end: consume

// consume sets aside what can never be processed, as it must not stop what is behind it.
func consume(ctx context.Context, pool *pgxpool.Pool, record *kgo.Record) error {
	err := process(ctx, pool, record)
	if err == nil || !isPoison(err) {
		return err
	}
	_, err = pool.Exec(ctx, "insert into refused_records values ($1, $2, $3, $4, $5) on conflict do nothing",
		record.Topic, record.Partition, record.Offset, record.Value, err.Error())
	return err
}

func run(ctx context.Context, pool *pgxpool.Pool, client *kgo.Client) error {
	for {
		fetches := client.PollRecords(ctx, 100)
		if ctx.Err() != nil {
			ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return client.CommitMarkedOffsets(ending)
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done() && ctx.Err() == nil; {
			record := records.Next()
			// Not ctx: a record that was begun is finished.
			if err := consume(context.Background(), pool, record); err != nil {
				return err
			}
			client.MarkCommitRecords(record) // after its commit; Kafka gets it with the next one of every five seconds
		}
		client.AllowRebalance() // not before: no other member has these partitions while their records are processed
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// pgx sends UTF-8 and does not say so: to a database in LATIN1 each byte would be a character.
	pool, err := pgxpool.New(context.Background(), "client_encoding=UTF8")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA"), ",")...),
		kgo.ConsumerGroup(name),
		kgo.ConsumeTopics(cmp.Or(os.Getenv("TOPIC"), "outbox.event.order")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(6*time.Second), // how long a killed member keeps its partitions
		kgo.HeartbeatInterval(2*time.Second),
	)
	if err != nil {
		log.Fatal(err)
	}
	err = run(ctx, pool, client)
	client.CloseAllowingRebalance() // leaves the group
	if err != nil {
		log.Fatal(err)
	}
}
