"""Passages of long memories: embedded when the memory is written, and kept in its row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from perdure.backends.vector_stores.base import Point
from perdure.domain.memory import LIVE
from perdure.engine.embedding import Embedding
from perdure.pipeline.recall.features import passages
from perdure.pipeline.recall.packing import pack

PASSAGES = "passages"
"""The payload's key; no field of an item, so that a row that is written anew has it made anew."""
MOST = 64
"""Passages of one memory that are embedded: some 5,000 words. Words of what follows are found all the same."""
WHOLE_ROLES = frozenset({"assistant", "tool", "system"})
"""Long messages of these are found by the vector of their whole and by their words: 78 % of what BEAM asks for is the
user's own, and an assistant writes five times as much."""


async def with_passages(embedding: Embedding, points: Sequence[Point]) -> list[Point]:
    """The rows, those of long memories with the vectors of their passages; where embedding fails they stay as they
    are."""
    cut = {
        place: passages(point.payload.get("memory", ""))[:MOST]
        for place, point in enumerate(points)
        if point.vector is not None and point.payload.get("state", LIVE) == LIVE and _is_cut(point)
    }
    cut = {place: found for place, found in cut.items() if len(found) > 1}
    done = [_without(point) for point in points]
    if not cut:
        return done
    embedded = await embedding.texts([passage for found in cut.values() for passage in found])
    vectors = iter(embedded.vectors)
    for place, found in cut.items():
        known = [vector for vector in islice(vectors, len(found)) if vector is not None]
        if len(known) == len(found):
            point = points[place]
            done[place] = Point(point.id, point.vector, {**point.payload, PASSAGES: pack(np.stack(known))})
    return done


def _is_cut(point: Point) -> bool:
    text = point.payload.get("memory", "")
    return isinstance(text, str) and point.payload.get("role") not in WHOLE_ROLES


def _without(point: Point) -> Point:
    """The row without what an earlier text or model left."""
    if PASSAGES not in point.payload:
        return point
    return Point(point.id, point.vector, {key: value for key, value in point.payload.items() if key != PASSAGES})
