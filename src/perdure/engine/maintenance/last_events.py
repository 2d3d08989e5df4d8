"""The last history event of every memory: the digest of its text, deleted, or erased."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass

from perdure.backends.ledgers.base import Ledger
from perdure.domain.event import HistoryRecord
from perdure.domain.scope import Scope
from perdure.engine.core.access import UNRESTRICTED

PAGE = 500  # records read at a time
FEW = 100  # memories whose histories are read one by one; for more, the whole ledger is read
DELETED = b"deleted"
UNREADABLE = b"erased"


@dataclass(slots=True)
class Last:
    """The last history record of a memory: the digest of a text, or that it is gone."""

    moment: tuple[str, int]
    says: bytes


def last_word(records: Iterable[HistoryRecord]) -> bytes | None:
    """Return the state after the last record: a digest, deleted or unreadable; None without records."""
    last = max(records, key=lambda record: (record.timestamp, record.sequence), default=None)
    return None if last is None else _says(last)


async def last_words(ledger: Ledger) -> dict[str, bytes]:
    """Return the state of every memory after its last record."""
    return {id: last.says for id, last in (await _lasts(ledger)).items()}


async def forgotten(ledger: Ledger, ids: Collection[str]) -> set[str]:
    """Return those of these memories that were erased and not stored again since."""
    last: dict[str, HistoryRecord] = {}
    async for records in _histories(ledger, ids) if len(ids) <= FEW else history_pages(ledger):
        for record in records:
            known = last.get(record.memory_id)
            if record.memory_id in ids and (known is None or moment_of(known) < moment_of(record)):
                last[record.memory_id] = record
    return {id for id, record in last.items() if record.erased}


async def _histories(ledger: Ledger, ids: Collection[str]) -> AsyncIterator[list[HistoryRecord]]:
    for id in ids:
        yield await ledger.history(id)


async def live_ids(ledger: Ledger) -> list[str]:
    """Return the memories that exist according to history, with a readable text."""
    last = await _lasts(ledger)
    known = [id for id, each in last.items() if each.says not in (DELETED, UNREADABLE)]
    replaced = await replaced_at(ledger) if known else {}
    return [id for id in known if replaced.get(id, ("", 0)) <= last[id].moment]


async def _lasts(ledger: Ledger) -> dict[str, Last]:
    last: dict[str, Last] = {}
    async for records in history_pages(ledger):
        for record in records:
            note_last(last, record)
    return last


async def history_pages(ledger: Ledger, scope: Scope = UNRESTRICTED) -> AsyncIterator[list[HistoryRecord]]:
    """Yield the history of a scope, or all of it, by sequence, in pages."""
    after = 0
    while records := await ledger.events_of_scope(scope, PAGE, after):
        yield records
        after = records[-1].sequence


async def replaced_at(ledger: Ledger) -> dict[str, tuple[str, int]]:
    """Return when memories were replaced under a new id, by timestamp and sequence; no later record exists."""
    found: dict[str, tuple[str, int]] = {}
    async for records in history_pages(ledger):
        updates = {record.id: record for record in records if record.event == "UPDATE"}
        for id, change in (await ledger.events(list(updates))).items():
            if change.before is not None and change.before.id != change.memory_id:
                moment = moment_of(updates[id])
                found[change.before.id] = max(moment, found.get(change.before.id, moment))
    return found


def note_last(last: dict[str, Last], record: HistoryRecord) -> None:
    """Note the state after a record, unless a later record is known."""
    moment = moment_of(record)
    known = last.get(record.memory_id)
    if known is None or known.moment < moment:
        last[record.memory_id] = Last(moment, _says(record))


def _says(record: HistoryRecord) -> bytes:
    if record.event == "DELETE":
        return DELETED
    return UNREADABLE if record.erased else digest(record.new_value or "")


def moment_of(record: HistoryRecord) -> tuple[str, int]:
    """Return the record's position in the order of history."""
    return record.timestamp, record.sequence


def digest(text: str) -> bytes:
    """Return a digest that compares texts without storing them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]
