"""Rows as Pinecone keeps them: a record of values and flat metadata, of a bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perdure.backends.vector_stores._documents import Document, Row, decode
from perdure.backends.vector_stores._names import digest
from perdure.backends.vector_stores._pinecone_filter import NO_MOMENT, NO_TEXT, ROW, TOKENS, is_plain
from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

Record = dict[str, Any]

BEACON = "beacon"
"""The id of a record that is no row; writing it tells when what was written before can be read."""

MOST_METADATA = 40_960
"""Bytes of metadata in a record (40 KB)."""
_MOST_RECORDS = 1_000
_MOST_BYTES = 2_000_000
"""What one request may hold."""
_EPSILON = 1e-20
"""Stands for zero: Pinecone refuses vectors of zeros."""


def record_id(id: str) -> str:
    """The id of a row's record: Pinecone takes ASCII only."""
    return digest(id, 16)


def record_of(document: Document, dimension: int) -> Record:
    """The record of a document; InvalidInputError if it is larger than Pinecone takes."""
    metadata: dict[str, Any] = {"record": document.record, TOKENS: [ROW, *document.tokens]}
    for name in SCOPE_FIELDS:
        text = document.scope.get(name, "")
        metadata[name] = text if is_plain(text) else NO_TEXT
    for name in TIME_FIELDS:
        metadata[name] = float(document.moments[name]) if name in document.moments else NO_MOMENT
    size = len(json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MOST_METADATA:
        raise InvalidInputError(
            f"the row {document.id[:80]!r} takes {size} bytes with its text, metadata and words, and Pinecone keeps "
            f"{MOST_METADATA} bytes (40 KB) of each row",
            field="payload",
            value=None,
        )
    if document.vector is not None and document.vector.any():
        values = document.vector.tolist()
    else:
        values = somewhere(dimension)
        values[0] = _EPSILON
    return {"id": record_id(document.id), "values": values, "metadata": metadata}


def somewhere(dimension: int) -> list[float]:
    """Any vector."""
    return [1.0, *[0.0] * (dimension - 1)]


def row_of(metadata: Mapping[str, Any] | None, values: Sequence[float] | None) -> Row:
    """The row of a record; with its vector where its values are given."""
    assert metadata is not None, "rows are always asked for with their metadata"
    return decode(str(metadata["record"]), values)


def batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in as few requests as Pinecone allows."""
    batch: list[Record] = []
    held = 0
    for record in records:
        size = len(json.dumps(record).encode())
        if batch and (len(batch) == _MOST_RECORDS or held + size > _MOST_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(record)
        held += size
    if batch:
        yield batch
