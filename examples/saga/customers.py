"""Customers: order at random until SIGTERM or Ctrl-C, and ask again with the same key until they get an answer.

ORDERS is the address of the order service. Prints "key id" for each order, and ends when all have been answered.
"""

import http.client
import json
import os
import random
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid

SOURCES = 4  # that order side by side

stopping = threading.Event()
printing = threading.Lock()  # or lines of several threads run into one another


def ask(key: str, body: bytes) -> int | None:
    request = urllib.request.Request(f"{os.environ['ORDERS']}/orders", body, {"Idempotency-Key": key})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)["id"]
    except urllib.error.HTTPError as error:
        if error.code not in (409, 503):
            raise
    except (OSError, http.client.HTTPException):
        pass  # killed before, while or after it did the work: that is what the key is for
    return None


def order_once() -> None:
    key = str(uuid.uuid4())
    order = {
        "customer": f"c{random.randrange(10)}",
        "item": random.choice(["apple"] * 9 + ["pear"]),
        "quantity": random.randint(1, 3),
        "cents": random.randint(100, 2000),
    }
    body = json.dumps(order).encode()
    while (order_id := ask(key, body)) is None:
        time.sleep(0.2)
    if random.random() < 0.1:  # an answer that was lost on the way to the customer
        again = ask(key, body)
        assert again in (None, order_id), f"{key} is order {order_id} and order {again}"
    with printing:
        print(key, order_id, flush=True)


def order_on() -> None:
    while not stopping.wait(0.1):
        order_once()


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    sources = [threading.Thread(target=order_on) for _ in range(SOURCES)]
    for source in sources:
        source.start()
    for source in sources:
        source.join()
