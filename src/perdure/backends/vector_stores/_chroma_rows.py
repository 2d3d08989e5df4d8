"""Rows and collections in Chroma's terms: ids, names and metadata.

A row's document is its record, because Chroma gives documents without the metadata, five times faster than with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perdure.backends.vector_stores._chroma_filter import TOKENS, is_plain, sortable, span_key
from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._documents import Document
from perdure.backends.vector_stores._facets import word_token
from perdure.backends.vector_stores._names import digest
from perdure.backends.vector_stores.base import Vector
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import SCOPE_FIELDS

PREFIX = "perdure."
"""What the names of our collections begin with in Chroma."""
IDENTITY = "perdure"
"""The collection whose metadata has the store's id."""
MARK = "perdure"
"""The metadata key of a collection's true name, dimension and model, as JSON in ASCII."""
ROW = "row"
"""A token that every row has: Chroma refuses empty lists."""

MOST_ENTRIES = 5_000
"""List entries, or keys, in one row's metadata. From 5,462 on Chroma can never read the collection again."""

_BATCH_ROWS = 500
_BATCH_BYTES = 8_000_000  # a server takes requests of 40 MB
_PLAIN_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{0,59}[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Record:
    """A row as Chroma is given it."""

    id: str
    vector: Vector
    metadata: dict[str, Any]
    document: str


def collection_name(name: str) -> str:
    """The name in Chroma: readable, and never that of another one, as plain names have no dot."""
    if _PLAIN_NAME.fullmatch(name):
        return PREFIX + name
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40]
    return f"{PREFIX}{slug or '_'}.{digest(json.dumps(name), 16)}"


def describe(name: str, shape: Shape) -> dict[str, str]:
    """The metadata of a collection."""
    return {MARK: json.dumps([name, shape.dimension, shape.model])}


def described(metadata: object) -> tuple[str, Shape] | None:
    """The true name and the shape of a collection, or None if it is not ours."""
    text = metadata.get(MARK) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        return None
    name, dimension, model = json.loads(text)
    return name, Shape(dimension, model)


def row_id(id: str) -> str:
    """The id in Chroma: the row's own where it is plain, else a digest, which no plain one looks like."""
    return id if _PLAIN_ID.fullmatch(id) else f"#{digest(json.dumps(id), 16)}"


def to_record(document: Document, dimension: int) -> Record:
    """What is written of a document; fields that it lacks are None, so that merging removes an older version's."""
    vector = np.zeros(dimension, np.float32) if document.vector is None else document.vector
    metadata: dict[str, Any] = {
        field: text if (text := document.scope.get(field)) is not None and is_plain(text) else None
        for field in SCOPE_FIELDS
    }
    metadata[TOKENS] = [ROW, *_tokens(document)]
    metadata |= {span_key("number", path): sortable(number) for path, number in document.numbers.items()}
    metadata |= {span_key("moment", path): moment for path, moment in document.moments.items()}
    if len(metadata) > MOST_ENTRIES:
        raise _too_many(document.id)
    return Record(row_id(document.id), vector, metadata, document.record)


def _tokens(document: Document) -> list[str]:
    """All tokens, or those of the fields and of the first words where they are too many."""
    tokens = document.tokens
    if len(tokens) <= MOST_ENTRIES:
        return tokens
    spoken = list(dict.fromkeys(map(word_token, document.stems)))
    words = set(spoken)
    fields = [token for token in tokens if token not in words]
    if len(fields) > MOST_ENTRIES:
        raise _too_many(document.id)
    return fields + spoken[: MOST_ENTRIES - len(fields)]


def _too_many(id: str) -> InvalidInputError:
    return InvalidInputError(
        f"the row {id!r} has more than {MOST_ENTRIES} values, which Chroma cannot keep: leave lists out of its "
        "metadata, or make them shorter",
        field="metadata",
        value=None,
    )


def batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in requests that a server takes."""
    batch: list[Record] = []
    size = 0
    for record in records:
        bytes_ = len(record.document) + 6 * record.vector.size + 26 * len(record.metadata[TOKENS])
        if batch and (len(batch) == _BATCH_ROWS or size + bytes_ > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += bytes_
    if batch:
        yield batch
