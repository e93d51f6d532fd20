"""What the services in Python share: events in, in order, each once; events out, in the same transaction."""

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from psycopg.types.json import Jsonb

Handler = Callable[[psycopg.Connection, str, dict[str, Any]], None]


def emit(connection: psycopg.Connection, event_type: str, order: dict[str, Any]) -> None:
    """All events of an order have its id as their key. What is before the dot is the aggregate's type: the topic."""
    aggregate_type = event_type.split(".")[0]
    connection.execute(
        "select outbox.emit(%s, %s, %s, %s)", (aggregate_type, str(order["id"]), event_type, Jsonb(order))
    )


def consume(name: str, topics: list[str], handlers: dict[str, Handler]) -> None:
    """Calls the handler of each event's type, until SIGTERM. Its changes, its events and the mark commit together.

    An error ends the program; whoever starts it again has it continue with the same event. (Billing of the shops shows
    how to set a record aside.)
    """
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": name,
            "group.instance.id": name,  # the only process of its kind: started again, it has its partitions at once
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
            "allow.auto.create.topics": True,
            "topic.metadata.refresh.interval.ms": 5000,  # how long a topic may stay unknown that others create
        }
    )
    consumer.subscribe([f"saga.{topic}" for topic in topics])
    try:
        with psycopg.connect(autocommit=True, client_encoding="UTF8") as connection:
            while not stopping.is_set():
                record = consumer.poll(0.5)
                if record is None:
                    continue
                if record.error():
                    if record.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue  # nobody has emitted there yet; it is being created
                    raise KafkaException(record.error())
                _handle(connection, name, record, handlers)
                try:
                    consumer.store_offsets(record)  # after the commit
                except KafkaException as error:
                    if error.args[0].code() != KafkaError._STATE:  # the partition is another process's by now
                        raise
    finally:
        consumer.close()


def _handle(connection: psycopg.Connection, name: str, record: Message, handlers: dict[str, Handler]) -> None:
    headers = {key: value.decode() for key, value in record.headers()}
    handler = handlers.get(headers["event_type"])
    if handler is None:
        return  # an event for others
    with connection.transaction():
        mark = connection.execute("select outbox.mark_processed(%s::uuid, %s)", (headers["id"], name))
        if mark.fetchone()[0]:
            handler(connection, headers["event_type"], json.loads(record.value()))
