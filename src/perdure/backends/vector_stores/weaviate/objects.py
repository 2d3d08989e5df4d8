"""Documents as Weaviate objects, its answers as rows, and filters as messages of its gRPC API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal
from uuid import UUID

import numpy as np
from weaviate.proto.v1 import base_pb2, batch_pb2, search_get_pb2

from perdure.backends.shared.batches import bounded_batches
from perdure.backends.vector_stores.base import Shape, Vector
from perdure.backends.vector_stores.common.documents import Document, Row, decode, digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

# A collection as a class of Weaviate's schema, and what the class's description tells of it.
#
# Classes are made by consensus of the cluster, at once or not at all: so the description, which comes with them, is
# where the true name, the dimension and the model of a collection are kept, and the identity of the store.

VECTOR = "default"  # the name of the one vector of an object
RECORD, MEMORY, TOKENS, STEMS, SLOT = "record", "memory", "tokens", "stems", "slot"
RANGED: Mapping[str, Literal["number", "moment"]] = {
    **dict.fromkeys(sorted(TIME_FIELDS), "moment"),
    "importance": "number",
    "confidence": "number",
}
"""Fields whose order Weaviate compares, by path: kept as numbers, moments as microseconds since 1970."""

WHOLE_SCOPE = 2**31 - 1
"""Rows of a filter up to which Weaviate compares every vector instead of walking its graph: all that it can hold."""

_MARK = "perdure"


def class_prefix(namespace: str) -> str:
    """Return the common prefix of a namespace's classes, except the store's own class."""
    return f"{namespace.capitalize()}_"


def store_class(namespace: str) -> str:
    """Return the class without objects whose description is the store's identity."""
    return namespace.capitalize()


def class_name(namespace: str, collection: str) -> str:
    """Return a collection's class: readable, and unique however Weaviate treats case and signs."""
    slug = re.sub(r"[^a-z0-9]", "_", collection.lower())[:60]
    return f"{class_prefix(namespace)}{slug}_{digest(collection, 6)}"


def describe(**values: Any) -> str:
    return json.dumps({_MARK: 1, **values})


def described(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the content of a class's description, or None if the class is not ours."""
    try:
        values = json.loads(found.get("description") or "")
    except ValueError:
        return None
    return values if isinstance(values, dict) and values.get(_MARK) == 1 else None


def shape_of(found: Mapping[str, Any]) -> tuple[str, Shape] | None:
    """Return the true name and the shape of a class's collection, or None."""
    values = described(found)
    if values is None or not isinstance(values.get("name"), str) or not isinstance(values.get("dimension"), int):
        return None
    return values["name"], Shape(values["dimension"], str(values.get("model", "")))


def store_definition(name: str, identity: str) -> dict[str, Any]:
    return {"class": name, "description": describe(identity=identity), "vectorizer": "none", "properties": []}


def collection_definition(name: str, collection: str, shape: Shape) -> dict[str, Any]:
    """Return the class of a collection.

    Every search has a filter and compares each vector in it (see WHOLE_SCOPE), so the unused graph is as small as
    possible. Nothing is compressed, which would round scores.
    """
    index = {
        "distance": "dot",
        "flatSearchCutoff": WHOLE_SCOPE,
        "efConstruction": 4,
        "maxConnections": 4,
        "skipDefaultQuantization": True,
    }
    vector = {"vectorizer": {"none": {}}, "vectorIndexType": "hnsw", "vectorIndexConfig": index}
    return {
        "class": name,
        "description": describe(name=collection, dimension=shape.dimension, model=shape.model),
        "vectorConfig": {VECTOR: vector},
        "invertedIndexConfig": {"stopwords": {"preset": "none"}},
        "properties": [
            _property(RECORD),
            _property(MEMORY),
            _property(TOKENS, "text[]", filterable=True),
            _property(STEMS, searchable=True, tokenization="whitespace"),
            *(_property(field, filterable=True) for field in SCOPE_FIELDS),
            *(_property(field, "number", ranged=True) for field in (SLOT, *RANGED)),
        ],
    }


def _property(
    name: str,
    kind: str = "text",
    *,
    filterable: bool = False,
    searchable: bool = False,
    ranged: bool = False,
    tokenization: str = "field",
) -> dict[str, Any]:
    text = {"tokenization": tokenization, "indexSearchable": searchable} if kind.startswith("text") else {}
    return {"name": name, "dataType": [kind], "indexFilterable": filterable, "indexRangeFilters": ranged, **text}


def fits_keyword(text: str) -> bool:
    """Whether Weaviate stores and compares a text unchanged: it trims keywords, and rejects NUL."""
    return (
        bool(text) and text == text.strip() and "\x00" not in text and text.encode("utf-8", "replace").decode() == text
    )


MOST_OBJECTS = 500
MOST_BYTES = 16 * 2**20  # of one request to write; a server takes 100 MiB, unless it was told otherwise
_LONGEST_STEM = 100


def uuid_of(id: str) -> str:
    """Return the uuid of a row: Weaviate accepts no other ids."""
    return str(UUID(digest(id, 16)))


def keyword(stem: str) -> str:
    """Return a stem for Weaviate: text without spaces can be a megabyte, too long for a key."""
    return stem if len(stem) <= _LONGEST_STEM else digest(stem, 10)


def packed(vector: Vector) -> base_pb2.Vectors:
    kind = base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32
    return base_pb2.Vectors(name=VECTOR, vector_bytes=vector.astype("<f4").tobytes(), type=kind)


def vector_bytes(vectors: Sequence[base_pb2.Vectors]) -> bytes:
    """Return an object's vector as bytes, b"" without one."""
    return vectors[0].vector_bytes if vectors else b""


def object_of(document: Document, name: str) -> batch_pb2.BatchObject:
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
    return bounded_batches(objects, lambda one: one.ByteSize(), most_size=MOST_BYTES, most_items=MOST_OBJECTS)


def row_of(found: search_get_pb2.SearchResult) -> Row:
    """Return the row of a result with its record, and maybe its vector."""
    record = found.properties.non_ref_props.fields[RECORD].text_value
    vectors = found.metadata.vectors
    return decode(record, np.frombuffer(vectors[0].vector_bytes, "<f4") if vectors else None)


Clause = base_pb2.Filters
_Operator = base_pb2.Filters
IDS = "_id"  # Weaviate's own name for an object's uuid in filters
SLOTS = 2**48  # every row has a number below this in its property `slot`, evenly spread


def texts(name: str, operator: Any, values: Sequence[str]) -> Clause:
    """Return a condition on a property (or on IDS) with a list of texts."""
    target = base_pb2.FilterTarget(property=name)
    return Clause(operator=operator, target=target, value_text_array=base_pb2.TextArray(values=values))


def number(name: str, operator: Any, value: float) -> Clause:
    return Clause(operator=operator, target=base_pb2.FilterTarget(property=name), value_number=value)


def both(*clauses: Clause | None) -> Clause | None:
    given = [clause for clause in clauses if clause is not None]
    return Clause(operator=_Operator.OPERATOR_AND, filters=given) if len(given) > 1 else next(iter(given), None)


def with_ids(ids: Sequence[str]) -> Clause:
    return texts(IDS, _Operator.OPERATOR_CONTAINS_ANY, ids)


def in_slots(low: int, high: int) -> Clause:
    """Match objects whose slot is from `low` on and below `high`."""
    return Clause(
        operator=_Operator.OPERATOR_AND,
        filters=[
            number(SLOT, _Operator.OPERATOR_GREATER_THAN_EQUAL, low),
            number(SLOT, _Operator.OPERATOR_LESS_THAN, high),
        ],
    )


def everything() -> Clause:
    """Return a filter that matches every row."""
    return number(SLOT, _Operator.OPERATOR_GREATER_THAN_EQUAL, 0)


def _scope(operator: Any, field: str, values: Sequence[str]) -> Clause | None:
    return texts(field, operator, values) if all(map(fits_keyword, values)) else None


def _between(span: Span) -> Clause | None:
    """Match a range of a field whose numbers or times are indexed."""
    if RANGED.get(span.path) != span.kind:
        return None
    low = None if span.low is None else number(span.path, _Operator.OPERATOR_GREATER_THAN_EQUAL, span.low)
    high = None if span.high is None else number(span.path, _Operator.OPERATOR_LESS_THAN_EQUAL, span.high)
    return both(low, high)


GRAMMAR = Grammar[Clause](
    one_of=partial(texts, TOKENS, _Operator.OPERATOR_CONTAINS_ANY),
    none_of=partial(texts, TOKENS, _Operator.OPERATOR_CONTAINS_NONE),
    every=lambda clauses: Clause(operator=_Operator.OPERATOR_AND, filters=clauses),
    some=lambda clauses: Clause(operator=_Operator.OPERATOR_OR, filters=clauses),
    scope_is=partial(_scope, _Operator.OPERATOR_CONTAINS_ANY),
    scope_is_not=partial(_scope, _Operator.OPERATOR_CONTAINS_NONE),
    between=_between,
)
