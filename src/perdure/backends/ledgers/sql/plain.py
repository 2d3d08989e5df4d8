"""What opening, a first search and closing ask of a ledger, in plain SQL: SQLAlchemy takes 0.3 s to import.

SQLite and PostgreSQL understand every statement here. `:name` stands for a value.
"""

from __future__ import annotations

import json
from typing import Any

from perdure.backends.ledgers.base import Ledger, Mark
from perdure.backends.ledgers.repositories.base import Settings
from perdure.backends.ledgers.sql.units import Ask, Writer, asks
from perdure.domain.scope import Scope

HEAD = "0005"
"""The newest migration: what a ledger must be at to be used."""

SCRUB = "scrub"
"""The mark that stands while erased text may still be in the bytes of the files."""

SETTINGS_PREFIX = "settings:"
"""What the marks of settings begin with; marks of other uses have no prefix."""


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def scope_key(scope: Scope) -> str:
    """The scope as canonical JSON: equal text for equal scopes."""
    return _encode(scope.given())


def scope_of_key(key: str) -> Scope:
    """The scope behind its canonical JSON."""
    return Scope(**json.loads(key))


def scrub_wanted(ask: Ask) -> str | None:
    """The value of the mark of a scrub that was put off, if it is up."""
    return _mark(ask, SCRUB)


def _mark(ask: Ask, name: str) -> str | None:
    rows = ask("SELECT value FROM marks WHERE name = :name", name=name)
    return None if not rows else str(rows[0][0])


@asks(Settings.get)
def get_settings(ask: Ask, _writer: Writer, name: str) -> dict[str, Any]:
    """The values under a name."""
    text = _mark(ask, SETTINGS_PREFIX + name)
    found: dict[str, Any] = {} if text is None else json.loads(text)
    return found


@asks(Ledger.may_have_pending)
def may_have_pending(ask: Ask, writer: Writer, store_identity: str) -> bool:
    """Whether there is an entry that is not applied, or was applied before the machine started."""
    if ask("SELECT 1 FROM journal WHERE store_identity = :store AND state = 'written' LIMIT 1", store=store_identity):
        return True
    lost = """
        SELECT 1 FROM journal
        WHERE store_identity = :store AND state = 'applied' AND (boot_id <> :boot OR boot_id = '') LIMIT 1
    """
    return bool(ask(lost, store=store_identity, boot=writer.boot_id))


@asks(Ledger.unsynced)
def unsynced(ask: Ask, _writer: Writer, store_identity: str) -> list[str]:
    """Batches that are applied, in the order of their writing."""
    query = """
        SELECT batch_id FROM journal
        WHERE store_identity = :store AND state = 'applied' GROUP BY batch_id ORDER BY min(sequence)
    """
    return [batch for (batch,) in ask(query, store=store_identity)]


def marks_of_now(ask: Ask) -> tuple[Mark, Mark]:
    """How far numbers have been given, and how far everything that they were given for can be seen."""
    rows = ask("SELECT name, value FROM counters WHERE name IN ('change', 'episode')")
    values = {name: int(value) for name, value in rows}
    given = Mark(values.get("change", 0), values.get("episode", 0))
    ((first,),) = ask("SELECT min(sequence) FROM journal WHERE state = 'written'")
    if first is None:
        return given, given
    # Its history may become visible after that of later numbers.
    return given, Mark(min(given.change, first - 1), given.episode)
