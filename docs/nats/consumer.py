#!/usr/bin/env python3
"""Takes events from a stream of NATS JetStream that outbox publishes to, each effect once.

    consumer.py nats://127.0.0.1:4222 STREAM SUBJECT [COUNT]

Needs nats-py. It ends after COUNT events, or never.
"""
import asyncio
import sqlite3
import sys
from urllib.parse import unquote

import nats
from nats.js.api import AckPolicy, ConsumerConfig


def header(message, name):
    """Headers hold percent-encoded text."""
    return unquote((message.headers or {}).get(name, ""))


def process(database, message):
    """The effect, and that it has been made, in one transaction. Returns whether it is the first time."""
    with database:
        new = database.execute("insert or ignore into processed values (?)", (header(message, "id"),)).rowcount
        if new:
            payload = None if header(message, "Outbox-Tombstone") else message.data.decode()
            database.execute("insert into effects values (?, ?, ?)",
                             (header(message, "Outbox-Key"), header(message, "event_type"), payload))
    return bool(new)


async def main(server, stream, subject, count):
    database = sqlite3.connect(":memory:")
    database.execute("create table processed (id text primary key)")
    database.execute("create table effects (key text, event_type text, payload text)")
    connection = await nats.connect(server)
    # One message at a time keeps the order, also when one is delivered again.
    subscription = await connection.jetstream().pull_subscribe(
        subject, durable="consumer", stream=stream,
        config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=1, ack_wait=30))
    while count is None or count > 0:
        try:
            messages = await subscription.fetch(1, timeout=5)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            first = process(database, message)
            await message.ack_sync()  # behind the effect: a crash before it repeats the message
            print(header(message, "id"), header(message, "Outbox-Key"), header(message, "event_type"),
                  message.data.decode(), "" if first else "(again)", flush=True)
            if count is not None:
                count -= 1
    await connection.close()


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) == 5 else None))
