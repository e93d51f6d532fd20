//! The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id.
//!
//! A line of stdin stands for an HTTP request. PGHOST, PGDATABASE, PGUSER and so on name the database.
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::types::{Json, Uuid};
use sqlx::PgConnection;
use tokio::io::{stdin, AsyncBufReadExt, BufReader};

#[derive(Deserialize)]
struct Order {
    customer: String,
    cents: i64,
}

#[derive(Serialize)]
struct OrderPlaced<'a> {
    order_id: i64,
    customer: &'a str,
    cents: i64,
}

// begin: emit
/// Emits in the transaction that is open on the connection: there is an event if, and only if, it commits.
async fn emit<T: Serialize + Sync>(
    connection: &mut PgConnection,
    aggregate_type: &str,
    aggregate_id: &str,
    event_type: &str,
    payload: &T,
) -> sqlx::Result<Uuid> {
    sqlx::query_scalar("select outbox.emit($1, $2, $3, $4)")
        .bind(aggregate_type)
        .bind(aggregate_id)
        .bind(event_type)
        .bind(Json(payload))
        .fetch_one(connection)
        .await
}

async fn place_order(pool: &PgPool, order: &Order) -> sqlx::Result<i64> {
    let mut transaction = pool.begin().await?; // rolls back when it is dropped, so at every `?`
    let order_id: i64 = sqlx::query_scalar("insert into orders (customer, cents) values ($1, $2) returning id")
        .bind(&order.customer)
        .bind(order.cents)
        .fetch_one(&mut *transaction)
        .await?;
    let placed = OrderPlaced { order_id, customer: &order.customer, cents: order.cents };
    emit(&mut transaction, "order", &order_id.to_string(), "order.placed", &placed).await?;
    transaction.commit().await?; // its error is the caller's: neither order nor event
    Ok(order_id)
}
// end: emit

/// An error is only what the request is not to be blamed for.
async fn handle(pool: &PgPool, line: &[u8]) -> sqlx::Result<String> {
    let order = match serde_json::from_slice(line) {
        Ok(order) => order,
        Err(error) => return Ok(format!("refused: {error}")),
    };
    match place_order(pool, &order).await {
        Ok(order_id) => Ok(order_id.to_string()),
        // An error about data or, also from the commit, a constraint.
        Err(sqlx::Error::Database(refusal))
            if refusal.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23")) =>
        {
            Ok(format!("refused: {}", refusal.message()))
        }
        Err(error) => Err(error),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect_with(PgConnectOptions::new()).await?;
    let mut lines = BufReader::new(stdin()).split(b'\n');
    while let Some(line) = lines.next_segment().await? {
        println!("{}", handle(&pool, &line).await?);
    }
    Ok(())
}
