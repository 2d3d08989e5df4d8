"""Namings: which turns, states and links name a message or a memory, so that its erasure finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlalchemy import Connection, delete, select

from perdure.backends.ledgers._rows import chunks
from perdure.backends.ledgers._tables import insert_new, namings

Place = Literal["turn", "state", "link"]


def name(connection: Connection, place: Place, owner_id: str, named: Sequence[str], number: int = 0) -> None:
    """Note what a place names."""
    rows = [{"named_id": id, "place": place, "owner_id": owner_id, "number": number} for id in dict.fromkeys(named)]
    if rows:
        connection.execute(insert_new(connection, namings), rows)


def unname(connection: Connection, places: Sequence[Place], owner_ids: Sequence[str]) -> None:
    """These places name nothing any more."""
    for some in chunks(owner_ids):
        connection.execute(delete(namings).where(namings.c.owner_id.in_(some), namings.c.place.in_(places)))


def naming(connection: Connection, place: Place, ids: Sequence[str]) -> list[str]:
    """The owners of such places that name one of the ids."""
    found: dict[str, None] = {}
    for some in chunks(ids):
        query = select(namings.c.owner_id).where(namings.c.named_id.in_(some), namings.c.place == place).distinct()
        found.update(dict.fromkeys(connection.execute(query.order_by(namings.c.owner_id)).scalars()))
    return list(found)


def turns_naming(connection: Connection, ids: Sequence[str]) -> list[tuple[str, int]]:
    """The turns that name one of the ids, by session and number."""
    found: dict[tuple[str, int], None] = {}
    for some in chunks(ids):
        query = select(namings.c.owner_id, namings.c.number).where(
            namings.c.named_id.in_(some), namings.c.place == "turn"
        )
        found.update(dict.fromkeys((row.owner_id, row.number) for row in connection.execute(query.distinct())))
    return list(found)


def forget(connection: Connection, ids: Sequence[str]) -> None:
    """Nothing names these ids any more."""
    for some in chunks(ids):
        connection.execute(delete(namings).where(namings.c.named_id.in_(some)))
