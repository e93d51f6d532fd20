"""The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id.

A line of stdin stands for an HTTP request. PGHOST, PGDATABASE, PGUSER and so on name the database.
"""

import json
import sys
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Identity, create_engine, func, select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int] = mapped_column(BigInteger)


# begin: emit
def emit(session: Session, aggregate_type: str, aggregate_id: str, event_type: str, payload: Any) -> UUID:
    """Emits in the session's transaction: there is an event if, and only if, that commits."""
    arguments = (aggregate_type, aggregate_id, event_type, type_coerce(payload, JSONB))
    return session.scalars(select(func.outbox.emit(*arguments))).one()


def place_order(session: Session, customer: str, cents: int) -> int:
    order = Order(customer=customer, cents=cents)
    session.add(order)
    session.flush()  # inserts the row now: its id comes from the database
    payload = {"order_id": order.id, "customer": customer, "cents": cents}
    emit(session, "order", str(order.id), "order.placed", payload)
    return order.id
# end: emit


def read_order(line: str) -> tuple[str, int]:
    request = json.loads(line)
    customer, cents = request["customer"], request["cents"]
    if type(customer) is not str or type(cents) is not int:  # isinstance() would take true for an integer
        raise TypeError("an order has a customer and cents")
    customer.encode()  # half of a surrogate pair is no text
    return customer, cents


def handle(sessions: sessionmaker[Session], line: str) -> str:
    try:
        customer, cents = read_order(line)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        return f"refused: {error!r}"
    try:
        with sessions.begin() as session:  # commits at its end, rolls back on any exception
            order_id = place_order(session, customer, cents)
    except (DataError, IntegrityError) as error:  # the latter also from the commit: no order, no event
        return f"refused: {error.orig}".splitlines()[0]
    return str(order_id)  # the commit is done


def main() -> None:
    # A connection that broke while it was idle is replaced, not handed out.
    # And psycopg would take the database's encoding, if it is not UTF8, and fail at what that does not have.
    engine = create_engine("postgresql+psycopg://", pool_pre_ping=True, connect_args={"client_encoding": "UTF8"})
    sessions = sessionmaker(engine)
    for line in sys.stdin:
        print(handle(sessions, line), flush=True)


if __name__ == "__main__":
    main()
