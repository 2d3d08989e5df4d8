"""Erasure: text that must not be readable any more (U4)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, delete, func, insert, select

from perdure.backends.ledgers import _caches
from perdure.backends.ledgers._history import redact
from perdure.backends.ledgers._rows import chunks
from perdure.backends.ledgers._tables import episodes, history, journal, marks
from perdure.domain.scope import Scope

SCRUB = "scrub"
"""The mark that stands while erased text may still be in the bytes of the files."""


def erase(
    connection: Connection, memory_ids: Sequence[str], episode_ids: Sequence[str], scope: Scope | None
) -> dict[str, int]:
    """Redact, delete and count."""
    counts = {
        "history": redact(connection, memory_ids),
        "episodes": _delete(connection, episodes, "id", episode_ids),
        "journal": _delete(connection, journal, "memory_id", memory_ids),
        "cache": _caches.forget(connection, _caches.touched(connection, [*memory_ids, *episode_ids], scope)),
    }
    if any(counts.values()):
        set_scrub(connection, True)
    return counts


def _delete(connection: Connection, table: Table, column: str, values: Sequence[str]) -> int:
    return sum(connection.execute(delete(table).where(table.c[column].in_(some))).rowcount for some in chunks(values))


def count_places(
    connection: Connection, memory_ids: Sequence[str], episode_ids: Sequence[str], scope: Scope | None
) -> dict[str, int]:
    """Count what `erase` would take."""
    readable = history.c.erased == 0
    return {
        "history": sum(_count(connection, history, "memory_id", some, readable) for some in chunks(memory_ids)),
        "episodes": sum(_count(connection, episodes, "id", some) for some in chunks(episode_ids)),
        "journal": sum(_count(connection, journal, "memory_id", some) for some in chunks(memory_ids)),
        "cache": len(_caches.touched(connection, [*memory_ids, *episode_ids], scope)),
    }


def _count(connection: Connection, table: Table, column: str, values: Sequence[str], *conditions: object) -> int:
    query = select(func.count()).select_from(table).where(table.c[column].in_(values), *conditions)  # type: ignore[arg-type]  # conditions are columns
    found: int = connection.execute(query).scalar_one()
    return found


def set_scrub(connection: Connection, wanted: bool) -> None:
    """Put the mark up, or take it down."""
    connection.execute(delete(marks).where(marks.c.name == SCRUB))
    if wanted:
        connection.execute(insert(marks), {"name": SCRUB, "value": "wanted"})


def scrub_wanted(connection: Connection) -> bool:
    """Whether the mark is up."""
    return connection.execute(select(marks.c.value).where(marks.c.name == SCRUB)).first() is not None
