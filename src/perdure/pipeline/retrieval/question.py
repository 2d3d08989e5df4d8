"""Split a question into what the search arms need: topic words without the speakers' names, and cues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import numpy as np
from numpy.typing import NDArray

from perdure.domain.text.pattern import Pattern
from perdure.domain.text.terms import is_unspaced, query_words, runs
from perdure.pipeline.lexicon import lines
from perdure.pipeline.retrieval.features import read_unit, stop_runs
from perdure.pipeline.retrieval.names import asked_by_name, named
from perdure.pipeline.retrieval.time_window import Window, parse
from perdure.pipeline.retrieval.words import may_be_foreign

# Renewals: what the user said later of the same matter comes before what was said first, where a question asks how
# things stand now.
#
# Facts are told old from new when they are written; notes, and messages that are searched as they were said, are not.
# So this is a soft link made at the moment of asking: it hides nothing, and moves what is newer before what is older
# and like it.

AMONG = 5  # best memories that are looked at: further down the order says little, and of ten the wrong ones come up
ALIKE = 0.4  # least cosine of two stretches of text that speak of one matter
WORTH = 0.7
"""Least share of the older one's score that the newer one has: what hardly answers must not move up.

BEAM's dev half through `rules`, 20 pairs: how often the newer comes first, its mean reciprocal rank, and recall@5 of
all questions are .85, .610, .589 as it is here, .75, .622, .589 with a worth of .8, and .80, .621, .573 with that among
ten."""


def asks_how_things_stand(question: str) -> bool:
    """Whether a question asks for a value as it is now: "what is my budget?", not "what was it before May?".

    Not in another language than English, in which the packaged encoder takes all sentences for alike.
    """
    return bool(question.strip()) and not may_be_foreign(question) and _earlier_words().search(question) is None


def renewed_first(
    vectors: NDArray[np.float32],
    moments: Sequence[tuple[float, int]],
    scores: Sequence[float],
    own: Sequence[bool],
    noted: Sequence[bool],
    *,
    marked: NDArray[np.bool_] | None = None,
) -> list[int]:
    """Return the places of the best memories in their new order.

    `vectors` are those of their best units, of length 1, shape (n, dimension); `moments` are when they were said, with
    tie-breakers; `own` marks the user's own messages, `noted` notes. Only two messages change places, or a note and
    anything else: facts were told old from new when they were written. A newer one is put before the first older one
    that is similar enough and scores about as much. `marked` tells which names and numbers of the question (`marks_of`)
    stand in each, shape (n, marks): with others it is about another one, however alike the two are.
    """
    likeness = vectors @ vectors.T
    held = np.zeros((len(scores), 0), np.bool_) if marked is None else marked
    order: list[int] = []
    for newer in range(len(scores)):
        place = len(order)
        for position, older in enumerate(order):
            if (
                (noted[newer] or noted[older] or (own[newer] and own[older]))
                and moments[newer] > moments[older]
                and scores[newer] >= WORTH * scores[older]
                and likeness[newer, older] > ALIKE
                and (held[newer] == held[older]).all()
            ):
                place = position
                break
        order.insert(place, newer)
    return order


def marks_of(question: str) -> frozenset[str]:
    """Return the stems of the names and numbers in a question, by which one of two that are alike may be meant."""
    numbers = (run for run in runs(question) if any(character.isdigit() for character in run))
    return frozenset(read_unit(" ".join((*asked_by_name(question), *numbers))).stems)


@cache
def _earlier_words() -> re.Pattern[str]:
    """Return the words that turn a question to an earlier time."""
    return re.compile(
        rf"\b(?:{'|'.join(re.escape(entry) for entry in lines('recall_earlier.txt'))})(?!\w)", re.IGNORECASE
    )


_SPACES = Pattern(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as the arms and signals need it."""

    text: str  # the question without the speakers' names, for the encoder
    stems: dict[str, str]  # each stem asked for, with the word as it stands; of unspaced scripts pairs of characters
    words: tuple[str, ...]  # topic words of spaced scripts, as they stand in lower case
    pairs: tuple[str, ...]  # pairs of characters of unspaced scripts
    named: frozenset[str]  # speakers of the scope that the question names, folded
    marks: frozenset[str]  # names and numbers in it, as stems, without those of speakers (`marks_of`)
    window: Window | None  # the time that it asks about
    of_now: bool  # whether it asks how something stands now
    wants_doing: bool  # whether it asks for something to be done or explained, where standing instructions count


def read_question(
    text: str,
    speakers: Iterable[str] = (),
    *,
    reference: datetime | None = None,
    now: datetime | None = None,
    window: Window | None = None,
) -> Question:
    """Return the question for the arms; its names stay if nothing else would be left.

    `reference` is the time of asking, if the caller gives one. With only the clock (`now`), "last week" is understood,
    but not the year of "in May", because the question may be about an old conversation.
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
        marks=marks_of(bare),
        window=asked,
        of_now=not looks_back and not doing and asks_how_things_stand(text),
        wants_doing=doing,
    )


def wants_doing(text: str) -> bool:
    """Whether a question asks for something to be done, shown or explained, instead of a fact."""
    return _phrases("recall_requests.txt").search(text) is not None and not _opens(text, "recall_measures.txt")


_ROLES = frozenset({"user", "assistant", "system", "tool"})


@cache
def _phrases(name: str) -> re.Pattern[str]:
    """Return a pattern for any of a lexicon's phrases, as whole words."""
    return re.compile(rf"\b(?:{'|'.join(re.escape(line) for line in lines(name))})\b", re.IGNORECASE)


def _opens(text: str, name: str) -> bool:
    """Whether a text begins with one of a lexicon's phrases."""
    return _phrases(name).match(text.strip()) is not None


def _without(text: str, names: Iterable[str]) -> str:
    parts = {part for name in names for part in name.split() if part not in stop_runs()}
    for name in sorted({*names, *parts}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?:['’]s)?(?!\w)", " ", text, flags=re.IGNORECASE)
    return _SPACES.sub(" ", text).strip()
