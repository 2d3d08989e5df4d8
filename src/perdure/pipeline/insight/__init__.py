"""Insight: what memories show when they are read together, by rules alone (V70, V71)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.domain.derived import Experience, Insight
from perdure.pipeline.insight.actions import actions
from perdure.pipeline.insight.approaches import approaches
from perdure.pipeline.insight.lessons import lessons
from perdure.pipeline.insight.telling import read_tellings, speaks_of
from perdure.pipeline.insight.troubles import troubles

__all__ = ["insights", "speaks_of"]


def insights(memories: Sequence[Experience], messages: Iterable[tuple[str, str]] = ()) -> list[Insight]:
    """The insights of memories, oldest first: counts, common issues, preferred approaches, styles, lessons.

    `messages`, by id and text, are what was said: a memory of which a repeat told nothing new is counted by them. The
    same memories and messages give the same insights.
    """
    tellings = read_tellings(messages)
    return [
        *actions(memories, tellings),
        *troubles(memories, tellings),
        *approaches(memories, tellings),
        *lessons(memories),
    ]
