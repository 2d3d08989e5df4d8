"""A search, checked: what `read_path` is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perdure.domain.filter import Filter
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.pipeline.retrieval.presets import BEST, Preset
from perdure.pipeline.retrieval.time_window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One call of `search`, checked."""

    text: str
    scope: Scope
    limit: int = 100
    filters: Filter | None = None
    threshold: float | None = None
    types: tuple[str, ...] = ()
    history: tuple[Message, ...] = ()
    as_of: datetime | None = None
    include_past: bool = False
    explain: bool = False
    versions: bool = False
    """Earlier texts instead of those that stand now."""
    preset: Preset = BEST
    rerank: bool = False
    related: bool = True
    """Whether what the graph relates to the question joins; else each memory is judged by itself."""
    hydrate: bool = False
    """Whether each memory brings the messages that it came from."""
    also: Scope | None = None
    """A second scope, whose candidates join those of the first (K25); for presets that rank by similarity."""
    trusted: bool = False
    """Whether what is quarantined stays away: it may be looked at, but enters no prompt."""
    files: bool = False
    """Whether the files that agents keep are searched too."""
    told: frozenset[str] = frozenset()
    """Fingerprints of messages that whoever reads the answer has before them anyway: they are no candidates."""
    reference_time: datetime | None = None
    """What "last week" in the question goes by; the clock without one."""
    meaning: str | None = None
    """What is embedded in place of the question, where it is searched by a made-up answer."""
    time_window: Window | None = None
    """The time that is asked about, in place of what the question says."""

    @property
    def reads_past(self) -> bool:
        """Whether rows are read that do not stand now."""
        return self.versions or self.as_of is not None
