"""The payment service: takes the money of an order, and gives it back when the order is cancelled."""

from typing import Any

import psycopg

from service import consume, emit


def take(connection: psycopg.Connection, _: str, order: dict[str, Any]) -> None:
    taken = connection.execute(
        "update accounts set cents = cents - %(cents)s where customer = %(customer)s and cents >= %(cents)s", order
    ).rowcount
    if taken:
        connection.execute("insert into payments values (%(id)s, %(customer)s, %(cents)s, 'taken')", order)
    emit(connection, "payment.taken" if taken else "payment.refused", order)


def give_back(connection: psycopg.Connection, _: str, order: dict[str, Any]) -> None:
    """What was taken by our own record, whatever the event says by now.

    order.placed came before, as it has the same key: if nothing was taken, nothing will be.
    """
    refunded = connection.execute(
        "with refunded as (update payments set state = 'refunded' where order_id = %(id)s and state = 'taken'"
        " returning customer, cents)"
        " update accounts set cents = accounts.cents + refunded.cents from refunded"
        " where accounts.customer = refunded.customer",
        order,
    ).rowcount
    if refunded:
        emit(connection, "payment.refunded", order)


if __name__ == "__main__":
    consume("payment", ["order"], {"order.placed": take, "order.cancelled": give_back})
