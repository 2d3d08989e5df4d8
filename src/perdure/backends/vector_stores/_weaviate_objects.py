"""Documents as objects of Weaviate, and its answers as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import numpy as np
from weaviate.proto.v1 import base_pb2, batch_pb2, search_get_pb2

from perdure.backends.vector_stores._documents import Document, Row, decode
from perdure.backends.vector_stores._names import digest
from perdure.backends.vector_stores._weaviate_schema import (
    MEMORY,
    RANGED,
    RECORD,
    SLOT,
    STEMS,
    TOKENS,
    VECTOR,
    fits_keyword,
)
from perdure.backends.vector_stores.base import Vector

MOST_OBJECTS = 500
MOST_BYTES = 16 * 2**20
"""Of one request to write; a server takes 100 MiB, unless it was told otherwise."""

_LONGEST_STEM = 100


def uuid_of(id: str) -> str:
    """The uuid under which a row is kept: Weaviate takes no other ids."""
    return str(UUID(digest(id, 16)))


def keyword(stem: str) -> str:
    """A stem as Weaviate keeps it: a text without spaces can be a megabyte, which is too long for a key."""
    return stem if len(stem) <= _LONGEST_STEM else digest(stem, 10)


def packed(vector: Vector) -> base_pb2.Vectors:
    """A vector as requests carry it."""
    kind = base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32
    return base_pb2.Vectors(name=VECTOR, vector_bytes=vector.astype("<f4").tobytes(), type=kind)


def vector_bytes(vectors: Sequence[base_pb2.Vectors]) -> bytes:
    """An object's one vector as its bytes, b"" without one."""
    return vectors[0].vector_bytes if vectors else b""


def object_of(document: Document, name: str) -> batch_pb2.BatchObject:
    """A document as an object of a class."""
    key = UUID(digest(document.id, 16))
    fields: dict[str, str | float] = {RECORD: document.record, MEMORY: document.memory}
    fields[STEMS] = " ".join(map(keyword, document.stems))
    fields[SLOT] = int.from_bytes(key.bytes[:6])
    fields.update((field, text) for field, text in document.scope.items() if fits_keyword(text))  # else tokens find it
    for path, kind in RANGED.items():
        value = (document.numbers if kind == "number" else document.moments).get(path)
        if value is not None:
            fields[path] = value
    tokens = [base_pb2.TextArrayProperties(prop_name=TOKENS, values=document.tokens)] if document.tokens else []
    made = batch_pb2.BatchObject(
        collection=name,
        uuid=str(key),
        properties=batch_pb2.BatchObject.Properties(text_array_properties=tokens),
        vectors=[] if document.vector is None else [packed(document.vector)],
    )
    made.properties.non_ref_properties.update(fields)
    return made


def batches(objects: Sequence[batch_pb2.BatchObject]) -> Iterator[list[batch_pb2.BatchObject]]:
    """The objects in requests of a size that a server takes."""
    batch: list[batch_pb2.BatchObject] = []
    size = 0
    for one in objects:
        length = one.ByteSize()
        if batch and (len(batch) >= MOST_OBJECTS or size + length > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


def row_of(found: search_get_pb2.SearchResult) -> Row:
    """The row of a result that was asked for its record, and maybe for its vector."""
    record = found.properties.non_ref_props.fields[RECORD].text_value
    vectors = found.metadata.vectors
    return decode(record, np.frombuffer(vectors[0].vector_bytes, "<f4") if vectors else None)
