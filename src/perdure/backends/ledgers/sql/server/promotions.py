"""Promotions: each stands as its team last saw it, and changes only from exactly that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, insert, select, update

from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import Row, check_limit, chunks, decode, encode
from perdure.backends.ledgers.sql.tables import after_id, promotions, take_numbers
from perdure.domain.errors import InvalidInputError
from perdure.domain.promotion import Promotion, Vote

_PLAIN = (
    "id",
    "team",
    "item_id",
    "status",
    "from_level",
    "target_level",
    "justification",
    "requested_by",
    "created_at",
    "decided_at",
)


def put(tx: Transaction, promotion: Promotion, was: Promotion | None = None) -> bool:
    """Keep a new promotion, or the next state of one that still stands as it was."""
    if was is None:
        if tx.connection.execute(select(promotions.c.id).where(promotions.c.id == promotion.id)).first() is not None:
            return False
        row = {**_row(promotion), "seq": take_numbers(tx.connection, "desk", 1)[0]}
        tx.connection.execute(insert(promotions), row)
        return True
    if (promotion.id, promotion.team) != (was.id, was.team):
        raise InvalidInputError(
            f"a promotion keeps its id and its team: {was.id!r} of {was.team!r}, not {promotion.id!r} of "
            f"{promotion.team!r}",
            field="promotion",
            value=promotion.id,
        )
    if get(tx, was.id, was.team) != was:
        return False
    tx.connection.execute(update(promotions).where(promotions.c.id == was.id).values(_row(promotion)))
    return True


def _row(promotion: Promotion) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(promotion, name) for name in _PLAIN}
    row["votes"] = encode([asdict(vote) for vote in promotion.votes], "votes")
    return row


def _promotion(row: Row) -> Promotion:
    votes = tuple(Vote(**vote) for vote in decode(row["votes"]))
    return Promotion(**{name: row[name] for name in _PLAIN}, votes=votes)


def get(tx: Transaction, id: str, team: str) -> Promotion | None:
    """One promotion, where it is this team's."""
    query = select(promotions).where(promotions.c.id == id, promotions.c.team == team)
    row = tx.connection.execute(query).mappings().first()
    return None if row is None else _promotion(row)


def page(
    tx: Transaction,
    team: str,
    *,
    status: str | None = None,
    item_id: str | None = None,
    limit: int = 100,
    after: str = "",
) -> list[Promotion]:
    """One page of a team's promotions."""
    check_limit(limit)
    query = select(promotions).where(promotions.c.team == team, *after_id(tx.connection, promotions, team, after))
    if status is not None:
        query = query.where(promotions.c.status == status)
    if item_id is not None:
        query = query.where(promotions.c.item_id == item_id)
    return [_promotion(row) for row in tx.connection.execute(query.order_by(promotions.c.seq).limit(limit)).mappings()]


# ---------------------------------------------------------------------- erasure
def worded(connection: Connection, item_ids: Sequence[str]) -> list[Promotion]:
    """Promotions of these memories in which somebody has said something."""
    found = []
    for some in chunks(item_ids):
        query = select(promotions).where(promotions.c.item_id.in_(some)).order_by(promotions.c.seq)
        found += [_promotion(row) for row in connection.execute(query).mappings()]
    return [each for each in found if each.justification or any(vote.note is not None for vote in each.votes)]


def redact(connection: Connection, item_ids: Sequence[str]) -> int:
    """Take away what was said for and against moving memories that are erased: it may repeat them; how many."""
    found = worded(connection, item_ids)
    for each in found:
        silent = replace(each, justification="", votes=tuple(replace(vote, note=None) for vote in each.votes))
        connection.execute(update(promotions).where(promotions.c.id == each.id).values(_row(silent)))
    return len(found)
