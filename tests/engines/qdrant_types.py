"""What a request to Qdrant says, in the types of its engine; Refused for what it would refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import qdrant_edge as edge
from qdrant_client import models

MAX_ID = 2**64


class Refused(Exception):
    """An answer with a status other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def told(call: Callable[..., Any], *args: Any) -> Any:
    """What the engine gives; a 404 if its collection was deleted meanwhile, else a 500 with its words."""
    try:
        return call(*args)
    except Exception as error:
        if "not initialized" in str(error):
            raise Refused(404, "Not found: the collection was deleted") from None
        raise Refused(500, f"Service internal error: {error}") from None


def unserved(what: object) -> Refused:
    """Nothing is ignored."""
    return Refused(400, f"Wrong input: {what!r} is not served here")


def edge_config(create: models.CreateCollection) -> edge.EdgeConfig | None:
    """The shard of a collection; None for one without vectors."""
    served = {"vectors", "sparse_vectors", "hnsw_config", "strict_mode_config", "metadata"}
    if extra := create.model_fields_set - served - {k for k, v in create.model_dump().items() if v is None}:
        raise unserved(sorted(extra))
    vectors = create.vectors or {}
    if not isinstance(vectors, dict):
        raise unserved("an unnamed vector")
    if not vectors and not create.sparse_vectors:
        return None
    modifiers = {models.Modifier.IDF: edge.Modifier.Idf, None: None, models.Modifier.NONE: None}
    graph = create.hnsw_config
    return edge.EdgeConfig(
        vectors={
            name: edge.EdgeVectorParams(
                size=params.size, distance=getattr(edge.Distance, params.distance.value), on_disk=params.on_disk
            )
            for name, params in vectors.items()
        },
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=modifiers[params.modifier])
            for name, params in (create.sparse_vectors or {}).items()
        },
        hnsw_config=edge.HnswIndexConfig(
            m=16 if graph is None or graph.m is None else graph.m, ef_construct=100, full_scan_threshold=10_000
        ),
    )


def edge_index(schema: Any) -> Any:
    """An index of a field."""
    if isinstance(schema, models.PayloadSchemaType):
        return getattr(edge.PayloadSchemaType, schema.value.capitalize())
    if isinstance(schema, models.KeywordIndexParams):
        return edge.KeywordIndexParams(is_tenant=schema.is_tenant)
    raise unserved(schema)


def id_of(id: object) -> int | str:
    """A point's id: a number of 64 bits or a UUID."""
    if isinstance(id, int) and 0 <= id < MAX_ID:
        return id
    try:
        return str(UUID(str(id)))
    except ValueError:
        raise Refused(
            400,
            f"Format error in JSON body: value {id} is not a valid point ID, valid values are either an unsigned "
            "integer or a UUID",
        ) from None


# ------------------------------------------------------------------ vectors


def edge_points(body: models.PointsList, create: models.CreateCollection) -> list[edge.Point]:
    """Points whose vectors are such as the collection has."""
    if body.update_filter is not None or body.shard_key is not None:
        raise unserved("a conditional write, or a shard key")
    return [
        edge.Point(
            id=id_of(point.id),
            vector={name: _vector(name, value, create) for name, value in _named(point.vector).items()},
            payload=point.payload,
        )
        for point in body.points
    ]


def _named(vector: Any) -> dict[str, Any]:
    if not isinstance(vector, dict):
        raise unserved("an unnamed vector")
    return vector


def _vector(name: str, value: Any, create: models.CreateCollection) -> Any:
    dense, sparse = create.vectors or {}, create.sparse_vectors or {}
    assert isinstance(dense, dict)
    if name in dense and isinstance(value, list):
        if len(value) != dense[name].size:
            raise Refused(
                400, f"Wrong input: Vector dimension error: expected dim: {dense[name].size}, got {len(value)}"
            )
        return value
    if name in sparse and isinstance(value, models.SparseVector):
        if len(set(value.indices)) != len(value.indices):
            raise Refused(422, "Validation error in JSON body: [indices: must be unique]")
        if len(value.indices) != len(value.values):
            raise Refused(422, "Validation error in JSON body: [values: must be the same length as indices]")
        if not all(0 <= place < 2**32 for place in value.indices):
            raise Refused(400, "Format error in JSON body: invalid value: expected u32")
        return edge.SparseVector(indices=value.indices, values=value.values)
    raise Refused(400, f"Wrong input: Not existing vector name error: {name}")


def edge_query(body: models.QueryRequest, create: models.CreateCollection) -> edge.Query:
    """A search by one vector."""
    extra = (body.prefetch, body.score_threshold, body.offset, body.lookup_from, body.with_vector or None)
    if any(value is not None for value in extra):
        raise unserved(extra)
    near = body.query.nearest if isinstance(body.query, models.NearestQuery) else body.query
    return edge.Query.Nearest(_vector(body.using or "", near, create), using=body.using)


# ------------------------------------------------------------------ filters


def edge_filter(filter: models.Filter | None) -> edge.Filter | None:
    """A filter of the conditions that are served."""
    if filter is None:
        return None
    if filter.min_should is not None:
        raise unserved("min_should")
    return edge.Filter(must=_parts(filter.must), should=_parts(filter.should), must_not=_parts(filter.must_not))


def _parts(parts: Any) -> list[Any] | None:
    if parts is None:
        return None
    return [_condition(part) for part in (parts if isinstance(parts, list) else [parts])]


def _condition(part: Any) -> Any:
    if isinstance(part, models.Filter):
        return edge_filter(part)
    if not isinstance(part, models.FieldCondition):
        raise unserved(part)
    kinds = {name for name, value in part.model_dump().items() if value is not None and name != "key"}
    if len(kinds) != 1:
        raise Refused(400, "Format error in JSON body: one condition on a key was expected")
    if part.match is not None:
        return edge.FieldCondition(key=part.key, match=_match(part.match))
    if isinstance(part.range, models.DatetimeRange):
        bounds = {name: value for name, value in part.range.model_dump(mode="json").items() if value is not None}
        return edge.FieldCondition(key=part.key, range=edge.RangeDateTime(**bounds))
    if isinstance(part.range, models.Range):
        return edge.FieldCondition(key=part.key, range=edge.RangeFloat(**part.range.model_dump(exclude_none=True)))
    raise unserved(part)


def _match(match: Any) -> Any:
    if isinstance(match, models.MatchValue):
        return edge.MatchValue(match.value)
    if isinstance(match, models.MatchAny):
        return edge.MatchAny(match.any)
    if isinstance(match, models.MatchSubstring):
        return edge.MatchSubstring(match.substring)
    raise unserved(match)
