"""The arguments of a search, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from perdure.domain.clock import parse_moment
from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import parse_filter
from perdure.domain.message import Message, read_messages
from perdure.domain.scope import Scope
from perdure.domain.text import shown
from perdure.engine.kernel import Kernel
from perdure.engine.queries import Query
from perdure.engine.requests import Filters, Moment, read_flag, read_limit, read_share, read_text, read_texts
from perdure.pipeline.recall.presets import PRESETS, Preset
from perdure.pipeline.recall.time_window import Window

TimeWindow = tuple[Moment | None, Moment | None]
"""A stretch of time: its first moment and the one after its last; None is open."""


def read_query(
    kernel: Kernel,
    query: str,
    scope: Scope,
    *,
    limit: int,
    filters: Filters | None = None,
    threshold: float | None = None,
    types: Sequence[str] | None = None,
    rerank: bool = False,
    history: Sequence[Message | Mapping[str, Any]] | None = None,
    as_of: Moment | None = None,
    include_past: bool = False,
    preset: str | None = None,
    explain: bool = False,
    hydrate: bool = False,
    reference_time: Moment | None = None,
    time_window: TimeWindow | None = None,
) -> Query:
    """A `search`, checked against what this engine has."""
    if read_flag(rerank, "rerank") and kernel.reranker is None:
        raise InvalidInputError(
            "no reranker is configured: name one as reranker.provider, or search with rerank=False",
            field="rerank",
            value=rerank,
        )
    return Query(
        text=read_text(query, "query"),
        scope=scope,
        limit=read_limit(limit),
        filters=parse_filter(filters),
        threshold=None if threshold is None else read_share(threshold, "threshold"),
        types=() if types is None else tuple(read_texts(types, "types")),
        history=() if history is None else tuple(read_messages(history)),
        as_of=None if as_of is None else parse_moment(as_of, "as_of"),
        include_past=read_flag(include_past, "include_past"),
        explain=read_flag(explain, "explain"),
        preset=read_preset(kernel, preset),
        rerank=rerank,
        hydrate=read_flag(hydrate, "hydrate"),
        files=True,
        reference_time=None if reference_time is None else parse_moment(reference_time, "reference_time"),
        time_window=None if time_window is None else read_window(time_window),
    )


def read_preset(kernel: Kernel, name: str | None) -> Preset:
    """The preset of a name; without one the configuration's."""
    if name is None:
        return PRESETS[kernel.config.preset]
    if not isinstance(name, str) or name not in PRESETS:
        raise InvalidInputError(
            f"unknown preset {shown(name)}: there is {', '.join(PRESETS)}", field="preset", value=name
        )
    return PRESETS[name]


def read_window(value: object) -> Window:
    """A pair of moments, either of them None, as a window of time; the first must come before the second."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 2:
        raise InvalidInputError(
            f"time_window must be a pair of moments, not {shown(value)}", field="time_window", value=value
        )
    start, end = (
        None if moment is None else parse_moment(moment, f"time_window[{place}]").astimezone(UTC)
        for place, moment in enumerate(value)
    )
    if start is None and end is None:
        raise InvalidInputError("time_window needs a start or an end", field="time_window", value=value)
    if start is not None and end is not None and start >= end:
        raise InvalidInputError(
            f"time_window must end after it starts, not {shown(value)}", field="time_window", value=value
        )
    return Window(start, end, "span")
