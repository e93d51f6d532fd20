//! Billing: adds up what each customer owes, each order once, however often its event arrives.
//!
//! PGHOST, PGDATABASE, PGUSER and so on name the database, KAFKA the brokers. SIGTERM ends it in order. An error that
//! no record causes ends it: start it again, as systemd or Kubernetes would, and it continues where it was.
use std::{env, error::Error};

use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::ClientConfig;
use serde::Deserialize;
use sqlx::postgres::{PgConnectOptions, PgPool};
use tokio::signal::unix::{signal, SignalKind};

#[derive(Deserialize)]
struct Order {
    customer: String,
    cents: i64,
}

/// What only the record is to be blamed for is poison; anything else, a lost connection say, is not.
#[derive(Debug)]
enum Failure {
    Poison(String),
    Other(sqlx::Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            // Errors about data, constraints, and limits such as that of an index.
            sqlx::Error::Database(refusal)
                if refusal.code().is_some_and(|code| ["22", "23", "54"].contains(&&code[..2])) =>
            {
                Failure::Poison(refusal.to_string())
            }
            _ => Failure::Other(error),
        }
    }
}

fn header<'a>(record: &'a BorrowedMessage, key: &str) -> Option<&'a str> {
    let header = record.headers()?.iter().find(|header| header.key == key)?;
    std::str::from_utf8(header.value?).ok()
}

// begin: consume
/// The mark and the effect commit together, or neither.
async fn process(pool: &PgPool, name: &str, record: &BorrowedMessage<'_>) -> Result<(), Failure> {
    let mut transaction = pool.begin().await?; // rolls back when it is dropped
    let is_new: bool = sqlx::query_scalar("select outbox.mark_processed($1::text::uuid, $2)")
        .bind(header(record, "id"))
        .bind(name)
        .fetch_one(&mut *transaction)
        .await?;
    if is_new && header(record, "event_type") == Some("order.placed") {
        let order: Order = serde_json::from_slice(record.payload().unwrap_or_default())
            .map_err(|error| Failure::Poison(error.to_string()))?;
        sqlx::query(
            "insert into balances as b values ($1, 1, $2) on conflict (customer)
             do update set orders = b.orders + 1, cents = b.cents + excluded.cents",
        )
        .bind(order.customer)
        .bind(order.cents)
        .execute(&mut *transaction)
        .await?;
    }
    Ok(transaction.commit().await?)
}
// end: consume

/// Sets aside what can never be processed, as it must not stop what is behind it.
async fn consume(pool: &PgPool, name: &str, record: &BorrowedMessage<'_>) -> sqlx::Result<()> {
    let error = match process(pool, name, record).await {
        Ok(()) => return Ok(()),
        Err(Failure::Other(error)) => return Err(error),
        Err(Failure::Poison(error)) => error,
    };
    sqlx::query("insert into refused_records values ($1, $2, $3, $4, $5) on conflict do nothing")
        .bind(record.topic())
        .bind(record.partition())
        .bind(record.offset())
        .bind(record.payload())
        .bind(error)
        .execute(pool)
        .await?;
    Ok(())
}

async fn run(pool: &PgPool, name: &str, consumer: &StreamConsumer) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?; // Ctrl-C
    loop {
        let record = tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            record = consumer.recv() => record,
        };
        let record = match record {
            // Kafka is away. librdkafka connects again by itself.
            Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
            )) => continue,
            record => record?,
        };
        consume(pool, name, &record).await?;
        // After the commit; Kafka gets it with the next one of every five seconds.
        match consumer.store_offset_from_message(&record) {
            Err(KafkaError::StoreOffset(RDKafkaErrorCode::State)) => {} // the partition is another member's by now
            result => result?,
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // All processes that share the work have the same name.
    let name = env::var("CONSUMER").unwrap_or_else(|_| "billing".into());
    let topic = env::var("TOPIC").unwrap_or_else(|_| "outbox.event.order".into());
    let pool = PgPool::connect_with(PgConnectOptions::new()).await?;
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", env::var("KAFKA")?)
        .set("group.id", &name)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.offset.store", "false") // or records count as done when they are merely handed out
        .set("session.timeout.ms", "6000") // how long a killed member keeps its partitions
        .create()?;
    consumer.subscribe(&[&topic])?;
    run(&pool, &name, &consumer).await // dropped, it commits the stored offsets and leaves the group
}
