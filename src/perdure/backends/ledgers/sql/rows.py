"""What the ledger's rows hold and what they mean: pure translation, no database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from perdure.backends.ledgers.base import JournalEntry, Vector
from perdure.domain.clock import iso, parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Change, Episode, HistoryRecord
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import SCOPE_FIELDS, Scope

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ENCODE_STRICTLY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_ITEMS = ("before", "after", "keep")
_PLAIN = ("id", "event", "memory_id", "at", "told_at", "actor", "reason", "confidence", "undoes")
_LISTS = ("sources", "hides")
_FLOAT32 = np.dtype("<f4")


class Row(Protocol):
    """A row that answers to the names of its columns."""

    def __getitem__(self, column: str, /) -> Any: ...


def encode(value: Any, field: str) -> str:
    """The value as JSON; InvalidInputError names the field if it is none."""
    try:
        return _ENCODE_STRICTLY(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{field} must be JSON: {error}", field=field, value=None) from None


def decode(text: str) -> Any:
    """The value behind its JSON."""
    return json.loads(text)


def moment_of(value: str, field: str) -> str:
    """The moment as fixed-width text, by which it is compared; InvalidInputError names the field if it is none."""
    return iso(parse_moment(value, field))


def scope_key(scope: Scope) -> str:
    """The scope as canonical JSON: equal text for equal scopes."""
    return _ENCODE(scope.given())


def scope_of_key(key: str) -> Scope:
    """The scope behind its canonical JSON."""
    return Scope(**json.loads(key))


def scope_columns(scope: Scope) -> dict[str, str | None]:
    """The value of each axis, None where it was not given."""
    return {name: getattr(scope, name) for name in SCOPE_FIELDS}


def scope_of_row(row: Row) -> Scope:
    """The scope behind a row's columns."""
    return Scope(**{name: row[name] for name in SCOPE_FIELDS})


def change_to_json(change: Change) -> str:
    """The change with whole payloads, from which it can be made again."""
    fields: dict[str, Any] = {name: getattr(change, name) for name in _PLAIN}
    for name in _LISTS:
        fields[name] = getattr(change, name)
    for name in _ITEMS:
        item: MemoryItem | None = getattr(change, name)
        if item is not None:
            fields[name] = item.to_payload()
    return _ENCODE(fields)


def change_from_json(text: str) -> Change:
    """The change that `change_to_json` wrote; fields that it does not know are ignored."""
    fields = json.loads(text)
    values = {name: fields[name] for name in _PLAIN if name in fields}
    for name in _LISTS:
        values[name] = tuple(fields.get(name, ()))
    for name in _ITEMS:
        if fields.get(name) is not None:
            values[name] = MemoryItem.from_payload(fields[name])
    return Change(**values)


def vector_to_bytes(vector: Vector | None) -> bytes | None:
    """The vector as little-endian float32."""
    return None if vector is None else np.ascontiguousarray(vector, dtype=_FLOAT32).tobytes()


def vector_from_bytes(data: bytes | None) -> Vector | None:
    """The vector behind little-endian float32 bytes, as an array of its own."""
    return None if data is None else np.frombuffer(data, dtype=_FLOAT32).astype(np.float32)


def journal_row(entry: JournalEntry, sequence: int, owner: str, boot: str, now: str) -> dict[str, Any]:
    """The row of a journal entry that is being written."""
    return {
        "sequence": sequence,
        "id": entry.change.id,
        "batch_id": entry.batch_id,
        "memory_id": entry.change.memory_id,
        "store_identity": entry.store_identity,
        "collection": entry.collection,
        "owner": owner,
        "boot_id": boot,
        "state": "written",
        "change": change_to_json(entry.change),
        "vector": vector_to_bytes(entry.vector),
        "keep_vector": vector_to_bytes(entry.keep_vector),
        "created_at": now,
        **scope_columns(entry.change.item.scope),
    }


def journal_entry(row: Row) -> JournalEntry:
    """The journal entry of a row."""
    return JournalEntry(
        change=change_from_json(row["change"]),
        batch_id=row["batch_id"],
        store_identity=row["store_identity"],
        collection=row["collection"],
        vector=vector_from_bytes(row["vector"]),
        keep_vector=vector_from_bytes(row["keep_vector"]),
        sequence=row["sequence"],
        owner=row["owner"],
        boot_id=row["boot_id"],
        state=row["state"],
        created_at=row["created_at"],
    )


def history_row(change: Change, sequence: int, timestamp: str, batch: str | None, json_text: str) -> dict[str, Any]:
    """The history row of a change (000 §5.2)."""
    return {
        "id": change.id,
        "memory_id": change.memory_id,
        "event": change.event,
        "old_value": None if change.before is None else change.before.memory,
        "new_value": None if change.after is None else change.after.memory,
        "timestamp": timestamp,
        "is_deleted": int(change.event == "DELETE"),
        **scope_columns(change.item.scope),
        "seq": sequence,
        "actor": change.actor,
        "reason": change.reason,
        "confidence": change.confidence,
        "told_at": change.told_at,
        "undoes": change.undoes,
        "batch": batch,
        "lineage_id": change.item.lineage_id,
        "erased": 0,
        "change": json_text,
    }


def foreign_history_row(record: HistoryRecord, sequence: int) -> dict[str, Any]:
    """The history row of a record from elsewhere: no change stands behind it, so it cannot be undone."""
    row: dict[str, Any] = dict.fromkeys(SCOPE_FIELDS)
    row.update({name: value for name, value in record.model_dump().items() if name != "sequence"})
    row.update(
        seq=sequence,
        is_deleted=int(record.is_deleted),
        erased=int(record.erased),
        batch=None,
        lineage_id=None,
        change=None,
    )
    return row


def history_record(row: Row) -> HistoryRecord:
    """The record of a history row."""
    return HistoryRecord(
        id=row["id"],
        memory_id=row["memory_id"],
        event=row["event"],
        old_value=row["old_value"],
        new_value=row["new_value"],
        timestamp=row["timestamp"],
        is_deleted=bool(row["is_deleted"]),
        **{name: row[name] for name in SCOPE_FIELDS},
        sequence=row["seq"],
        actor=row["actor"],
        reason=row["reason"],
        confidence=row["confidence"],
        told_at=row["told_at"],
        undoes=row["undoes"],
        erased=bool(row["erased"]),
    )


def episode_row(episode: Episode, sequence: int, batch: str | None) -> dict[str, Any]:
    """The row of an episode."""
    return {
        "id": episode.id,
        "seq": sequence,
        "add_id": episode.add_id,
        "position": episode.position,
        "role": episode.role,
        "name": episode.name,
        "content": episode.content,
        "message_id": episode.message_id,
        "told_at": episode.told_at,
        "created_at": episode.created_at,
        **{name: episode.scope.get(name) for name in SCOPE_FIELDS},
        "hidden": int(episode.hidden),
        "pending": int(episode.pending),
        "batch_id": batch,
    }


def episode_of(row: Row) -> Episode:
    """The episode of a row."""
    return Episode(
        id=row["id"],
        add_id=row["add_id"],
        position=row["position"],
        role=row["role"],
        name=row["name"],
        content=row["content"],
        message_id=row["message_id"],
        told_at=row["told_at"],
        created_at=row["created_at"],
        scope={name: row[name] for name in SCOPE_FIELDS if row[name] is not None},
        hidden=bool(row["hidden"]),
        pending=bool(row["pending"]),
    )


def chunks(values: Sequence[str], size: int = 500) -> list[Sequence[str]]:
    """The values in pieces that every database takes as one list of parameters."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def check_limit(limit: int) -> None:
    """InvalidInputError for a page that could hold nothing."""
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, not {limit!r}", field="limit", value=limit)
