"""Drafts: an agent's new memory, validated, before it becomes a row of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Vector
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.runtime import read_uuid
from perdure.domain.scope import Scope
from perdure.domain.text.readable import check_unicode, shown
from perdure.engine.requests import invalid
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.quarantine import suspect

DIGITS = 6  # decimals kept of a given vector's values
LONGEST_TABLE = 200  # maximum characters of a table's name
OWN_TABLES = frozenset({"summaries"})  # kinds of memories that only the engine creates
SPEAKERS = frozenset({"user", "assistant", "system", "tool"})  # roles of messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One new memory."""

    table: str
    scope: Scope
    text: str = ""
    content: dict[str, Any] = field(default_factory=dict)  # the keys of its content other than the text
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    created_at: str | None = None
    vector: Vector | None = None  # the caller's own; else the text is embedded
    unique: bool | None = None  # true: store it only if no similar one exists. None: the flag says whether one existed.

    def item(self, moment: str, *, unique: bool) -> MemoryItem:
        """Return the memory with this time."""
        created_at = self.created_at or moment
        return MemoryItem(
            id=self.id or new_id(),
            scope=self.scope,
            created_at=created_at,
            updated_at=moment,
            told_at=moment,
            valid_from=created_at,
            kind=self.table,
            role=self._role(),
            content=self.content,
            unique=unique,
            **says(self.text, self.table),
            **carries(self.metadata),
        )

    def _role(self) -> str:
        if self.table != "messages":
            return "memory"
        role = self.content.get("role")
        if role in SPEAKERS:
            return str(role)
        return "assistant" if self.scope.user_id is not None and self.scope.user_id == self.scope.agent_id else "user"


def says(text: str, table: str) -> dict[str, Any]:
    """Return the fields of a memory that follow from its text."""
    return {
        "memory": text,
        "hash": text_hash(text),
        "slots": read_slots(text) if table == "facts" else None,
        "confidence": 1.0,
        "origin": None,
        "quarantined": suspect(text, None),
    }


def carries(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory that follow from its metadata; fragments belong to a document."""
    document, position = document_of(metadata), metadata.get("position")
    return {
        "metadata": metadata,
        "meta_type": metadata.get("type") or None,
        "derived_from": () if document is None else (read_uuid(document, "documentId"),),
        "position": position if isinstance(position, int) and not isinstance(position, bool) else None,
    }


def document_of(metadata: Mapping[str, Any]) -> Any:
    """Return the id of the document that metadata names, in either case; None if it names none."""
    return next((metadata[name] for name in ("documentId", "document_id") if metadata.get(name) is not None), None)


def check_kind(metadata: Mapping[str, Any]) -> None:
    """Raise InvalidInputError if metadata lacks what its type requires: a fragment's `documentId` and `position`."""
    kind = metadata.get("type")
    if kind is not None and not isinstance(kind, str):
        raise invalid("metadata.type", "text", kind)
    if kind != "fragment":
        return
    document, position = document_of(metadata), metadata.get("position")
    if not isinstance(document, str) or not document:
        raise InvalidInputError(
            f"metadata.documentId of a fragment must be its document's id, not {shown(document)}",
            field="metadata.documentId",
            value=document,
        )
    if isinstance(position, bool) or not isinstance(position, int) or position < 0:
        raise InvalidInputError(
            f"metadata.position of a fragment must be a whole number from 0, not {shown(position)}",
            field="metadata.position",
            value=position,
        )


def read_table(value: object) -> str:
    """Read the name of a table: any text."""
    if value is None or value == "":
        raise InvalidInputError("tableName is required", field="tableName", value=value)
    if not isinstance(value, str) or len(value) > LONGEST_TABLE or not value.strip() or "\x00" in value:
        raise invalid("tableName", f"text of up to {LONGEST_TABLE} characters", value)
    return check_unicode(str(value), "tableName")


def read_own_table(value: object) -> str:
    """Read the name of a table that a caller may write to."""
    table = read_table(value)
    if table in OWN_TABLES:
        raise InvalidInputError(
            f"tableName {table!r} is for what perdure makes by itself: use another", field="tableName", value=table
        )
    return table


def read_vector(value: object, dimension: int, name: str = "embedding") -> Vector:
    """Read a caller's vector of the embedder's dimension, rounded to six decimals; InvalidInputError if not finite."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
        raise invalid(name, "a list of numbers", value)
    if len(value) != dimension:
        raise InvalidInputError(
            f"{name} must have {dimension} numbers, as the embedder's vectors have, not {len(value)}",
            field=name,
            value=len(value),
        )
    for place, number in enumerate(value):
        is_number = isinstance(number, (int, float, np.number)) and not isinstance(number, bool)
        if not is_number or not np.isfinite(np.float32(number)):
            raise InvalidInputError(
                f"{name}[{place}] must be a finite number, not {shown(number)}", field=f"{name}[{place}]", value=number
            )
    return np.round(np.asarray(value, dtype=np.float64), DIGITS).astype(np.float32)


def shown_vector(vector: Vector) -> list[float]:
    """Return a stored vector as callers see it: the given values, if they had at most six decimals."""
    return [round(float(number), DIGITS) for number in vector]
