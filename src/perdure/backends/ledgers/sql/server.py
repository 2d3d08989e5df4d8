"""A server's repositories: API keys, promotions, the audit, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, delete, insert, or_, select, update

from perdure.backends.ledgers.repositories.base import Audit, Keys, Promotions, Settings
from perdure.backends.ledgers.sql import units
from perdure.backends.ledgers.sql.tables import (
    Row,
    api_keys,
    audit,
    check_limit,
    columns_of,
    count_rows,
    decode,
    encode,
    fields_of,
    insert_new,
    marks,
    moment_of,
    promotions,
    row_of,
    rows_with,
    take_numbers,
)
from perdure.domain.access import ApiKey, AuditEntry, Promotion, Vote
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError

# API keys: each name has one key that stands, and a key that was revoked stays in the list.

_KEY = ("id", "name", "digest", "hint", "role")
_STANDS = api_keys.c.revoked_at.is_(None)


@units.writes(Keys.add)
def add_key(tx: units.Transaction, key: ApiKey) -> None:
    """Insert a key; of two concurrent ones with one name the second fails, because writers take turns."""
    taken = select(api_keys.c.id).where(_STANDS, api_keys.c.name == key.name)
    if tx.connection.execute(taken).first() is not None:
        raise ConflictError(f"there is a key named {key.name!r} already: revoke it first, or choose another name")
    known = select(api_keys.c.id).where(or_(api_keys.c.id == key.id, api_keys.c.digest == key.digest))
    if tx.connection.execute(known).first() is not None:
        raise ConflictError(f"the key {key.name!r} has the id or the secret of an earlier one: make a fresh key")
    row: dict[str, Any] = fields_of(key, _KEY)
    row["seq"] = take_numbers(tx.connection, "desk", 1)[0]
    row["walls"] = units.scope_key(key.walls)
    row["created_at"] = moment_of(key.created_at, "created_at") if key.created_at else tx.now
    row["revoked_at"] = moment_of(key.revoked_at, "revoked_at") if key.revoked_at else None
    tx.connection.execute(insert(api_keys), row)


def _key(row: Row) -> ApiKey:
    return ApiKey(**columns_of(row, (*_KEY, "created_at", "revoked_at")), walls=units.scope_of_key(row["walls"]))


@units.reads(Keys.find)
def find_key(tx: units.Transaction, digest: str) -> ApiKey | None:
    row = row_of(tx.connection, api_keys, _STANDS, api_keys.c.digest == digest)
    return None if row is None else _key(row)


@units.reads(Keys.list)
def list_keys(tx: units.Transaction) -> list[ApiKey]:
    return [_key(row) for row in tx.connection.execute(select(api_keys).order_by(api_keys.c.seq)).mappings()]


@units.writes(Keys.revoke)
def revoke_key(tx: units.Transaction, name_or_id: str, at: str) -> ApiKey:
    """Revoke a key, found by id before name."""
    moment = moment_of(at, "at")
    for column in (api_keys.c.id, api_keys.c.name):
        row = row_of(tx.connection, api_keys, _STANDS, column == name_or_id)
        if row is not None:
            tx.connection.execute(update(api_keys).where(api_keys.c.id == row["id"]).values(revoked_at=moment))
            return _key({**row, "revoked_at": moment})
    raise NotFoundError(f"there is no key {name_or_id!r}, or it is revoked already")


@units.reads(Keys.any)
def any_key(tx: units.Transaction) -> bool:
    return count_rows(tx.connection, api_keys) > 0


# Promotions, updated by compare-and-set, and the audit, whose lines never change; both are listed by page.


def _page(
    tx: units.Transaction, table: Table, team: str, limit: int, after: str, **wanted: str | None
) -> Iterable[RowMapping]:
    """Return a team's rows after an id with the wanted values, in order."""
    check_limit(limit)
    query = select(table).where(table.c.team == team)
    if after:
        found = select(table.c.seq).where(table.c.id == after, table.c.team == team)
        number = tx.connection.execute(found).scalar()
        if number is None:
            raise InvalidInputError(
                f"after must be an id of an earlier page, not {after!r}", field="after", value=after
            )
        query = query.where(table.c.seq > number)
    query = query.where(*(table.c[name] == value for name, value in wanted.items() if value is not None))
    return tx.connection.execute(query.order_by(table.c.seq).limit(limit)).mappings()


_PROMOTION = ("id", "team", "item_id", "status", "from_level", "target_level", "justification", "requested_by",
              "created_at", "decided_at")  # fmt: skip


@units.writes(Promotions.put)
def put_promotion(tx: units.Transaction, promotion: Promotion, was: Promotion | None = None) -> bool:
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
    if get_promotion(tx, was.id, was.team) != was:
        return False
    tx.connection.execute(update(promotions).where(promotions.c.id == was.id).values(_row(promotion)))
    return True


def _row(promotion: Promotion) -> dict[str, Any]:
    return {**fields_of(promotion, _PROMOTION), "votes": encode([asdict(vote) for vote in promotion.votes], "votes")}


def _promotion(row: Row) -> Promotion:
    votes = tuple(Vote(**vote) for vote in decode(row["votes"]))
    return Promotion(**columns_of(row, _PROMOTION), votes=votes)


@units.reads(Promotions.get)
def get_promotion(tx: units.Transaction, id: str, team: str) -> Promotion | None:
    row = row_of(tx.connection, promotions, promotions.c.id == id, promotions.c.team == team)
    return None if row is None else _promotion(row)


@units.reads(Promotions.list)
def list_promotions(
    tx: units.Transaction,
    team: str,
    *,
    status: str | None = None,
    item_id: str | None = None,
    limit: int = 100,
    after: str = "",
) -> list[Promotion]:
    page = _page(tx, promotions, team, limit, after, status=status, item_id=item_id)
    return [_promotion(row) for row in page]


def worded_promotions(connection: Connection, item_ids: Sequence[str]) -> list[Promotion]:
    """Return promotions of these memories with words in their votes."""
    rows = rows_with(connection, select(promotions).order_by(promotions.c.seq), promotions.c.item_id, item_ids)
    found = [_promotion(row) for row in rows]
    return [each for each in found if each.justification or any(vote.note is not None for vote in each.votes)]


def redact_promotions(connection: Connection, item_ids: Sequence[str]) -> int:
    """Remove the words in votes about erased memories, which they may repeat; return how many promotions."""
    found = worded_promotions(connection, item_ids)
    for each in found:
        silent = replace(each, justification="", votes=tuple(replace(vote, note=None) for vote in each.votes))
        connection.execute(update(promotions).where(promotions.c.id == each.id).values(_row(silent)))
    return len(found)


_ENTRY = ("id", "at", "team", "actor", "action", "subject_id")


@units.writes(Audit.add)
def add_entries(tx: units.Transaction, entries: Sequence[AuditEntry]) -> None:
    if not entries:
        return
    numbers = take_numbers(tx.connection, "desk", len(entries))
    rows = [
        {**fields_of(entry, _ENTRY), "seq": number, "details": encode(entry.details, "details")}
        for entry, number in zip(entries, numbers, strict=True)
    ]
    tx.connection.execute(insert_new(tx.connection, audit), rows)


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(**columns_of(row, _ENTRY), details=decode(row["details"]))


@units.reads(Audit.list)
def list_entries(
    tx: units.Transaction, team: str, *, subject_id: str | None = None, limit: int = 100, after: str = ""
) -> list[AuditEntry]:
    return [_entry(row) for row in _page(tx, audit, team, limit, after, subject_id=subject_id)]


# Settings that people change while a service runs: marks of the ledger, each an object of JSON.


@units.writes(Settings.merge)
def merge_settings(tx: units.Transaction, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    take_numbers(tx.connection, "desk", 1)  # for its row makes writers take turns
    merged = {
        key: value
        for key, value in {**units.get_settings(units.asking_on(tx.connection), tx.writer, name), **values}.items()
        if value is not None
    }
    text = encode(merged, "settings")
    tx.connection.execute(delete(marks).where(marks.c.name == units.SETTINGS_PREFIX + name))
    tx.connection.execute(insert(marks), {"name": units.SETTINGS_PREFIX + name, "value": text})
    return merged
