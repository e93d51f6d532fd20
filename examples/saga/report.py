"""Proves that money, goods and parcels add up: every order is shipped, paid and gone from stock, or none of it.

Reads the four databases as whoever PGUSER is, and the lines of customers.py from stdin. Ends with 1 if something is
wrong, and with 2 if some order has not come to its end yet.
"""

import sys
from typing import Any

import psycopg

START = {"money": 900005000, "apple": 1000000, "pear": 20}  # of payment.sql and stock.sql


def rows(database: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dbname=database) as connection:
        return connection.execute(query).fetchall()


def main() -> int:
    orders = {id: rest for id, *rest in rows("orders", "select id, state, reason, item, quantity, cents from orders")}
    payments = dict(rows("payment", "select order_id, state from payments"))
    reservations = dict(rows("stock", "select order_id, state from reservations"))
    shipments = {id for (id,) in rows("shipping", "select order_id from shipments")}
    money = rows("payment", "select sum(cents)::bigint from accounts")[0][0]
    stock = dict(rows("stock", "select item, on_hand from items"))
    answers = [line.split() for line in sys.stdin]

    shipped = {id: order for id, order in orders.items() if order[0] == "shipped"}
    ends: dict[str, int] = {}
    for state, reason, *_ in orders.values():
        end = state if reason is None else f"{state}: {reason}"
        ends[end] = ends.get(end, 0) + 1
    print(f"{len(orders)} orders")
    for end, count in sorted(ends.items()):
        print(f"  {count:6} {end}")

    sold = {item: sum(order[3] for order in shipped.values() if order[2] == item) for item in stock}
    takings = sum(order[4] for order in shipped.values())
    print(f"money: {money} in accounts + {takings} of shipped orders = {money + takings} of {START['money']}")
    for item, on_hand in sorted(stock.items()):
        print(f"{item}s: {on_hand} in stock + {sold[item]} shipped = {on_hand + sold[item]} of {START[item]}")

    if any(order[0] not in ("shipped", "cancelled") for order in orders.values()):
        print("some orders have not come to their end")
        return 2
    reserved = {id for id, state in reservations.items() if state == "reserved"}
    checks = {
        "each request made one order, and each order is of a request": sorted(orders)
        == sorted(int(id) for _, id in answers),
        "money adds up": money + takings == START["money"],
        "goods add up": all(on_hand + sold[item] == START[item] for item, on_hand in stock.items()),
        "paid is what was shipped": {id for id, state in payments.items() if state == "taken"} == set(shipped),
        "reserved is what was shipped": reserved == set(shipped),
        "there is a parcel for what was shipped": shipments == set(shipped),
    }
    for check, holds in checks.items():
        print(f"{'ok ' if holds else 'NOT'} {check}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
