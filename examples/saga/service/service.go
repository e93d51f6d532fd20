// Package service is what the services in Go share: events in, in order, each once; events out, in the same
// transaction.
package service

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Order is the payload of all events.
type Order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	Cents    int64  `json:"cents"`
}

// Handler handles an event. What it does in the transaction commits together with the mark, or not at all.
type Handler func(ctx context.Context, tx pgx.Tx, order Order) error

// Emit emits an event with the order's id as its key. What is before the dot is the aggregate's type: the topic.
func Emit(ctx context.Context, tx pgx.Tx, eventType string, order Order) error {
	aggregateType, _, _ := strings.Cut(eventType, ".")
	_, err := tx.Exec(ctx, "select outbox.emit($1, $2, $3, $4)",
		aggregateType, strconv.FormatInt(order.ID, 10), eventType, order)
	return err
}

// Consume calls the handler of each event's type, until SIGTERM. An error is for the end of the program; whoever
// starts it again has it continue with the same event.
func Consume(name string, topics []string, handlers map[string]Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// pgx sends UTF-8 and does not say so: to a database in LATIN1 each byte would be a character.
	pool, err := pgxpool.New(context.Background(), "client_encoding=UTF8")
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA"), ",")...),
		kgo.ConsumerGroup(name),
		kgo.InstanceID(name), // the only process of its kind: started again, it has its partitions at once
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AllowAutoTopicCreation(), // where nobody has emitted yet
		kgo.AutoCommitMarks(),
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
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
		for records := fetches.RecordIter(); !records.Done(); {
			record := records.Next()
			if err := handle(context.Background(), pool, name, record, handlers); err != nil {
				return err
			}
			client.MarkCommitRecords(record) // after the commit
		}
		client.AllowRebalance()
	}
}

func handle(
	ctx context.Context, pool *pgxpool.Pool, name string, record *kgo.Record, handlers map[string]Handler,
) error {
	headers := map[string]string{}
	for _, header := range record.Headers {
		headers[header.Key] = string(header.Value)
	}
	handler := handlers[headers["event_type"]]
	if handler == nil {
		return nil // an event for others
	}
	var order Order
	if err := json.Unmarshal(record.Value, &order); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var isNew bool
		err := tx.QueryRow(ctx, "select outbox.mark_processed($1::text::uuid, $2)", headers["id"], name).Scan(&isNew)
		if err != nil || !isNew {
			return err
		}
		return handler(ctx, tx, order)
	})
}
