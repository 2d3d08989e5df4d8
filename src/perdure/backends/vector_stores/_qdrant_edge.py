"""Qdrant's own engine for one process (Qdrant Edge): clauses, points and shards in its types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

import qdrant_edge as edge

from perdure.backends.vector_stores._document_engine import Shape
from perdure.backends.vector_stores._qdrant_engine import DATES, KEYWORDS, TENANT, Stored
from perdure.backends.vector_stores._qdrant_filter import Clause, as_filter
from perdure.backends.vector_stores._qdrant_points import DENSE, RECORD, WORDS, StoredPoint, Words
from perdure.backends.vector_stores.base import Vector

P = ParamSpec("P")
T = TypeVar("T")


class EdgeError(Exception):
    """What the engine said: its own exceptions are of the class Exception itself."""


def told(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the engine's call gives; EdgeError with its words if it fails."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        raise EdgeError(str(error)) from None


def new_shard(folder: Path, shape: Shape) -> tuple[str, edge.EdgeShard]:
    """A shard without a graph: every search here is exact, so that none would be used."""
    name = f"shard-{uuid4().hex}"
    place = folder / name
    place.mkdir(parents=True, mode=0o700)
    config = edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(size=shape.dimension, distance=edge.Distance.Dot)},
        sparse_vectors={WORDS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
    )
    shard = told(edge.EdgeShard.create, str(place), config)
    index = edge.UpdateOperation.create_field_index
    told(shard.update, index(TENANT, edge.KeywordIndexParams(is_tenant=True)))
    for keyword in KEYWORDS:
        told(shard.update, index(keyword, edge.PayloadSchemaType.Keyword))
    for date in DATES:
        told(shard.update, index(date, edge.PayloadSchemaType.Datetime))
    return name, shard


def query_of(query: Vector | Words) -> edge.Query:
    """What is near to a vector, or to words."""
    if isinstance(query, Words):
        return edge.Query.Nearest(edge.SparseVector(indices=query.places, values=query.weights), using=WORDS)
    return edge.Query.Nearest(query.tolist(), using=DENSE)


def wanted(with_vectors: bool) -> bool | list[str]:
    """The vectors to give with points."""
    return [DENSE] if with_vectors else False


def edge_point(point: StoredPoint) -> edge.Point:
    """The point as it is written."""
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    if point.words is not None:
        vectors[WORDS] = edge.SparseVector(indices=point.words.places, values=point.words.weights)
    return edge.Point(id=point.id, vector=vectors, payload=point.payload)


def stored(point: edge.Record) -> Stored:
    """A point as it comes back."""
    vectors = point.vector if isinstance(point.vector, dict) else {}
    return (point.payload or {})[RECORD], vectors.get(DENSE)  # type: ignore[return-value]  # a dense one is of floats


def edge_filter(clause: Clause | None) -> edge.Filter | None:
    """The clause in the engine's own types."""
    whole = as_filter(clause)
    if whole is None:
        return None
    parts: dict[str, Any] = {occurs: [_edge_clause(part) for part in inner] for occurs, inner in whole.items()}
    return edge.Filter(**parts)


def _edge_clause(clause: Clause) -> edge.FieldCondition | edge.Filter:
    if "key" not in clause:
        found = edge_filter(clause)
        assert found is not None, "only a missing clause has no filter"
        return found
    if "range" in clause:
        bounds = clause["range"]
        dates = isinstance(next(iter(bounds.values())), str)
        return edge.FieldCondition(
            key=clause["key"], range=edge.RangeDateTime(**bounds) if dates else edge.RangeFloat(**bounds)
        )
    ((how, operand),) = clause["match"].items()
    return edge.FieldCondition(key=clause["key"], match=_MATCHES[how](operand))


_MATCHES: dict[str, Callable[[Any], Any]] = {
    "value": edge.MatchValue,
    "any": edge.MatchAny,
    "substring": edge.MatchSubstring,
}
