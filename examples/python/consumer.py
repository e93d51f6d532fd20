"""Billing: adds up what each customer owes, each order once, however often its event arrives.

PGHOST, PGDATABASE, PGUSER and so on name the database, KAFKA the brokers. SIGTERM ends it in order. An error that no
record causes ends it with a traceback: start it again, as systemd or Kubernetes would, and it continues where it was.
"""

import json
import os
import signal
import threading

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

CONSUMER = os.environ.get("CONSUMER", "billing")  # all processes that share the work have the same name
TOPIC = os.environ.get("TOPIC", "outbox.event.order")

# What only the record can be blamed for. Anything else, a lost connection say, is no reason to give up a record.
POISON = (
    *(ValueError, TypeError, LookupError, RecursionError),  # the last from JSON that is nested too deeply
    *(psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded),
)


def read_order(value: bytes) -> tuple[str, int]:
    order = json.loads(value)
    customer, cents = order["customer"], order["cents"]
    if type(customer) is not str or type(cents) is not int:  # isinstance() would take true for an integer
        raise TypeError("an order has a customer and cents")
    return customer, cents


# begin: consume
def process(connection: psycopg.Connection, record: Message) -> None:
    """The mark and the effect commit together, or neither."""
    headers = dict(record.headers() or [])
    with connection.transaction():
        marked = connection.execute(
            "select outbox.mark_processed(%s::uuid, %s)", (str(headers["id"], "ascii"), CONSUMER)
        ).fetchone()[0]
        if not marked or headers["event_type"] != b"order.placed":
            return  # a repetition, or an event that billing has no use for
        customer, cents = read_order(record.value())
        connection.execute(
            "insert into balances as b values (%s, 1, %s) on conflict (customer)"
            " do update set orders = b.orders + 1, cents = b.cents + excluded.cents",
            (customer, cents),
        )
# end: consume


def set_aside(connection: psycopg.Connection, record: Message, error: Exception) -> None:
    """A record that can never be processed must not stop those behind it."""
    with connection.transaction():
        connection.execute(
            "insert into refused_records values (%s, %s, %s, %s, %s) on conflict do nothing",
            (record.topic(), record.partition(), record.offset(), record.value(), repr(error)),
        )


def consume(connection: psycopg.Connection, consumer: Consumer, record: Message) -> None:
    try:
        process(connection, record)
    except POISON as error:
        set_aside(connection, record, error)
    try:
        consumer.store_offsets(record)  # after the commit; Kafka gets it with the next one of every five seconds
    except KafkaException as error:
        if error.args[0].code() != KafkaError._STATE:  # the partition is another member's by now
            raise


def main() -> None:
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": CONSUMER,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,  # or records count as done when they are merely handed out
            "session.timeout.ms": 6000,  # how long a killed member keeps its partitions
        }
    )
    consumer.subscribe([TOPIC])
    try:
        with psycopg.connect(autocommit=True, client_encoding="UTF8") as connection:  # transaction() begins and commits
            while not stopping.is_set():
                record = consumer.poll(0.5)
                if record is None:
                    continue
                if record.error():
                    raise KafkaException(record.error())
                consume(connection, consumer, record)
    finally:
        consumer.close()  # commits the stored offsets and leaves the group


if __name__ == "__main__":
    main()
