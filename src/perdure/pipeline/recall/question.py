"""A question as the arms ask it: its topic words, without the names of the speakers, and the cues that it gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from perdure.domain.pattern import Pattern
from perdure.domain.terms import is_unspaced, query_words, runs
from perdure.pipeline.lexicon import lines
from perdure.pipeline.recall.features import stop_runs
from perdure.pipeline.recall.names import named
from perdure.pipeline.recall.renewals import asks_how_things_stand
from perdure.pipeline.recall.time_window import Window, parse

_SPACES = Pattern(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the arms and signals ask."""

    text: str
    """The question without the speakers' names, for the encoder."""
    stems: dict[str, str]
    """Each stem asked for, with the word as it stands; of unspaced scripts pairs of characters."""
    words: tuple[str, ...]
    """Topic words of spaced scripts, as they stand in lower case."""
    pairs: tuple[str, ...]
    """Pairs of characters of unspaced scripts."""
    named: frozenset[str]
    """Speakers of the scope that the question names, folded."""
    window: Window | None
    """The time that it asks about."""
    of_now: bool
    """Whether it asks how something stands now."""
    wants_doing: bool
    """Whether it asks for something to be done or explained, where standing instructions count."""


def read_question(
    text: str,
    speakers: Iterable[str] = (),
    *,
    reference: datetime | None = None,
    now: datetime | None = None,
    window: Window | None = None,
) -> Question:
    """The question as the arms ask it; where nothing but names would be left of it, the names stay.

    `reference`: the moment of asking, as the caller tells it. By the clock (`now`) alone "last week" is read, and not
    in which year "in May" was: what is asked about may be a conversation of long ago.
    """
    known = [name for name in speakers if name not in _ROLES]
    names = frozenset(named(text, known))
    bare = _without(text, names)
    dropped = {run for name in names for run in runs(name)}
    stop = stop_runs()
    kept = [run for run in runs(bare) if run not in stop and run not in dropped]
    if not kept:
        bare, kept = text, [run for run in runs(text) if run not in stop] or list(runs(text))
    stems = {stem: word for run in kept for stem, word in query_words(run).items()}
    asked = window or parse(text, reference) or (parse(text, now) if reference is None else None)
    doing = wants_doing(text)
    moment = reference or now
    looks_back = asked is not None and (moment is None or asked.start is None or asked.start < moment)
    return Question(
        text=bare,
        stems=stems,
        words=tuple(dict.fromkeys(run for run in kept if not is_unspaced(run))),
        pairs=tuple(stem for stem, word in stems.items() if is_unspaced(word)),
        named=names,
        window=asked,
        of_now=not looks_back and not doing and asks_how_things_stand(text),
        wants_doing=doing,
    )


def wants_doing(text: str) -> bool:
    """Whether a question asks for something to be done, shown or explained, and is no plain question of fact."""
    return _phrases("recall_requests.txt").search(text) is not None and not _opens(text, "recall_measures.txt")


_ROLES = frozenset({"user", "assistant", "system", "tool"})


@cache
def _phrases(name: str) -> re.Pattern[str]:
    """Any of a lexicon's phrases, as whole words."""
    return re.compile(rf"\b(?:{'|'.join(re.escape(line) for line in lines(name))})\b", re.IGNORECASE)


def _opens(text: str, name: str) -> bool:
    """Whether a text begins with one of a lexicon's phrases."""
    return _phrases(name).match(text.strip()) is not None


def _without(text: str, names: Iterable[str]) -> str:
    parts = {part for name in names for part in name.split() if part not in stop_runs()}
    for name in sorted({*names, *parts}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?:['’]s)?(?!\w)", " ", text, flags=re.IGNORECASE)
    return _SPACES.sub(" ", text).strip()
