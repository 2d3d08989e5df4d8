"""Consecutive numbers: they only grow, and become visible in their order."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, update

from perdure.backends.ledgers._tables import counters

_ADVANCE = (
    update(counters)
    .where(counters.c.name == bindparam("counter"))
    .values(value=counters.c.value + bindparam("count"))
    .returning(counters.c.value)
)


def take_numbers(connection: Connection, counter: str, count: int) -> range:
    """The next `count` numbers of a counter; who takes the following ones waits for the end of this transaction."""
    last: int = connection.execute(_ADVANCE, {"counter": counter, "count": count}).scalar_one()
    return range(last - count + 1, last + 1)
