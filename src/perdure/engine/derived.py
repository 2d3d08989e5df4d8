"""What recall reads out of a memory when it is written, and keeps in its row: cues, and the vectors of passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Point
from perdure.domain.memory import LIVE
from perdure.engine.cues import CUES, pack_cues, read_cues
from perdure.engine.embedding import Embedding
from perdure.pipeline.recall.features import passages
from perdure.pipeline.recall.packing import pack

PASSAGES = "passages"
"""The payload's key of the vectors of passages; no field of an item, so that a row that is written anew has it anew."""
MOST = 64
"""Passages of one memory that are embedded: some 5,000 words. Words of what follows are found all the same."""
WHOLE_ROLES = frozenset({"assistant", "tool", "system"})
"""Long messages of these are found by the vector of their whole and by their words: 78 % of what BEAM asks for is the
user's own, and an assistant writes ten times as much."""


DERIVED = frozenset({PASSAGES, CUES})
"""Keys of a payload that are made of the rest of it."""


async def with_derived(embedding: Embedding, points: Sequence[Point]) -> list[Point]:
    """The rows with what is made of them, anew; where embedding fails they have no passages."""
    done = [_with_cues(point) for point in points]
    cut = {
        place: passages(point.payload["memory"])[:MOST]
        for place, point in enumerate(points)
        if point.vector is not None and _is_live(point) and point.payload.get("role") not in WHOLE_ROLES
    }
    cut = {place: found for place, found in cut.items() if len(found) > 1}
    if not cut:
        return done
    embedded = await embedding.texts([passage for found in cut.values() for passage in found])
    vectors = iter(embedded.vectors)
    for place, found in cut.items():
        known = [vector for vector in islice(vectors, len(found)) if vector is not None]
        if len(known) == len(found):
            point = done[place]
            done[place] = Point(point.id, point.vector, {**point.payload, PASSAGES: pack(np.stack(known))})
    return done


def without_derived(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload as it was given."""
    return {key: value for key, value in payload.items() if key not in DERIVED}


def _is_live(point: Point) -> bool:
    return point.payload.get("state", LIVE) == LIVE and isinstance(point.payload.get("memory"), str)


def _with_cues(point: Point) -> Point:
    plain = without_derived(point.payload)
    if not _is_live(point) or point.payload.get("role", "memory") == "memory":
        return Point(point.id, point.vector, plain)  # of a fact they are read in no time
    return Point(point.id, point.vector, {**plain, CUES: pack_cues(read_cues(plain))})
