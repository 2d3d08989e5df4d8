"""Episodes: the messages as they were said (DESIGN §3, "The words themselves stay")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select, tuple_, update

from perdure.backends.ledgers.base import EpisodePage
from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import check_limit, chunks, episode_of, episode_row
from perdure.backends.ledgers.sql.tables import episodes, insert_new, take_numbers
from perdure.domain.clock import read_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Episode
from perdure.domain.scope import Scope


def _within(scope: Scope) -> ColumnElement[bool]:
    return and_(True, *(episodes.c[name] == value for name, value in scope.given().items()))


def add_episodes(connection: Connection, new: Sequence[Episode], batch: str | None = None) -> int:
    """Keep episodes whose ids are not known; how many those were."""
    known = _known(connection, [episode.id for episode in new])
    fresh = {episode.id: episode for episode in new if episode.id not in known}
    if not fresh:
        return 0
    numbers = take_numbers(connection, "episode", len(fresh))
    rows = [episode_row(episode, number, batch) for episode, number in zip(fresh.values(), numbers, strict=True)]
    connection.execute(insert_new(connection, episodes), rows)
    return len(rows)


def insert_episodes(tx: Transaction, episodes: Sequence[Episode]) -> int:
    """Insert episodes that follow no batch; how many were new."""
    return add_episodes(tx.connection, episodes)


def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for some in chunks(ids):
        found.update(connection.execute(select(episodes.c.id).where(episodes.c.id.in_(some))).scalars())
    return found


def get_episodes(tx: Transaction, ids: Sequence[str]) -> list[Episode]:
    """Episodes by id, in the order asked."""
    found: dict[str, Episode] = {}
    for some in chunks(ids):
        for row in tx.connection.execute(select(episodes).where(episodes.c.id.in_(some))).mappings():
            found[row["id"]] = episode_of(row)
    return [found[id] for id in ids if id in found]


def list_episodes(
    tx: Transaction, scope: Scope, limit: int = 100, cursor: str | None = None, *, include_hidden: bool = False
) -> EpisodePage:
    """One page, oldest told first."""
    check_limit(limit)
    query = select(episodes).where(_within(scope))
    if not include_hidden:
        query = query.where(episodes.c.hidden == 0)
    if cursor is not None:
        query = query.where(tuple_(episodes.c.told_at, episodes.c.seq) > tuple_(*_read_cursor(cursor)))
    query = query.order_by(episodes.c.told_at, episodes.c.seq).limit(limit + 1)
    rows = tx.connection.execute(query).mappings().all()
    more = len(rows) > limit
    last = rows[limit - 1] if more else None
    return EpisodePage(
        [episode_of(row) for row in rows[:limit]], None if last is None else f"{last['told_at']}|{last['seq']}"
    )


def _read_cursor(cursor: str) -> tuple[str, int]:
    told_at, _, sequence = cursor.partition("|")
    if read_moment(told_at) is None or not (sequence.isascii() and sequence.isdigit() and len(sequence) < 19):
        raise InvalidInputError(f"cursor is not one that a page gave: {cursor!r}", field="cursor", value=cursor)
    return told_at, int(sequence)


def recent_episodes(tx: Transaction, scope: Scope, limit: int, before: str | None = None) -> list[Episode]:
    """The last visible ones, oldest first."""
    check_limit(limit)
    query = select(episodes).where(_within(scope), episodes.c.hidden == 0)
    if before is not None:
        query = query.where(episodes.c.told_at < before)
    query = query.order_by(episodes.c.told_at.desc(), episodes.c.seq.desc()).limit(limit)
    return [episode_of(row) for row in reversed(tx.connection.execute(query).mappings().all())]


def pending_episodes(tx: Transaction, scope: Scope, limit: int = 1000) -> list[Episode]:
    """Those that wait to be extracted, in the order of keeping."""
    check_limit(limit)
    query = select(episodes).where(_within(scope), episodes.c.pending == 1, episodes.c.hidden == 0)
    query = query.order_by(episodes.c.seq).limit(limit)
    return [episode_of(row) for row in tx.connection.execute(query).mappings()]


def mark_extracted(tx: Transaction, ids: Sequence[str]) -> None:
    """They no longer wait."""
    _set(tx.connection, ids, pending=0)


def hide_episodes(tx: Transaction, ids: Sequence[str], hidden: bool = True) -> None:
    """Hide or show."""
    _set(tx.connection, ids, hidden=int(hidden))


def _set(connection: Connection, ids: Sequence[str], **values: Any) -> None:
    for some in chunks(ids):
        connection.execute(update(episodes).where(episodes.c.id.in_(some)).values(**values))
