"""Writing an archive: each thing of a memory as a line of text (see `archive` for what they are)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from perdure.backends.vector_stores.base import Vector
from perdure.domain.event import Change, Episode, HistoryRecord
from perdure.domain.scope import Scope
from perdure.engine.archive import ENCODE, EPISODE, FORMAT, RECORD, ROWS, VECTOR
from perdure.engine.derived import without_derived

_SEPARATORS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that JSON lets stand in a text and that many readers take for the end of a line."""


def header_line(*, written_by: str, written_at: str, scope: Scope, embedder: str) -> str:
    """The first line: which format this is, who wrote it and what was asked for."""
    told = {"written_by": written_by, "written_at": written_at, "scope": scope.given(), "embedder": embedder}
    return _line({"perdure": FORMAT}, told)


def row_line(payload: Mapping[str, Any], vector: Vector | None = None) -> str:
    """A row of the store, whole; without a vector it is made again from the text, and so is what is made of both."""
    if vector is None:
        return _line({"record": "memory"}, without_derived(payload))
    packed = base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii")
    return _line({"record": "memory"}, {**payload, VECTOR: packed})


def event_line(record: HistoryRecord, change: Change | None) -> str:
    """A history record, with the rows of its change; the order of the lines stands for `sequence`."""
    fields = {name: value for name in RECORD if (value := getattr(record, name)) is not None}
    if change is not None:
        fields |= {name: list(value) for name in ("sources", "hides") if (value := getattr(change, name))}
        fields |= {name: item.to_payload() for name in ROWS if (item := getattr(change, name)) is not None}
    return _line({"record": "history"}, fields)


def episode_line(episode: Episode) -> str:
    """A message as it was said."""
    fields = {name: value for name in EPISODE if (value := getattr(episode, name)) is not None}
    fields |= {name: True for name in ("hidden", "pending") if getattr(episode, name)}
    return _line({"record": "episode"}, {**fields, **episode.scope})


def _line(head: dict[str, Any], rest: Mapping[str, Any]) -> str:
    """What kind of line it is, then the rest by name, so that the same content is always the same text."""
    text = f"{ENCODE(head)[:-1]},{ENCODE(dict(rest))[1:]}"
    for separator, escape in _SEPARATORS.items():
        text = text.replace(separator, escape)
    return text.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair becomes JSON's own escape
