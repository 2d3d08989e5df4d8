"""Rows of the store as recall takes them in."""

from __future__ import annotations

import numpy as np

from perdure.backends.vector_stores.base import Point
from perdure.domain.clock import read_moment
from perdure.domain.scope import SCOPE_FIELDS
from perdure.engine.cues import cues_of
from perdure.engine.derived import PASSAGES
from perdure.pipeline.recall.features import read
from perdure.pipeline.recall.packing import unpack
from perdure.pipeline.recall.scope_index import Entry

DAY = 86_400.0


def stamp_of(point: Point) -> str:
    """What changes whenever a row does."""
    return f"{point.payload.get('updated_at', '')}/{point.payload.get('version', 1)}"


def entry_of(point: Point, dimension: int) -> Entry:
    """The row as an entry of an index whose vectors have this dimension."""
    payload = point.payload
    told = read_moment(payload.get("told_at", ""))
    role = str(payload.get("role", "memory"))
    vector = point.vector
    if vector is not None:
        length = float(np.linalg.norm(vector))
        vector = vector / length if length > 0 else None
    speaker = payload.get("speaker")
    text = str(payload.get("memory", ""))
    return Entry(
        id=point.id,
        stamp=stamp_of(point),
        track=tuple(payload.get(field) for field in SCOPE_FIELDS),
        place=(
            0.0 if told is None else told.timestamp() / DAY,
            str(payload.get("created_at", "")),
            int(payload.get("position") or 0),
        ),
        turn=role != "memory",
        role=role,
        speaker=speaker if isinstance(speaker, str) and speaker else None,
        features=read(text),
        cues=cues_of(payload),
        vector=vector,
        passages=unpack(payload.get(PASSAGES), dimension),
    )
