"""The order service: takes orders by HTTP, and leads each to its end, shipped or cancelled.

POST /orders with an Idempotency-Key and {"customer": "c1", "item": "apple", "quantity": 2, "cents": 500}. PGDATABASE
and so on name the database, KAFKA the brokers, PORT where to listen.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from service import consume, emit

TIMEOUT = os.environ.get("ORDER_TIMEOUT", "10 s")  # for payment and stock together
FIELDS = {"customer": str, "item": str, "quantity": int, "cents": int}
COLUMNS = "id, " + ", ".join(FIELDS)

# What only a request can be blamed for.
REFUSED = (ValueError, KeyError, TypeError, RecursionError, psycopg.DataError, psycopg.IntegrityError)

# What an answer makes of an order: from which state, into which.
TRANSITIONS = {
    "payment.taken": ("placed", "paid"),
    "payment.refused": ("placed", "cancelled"),
    "stock.reserved": ("paid", "reserved"),
    "stock.refused": ("paid", "cancelled"),
    "shipping.sent": ("reserved", "shipped"),
    "shipping.refused": ("reserved", "cancelled"),
}


def read_order(body: bytes) -> dict[str, Any]:
    """PostgreSQL would round 1.5 cents, and take them."""
    order = json.loads(body)
    for field, kind in FIELDS.items():
        if type(order[field]) is not kind:  # isinstance() would take true for an integer
            raise TypeError(f"{field} is no {kind.__name__}")
    return order


def place(connection: psycopg.Connection, key: str, body: bytes) -> tuple[int, bytes]:
    """The request's key, the order, its event and the answer commit together. A repetition gets the same answer."""
    request = read_order(body)
    scope = f"{request['customer']}:orders"  # a real service takes the caller from its credentials
    with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        begun = cursor.execute(
            "select * from outbox.idempotency_begin(%s, %s, outbox.request_hash('POST', '/orders', %s))",
            (scope, key, body),
        ).fetchone()
        if begun["outcome"] == "replay":
            return begun["status"], begun["response"]
        if begun["outcome"] != "started":
            return (409 if begun["outcome"] == "in_progress" else 422), b"{}"
        order = cursor.execute(
            "insert into orders (customer, item, quantity, cents, deadline)"
            f" values (%s, %s, %s, %s, now() + %s::interval) returning {COLUMNS}",
            (request["customer"], request["item"], request["quantity"], request["cents"], TIMEOUT),
        ).fetchone()
        emit(connection, "order.placed", order)
        answer = json.dumps({"id": order["id"]}).encode()
        cursor.execute(
            "select outbox.idempotency_complete(%s, %s, %s, 201, %s, 'application/json', null)",
            (scope, key, begun["owner"], answer),
        )
    return 201, answer


def answered(connection: psycopg.Connection, event_type: str, payload: dict[str, Any]) -> None:
    """An answer that comes when the order has been cancelled changes nothing: order.cancelled undoes what it tells."""
    before, after = TRANSITIONS[event_type]
    move(connection, after, event_type, "id = %s and state = %s", (payload["id"], before))


def cancel_late_orders(connection: psycopg.Connection) -> None:
    late = "select id from orders where state in ('placed', 'paid') and deadline < now() limit 100"
    with connection.transaction():
        move(connection, "cancelled", "timeout", f"id in ({late} for update skip locked)", ())


def move(connection: psycopg.Connection, state: str, reason: str, condition: str, values: tuple) -> None:
    """Emits what the state asks others to do: order.paid is for stock, order.reserved for shipping, and so on."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "update orders set state = %s, reason = case when %s = 'cancelled' then %s end"
            f" where {condition} returning {COLUMNS}",
            (state, state, reason, *values),
        )
        for order in cursor.fetchall():
            emit(connection, f"order.{state}", order)


class Requests(BaseHTTPRequestHandler):
    pool: ConnectionPool

    def do_POST(self) -> None:
        length = self.headers["Content-Length"] or ""
        body = self.rfile.read(int(length)) if length.isdecimal() else b""
        key = self.headers["Idempotency-Key"]
        status, answer = 400, b"{}"
        if key:
            try:
                with self.pool.connection(timeout=5) as connection:
                    status, answer = place(connection, key, body)
            except psycopg.OperationalError as error:  # done or not, the client cannot know: it asks again
                print(f"{key}: {error}", file=sys.stderr)
                status = 503
            except REFUSED as error:
                print(f"{key}: {error!r}", file=sys.stderr)  # nothing of it has remained, the key neither
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_request(self, *_: Any) -> None:
        pass


def watch_time() -> None:
    with psycopg.connect(autocommit=True, client_encoding="UTF8") as connection:
        while True:
            cancel_late_orders(connection)
            time.sleep(0.5)


def end_of_thread(failure: threading.ExceptHookArgs) -> None:
    """Without its time-outs the service must not go on."""
    sys.excepthook(failure.exc_type, failure.exc_value, failure.exc_traceback)
    os._exit(1)


def main() -> None:
    check = ConnectionPool.check_connection
    settings = {"autocommit": True, "client_encoding": "UTF8"}
    with ConnectionPool(kwargs=settings, min_size=1, max_size=8, check=check) as pool:
        Requests.pool = pool
        server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Requests)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threading.excepthook = end_of_thread
        threading.Thread(target=watch_time, daemon=True).start()
        consume("orders", ["payment", "stock", "shipping"], dict.fromkeys(TRANSITIONS, answered))
        server.shutdown()


if __name__ == "__main__":
    main()
