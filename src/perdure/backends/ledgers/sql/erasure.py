"""Erasure: text that must not be readable any more (U4)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select

from perdure.backends.ledgers.sql import caches, response_chains
from perdure.backends.ledgers.sql import jobs as _jobs
from perdure.backends.ledgers.sql import sessions as _sessions
from perdure.backends.ledgers.sql import sessions as references
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.history import redact
from perdure.backends.ledgers.sql.rows import chunks
from perdure.backends.ledgers.sql.server import promotions
from perdure.backends.ledgers.sql.tables import episodes, history, jobs, journal, marks
from perdure.domain.scope import Scope

SCRUB = "scrub"
"""The mark that stands while erased text may still be in the bytes of the files."""


def erase(
    tx: Transaction,
    memory_ids: Sequence[str],
    episode_ids: Sequence[str],
    scope: Scope | None = None,
    *,
    cached_in: Scope | None = None,
) -> dict[str, int]:
    """Redact, delete and count."""
    named = [*memory_ids, *episode_ids]
    sessions = _sessions.ids_inside(tx.connection, scope)
    counts = {
        "history": redact(tx.connection, memory_ids),
        "episodes": _delete(tx.connection, episodes, "id", episode_ids),
        "journal": _delete(tx.connection, journal, "memory_id", memory_ids),
        "cache": caches.forget(tx.connection, caches.touched(tx.connection, named, scope, cached_in)),
        "jobs": _jobs.remove(tx, [*memory_ids, *sessions]),
        "promotions": promotions.redact(tx.connection, memory_ids),
        "sessions": _sessions.erase(tx.connection, named, scope),
        "chains": response_chains.erase(tx.connection, named, scope),
    }
    references.forget(tx.connection, named)
    _jobs.release_orphans(tx.connection)
    if any(counts.values()):
        want_scrub(tx.connection)
    return counts


def _delete(connection: Connection, table: Table, column: str, values: Sequence[str]) -> int:
    return sum(connection.execute(delete(table).where(table.c[column].in_(some))).rowcount for some in chunks(values))


def count_places(
    tx: Transaction,
    memory_ids: Sequence[str],
    episode_ids: Sequence[str],
    scope: Scope | None = None,
    *,
    cached_in: Scope | None = None,
) -> dict[str, int]:
    """Count what `erase` would take."""
    readable = history.c.erased == 0
    named = [*memory_ids, *episode_ids]
    followed = [*memory_ids, *_sessions.ids_inside(tx.connection, scope)]
    return {
        "history": sum(_count(tx.connection, history, "memory_id", some, readable) for some in chunks(memory_ids)),
        "episodes": sum(_count(tx.connection, episodes, "id", some) for some in chunks(episode_ids)),
        "journal": sum(_count(tx.connection, journal, "memory_id", some) for some in chunks(memory_ids)),
        "cache": len(caches.touched(tx.connection, named, scope, cached_in)),
        "jobs": sum(_count(tx.connection, jobs, "memory_id", some) for some in chunks(followed)),
        "promotions": len(promotions.worded(tx.connection, memory_ids)),
        "sessions": _sessions.touched(tx.connection, named, scope),
        "chains": response_chains.touched(tx.connection, named, scope),
    }


def _count(
    connection: Connection, table: Table, column: str, values: Sequence[str], *conditions: ColumnElement[bool]
) -> int:
    query = select(func.count()).select_from(table).where(table.c[column].in_(values), *conditions)
    found: int = connection.execute(query).scalar_one()
    return found


def want_scrub(connection: Connection) -> None:
    """Put up the mark, with a value of its own."""
    connection.execute(delete(marks).where(marks.c.name == SCRUB))
    connection.execute(insert(marks), {"name": SCRUB, "value": str(uuid4())})


def scrub_wanted(connection: Connection) -> str | None:
    """The mark's value, if it is up."""
    found: str | None = connection.execute(select(marks.c.value).where(marks.c.name == SCRUB)).scalar()
    return found


def note_scrubbed(connection: Connection, wanted: str) -> None:
    """Take the mark down, unless more was erased since the scrub began."""
    connection.execute(delete(marks).where(marks.c.name == SCRUB, marks.c.value == wanted))
