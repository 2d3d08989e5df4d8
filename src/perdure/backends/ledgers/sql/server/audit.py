"""The audit: lines are added, and never changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from perdure.backends.ledgers.sql.context import Transaction
from perdure.backends.ledgers.sql.rows import Row, check_limit, decode, encode
from perdure.backends.ledgers.sql.tables import after_id, audit, insert_new, take_numbers
from perdure.domain.access import AuditEntry

_PLAIN = ("id", "at", "team", "actor", "action", "subject_id")


def add(tx: Transaction, entries: Sequence[AuditEntry]) -> None:
    """Write lines whose ids are not known."""
    if not entries:
        return
    numbers = take_numbers(tx.connection, "desk", len(entries))
    rows = [
        {name: getattr(entry, name) for name in _PLAIN} | {"seq": number, "details": encode(entry.details, "details")}
        for entry, number in zip(entries, numbers, strict=True)
    ]
    tx.connection.execute(insert_new(tx.connection, audit), rows)


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(**{name: row[name] for name in _PLAIN}, details=decode(row["details"]))


def page(
    tx: Transaction, team: str, *, subject_id: str | None = None, limit: int = 100, after: str = ""
) -> list[AuditEntry]:
    """One page of a team's lines."""
    check_limit(limit)
    query = select(audit).where(audit.c.team == team, *after_id(tx.connection, audit, team, after))
    if subject_id is not None:
        query = query.where(audit.c.subject_id == subject_id)
    return [_entry(row) for row in tx.connection.execute(query.order_by(audit.c.seq).limit(limit)).mappings()]
