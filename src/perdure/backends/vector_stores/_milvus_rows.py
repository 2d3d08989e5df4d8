"""What a row looks like in Milvus: the schema of a collection, rows into it and back, names that it accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pymilvus import CollectionSchema, DataType, MilvusClient  # type: ignore[import-untyped]  # it has no types
from pymilvus.milvus_client.index import IndexParams  # type: ignore[import-untyped]  # it has no types

from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._documents import Document, Row, decode
from perdure.backends.vector_stores._facets import moment_mark, number_mark
from perdure.backends.vector_stores._milvus_filter import NO_TIME, TOO_LONG, scope_text, time_field
from perdure.backends.vector_stores._names import digest
from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

PROPERTY = "perdure"
"""The property of a collection that tells its true name, dimension and model."""
PREFIX = "perdure_"

MAX_TEXT = 65_535
"""Bytes in a VARCHAR."""
MAX_PARTS = 32
"""VARCHARs that one record is spread over."""
MAX_TOKENS = 4096
"""Elements of an ARRAY."""
MAX_RANGES = 1000
"""Numbers and dates of one row's metadata: a JSON field has 64 KB."""
_BATCH_BYTES = 4_000_000
_BATCH_ROWS = 1000

_INDEXED_TIMES = ("created_at", "expires_at", "valid_to")


def physical_name(name: str) -> str:
    """The collection that a name means: what is readable of it and a digest, since Milvus allows few characters."""
    slug = re.sub(r"[^A-Za-z0-9_]", "_", name)[:60]
    return f"{PREFIX}{slug}_{digest(name, 6)}"


def key_of(id: str) -> str:
    """The primary key of a row: ids are of any length and alphabet, keys are not."""
    return digest(id, 16)


# ------------------------------------------------------------------ collections


def properties_of(name: str, shape: Shape) -> dict[str, str]:
    """What a collection says of itself."""
    return {PROPERTY: json.dumps({"name": name, "dimension": shape.dimension, "model": shape.model})}


def told_of(description: Mapping[str, Any]) -> tuple[str, Shape] | None:
    """The true name and the shape of a described collection; None if it is not ours."""
    try:
        told = json.loads(description["properties"][PROPERTY])
        return str(told["name"]), Shape(int(told["dimension"]), str(told["model"]))
    except (KeyError, TypeError, ValueError):
        return None


def schema_of(dimension: int) -> CollectionSchema:
    """The fields of a collection; the user is its partition key (V81)."""
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=32)
    for name in SCOPE_FIELDS:
        schema.add_field(name, DataType.VARCHAR, max_length=200, is_partition_key=name == "user_id")
    schema.add_field("bare", DataType.BOOL)
    schema.add_field("tokens", DataType.ARRAY, element_type=DataType.VARCHAR, max_length=20, max_capacity=MAX_TOKENS)
    for name in sorted(TIME_FIELDS):
        schema.add_field(time_field(name), DataType.INT64)
    schema.add_field("ranges", DataType.JSON)
    schema.add_field("memory", DataType.VARCHAR, max_length=MAX_TEXT)
    parts = {"element_type": DataType.VARCHAR, "max_length": MAX_TEXT, "max_capacity": MAX_PARTS}
    schema.add_field("record", DataType.ARRAY, **parts)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    return schema


def indexes_of(kind: str, *, lite: bool) -> dict[str, IndexParams]:
    """The indexes of a collection by their names; Milvus Lite indexes no arrays, and gains nothing by more than one."""
    vector = {"index_type": kind, "metric_type": "IP", "params": {}}
    if kind == "HNSW":
        vector["params"] = {"M": 16, "efConstruction": 200}
    wanted: dict[str, dict[str, Any]] = {"vector": vector}
    times = [time_field(name) for name in _INDEXED_TIMES]
    inverted = ["user_id"] if lite else [*SCOPE_FIELDS, "bare", "tokens", *times]
    wanted.update({name: {"index_type": "INVERTED"} for name in inverted})
    found = {}
    for name, how in wanted.items():
        found[name] = MilvusClient.prepare_index_params()
        found[name].add_index(name, index_name=name, **how)
    return found


# ------------------------------------------------------------------ rows


def entity(document: Document, dimension: int) -> dict[str, Any]:
    """The document as Milvus keeps it; InvalidInputError names the limit that it breaks."""
    _check(document)
    times = {time_field(name): document.moments.get(name, NO_TIME) for name in TIME_FIELDS}
    ranges: dict[str, float] = {number_mark(path): number for path, number in document.numbers.items()}
    ranges.update({moment_mark(path): when for path, when in document.moments.items() if path not in TIME_FIELDS})
    text = document.memory
    vector = np.zeros(dimension, np.float32) if document.vector is None else document.vector
    return {
        "pk": key_of(document.id),
        **{name: scope_text(document.scope[name]) if name in document.scope else "" for name in SCOPE_FIELDS},
        "bare": document.vector is None,
        "tokens": document.tokens,
        **times,
        "ranges": ranges,
        "memory": text if len(text.encode()) <= MAX_TEXT else TOO_LONG,
        "record": [document.record[start : start + MAX_TEXT] for start in range(0, len(document.record), MAX_TEXT)],
        "vector": vector,
    }


def _check(document: Document) -> None:
    if len(document.record) > MAX_TEXT * MAX_PARTS:
        raise InvalidInputError(
            f"a memory with all its fields may have {MAX_TEXT * MAX_PARTS} characters of JSON in milvus, "
            f"not {len(document.record)}",
            field="payload",
        )
    if len(document.tokens) > MAX_TOKENS:
        raise InvalidInputError(
            f"a memory may have {MAX_TOKENS} different words and values in milvus, not {len(document.tokens)}",
            field="payload",
        )
    if len(document.numbers) + len(document.moments) > MAX_RANGES:
        raise InvalidInputError(
            f"a memory may have {MAX_RANGES} numbers and dates in milvus, "
            f"not {len(document.numbers) + len(document.moments)}",
            field="payload",
        )


def batches(entities: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Entities in requests of a size that every server takes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for each in entities:
        own = 2 * sum(map(len, each["record"])) + 24 * len(each["tokens"]) + each["vector"].nbytes
        if batch and (size + own > _BATCH_BYTES or len(batch) == _BATCH_ROWS):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += own
    if batch:
        yield batch


def row_of(found: Mapping[str, Any]) -> Row:
    """The row of an entity that was read."""
    return decode("".join(found["record"]), found.get("vector"))
