"""Ranking constants, each with its reason; presets are frozen values made of them.

`study` below is the ablation that the constants come from: evidence recall@10 on LoCoMo and BEAM-100K, fitted on half
of the conversations and evaluated on the other. Results depend little on the weights: multiplying all by exp(N(0, .3))
costs .005. `benchmarks/locomo.py` and `benchmarks/beam.py` measure them today.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

LONG_WORDS = 90
"""Words above which a memory is long: its passages are searched, and neighbours say little of it (study: windows cost
long messages .005 to .02, and passages of 90 words bring .04). An encoder reads some 190 words."""

PASSAGE_WORDS = 90  # words of a passage, at most (BEAM: 45 find as much and cost twice as many vectors)
SESSION_GAP = 1 / 24
"""Days between two turns above which they are no neighbours: a gap of an hour ends a session (study)."""

RECENCY_WEIGHT: Final = 0.2  # share of recency in a score that is blended with it
TRADE: Final = 0.7  # the lambda of 002 §3: what relevance is worth against being unlike what was selected


@dataclass(frozen=True, slots=True)
class Window:
    """The weights of the three turns before and after a turn, nearest first."""

    before: tuple[float, float, float]
    after: tuple[float, float, float]


SHARES = Window((0.5, 0.3, 0.2), (0.3, 0.2, 0.1))
"""Of words and of vectors: what was asked before weighs more than what is said after (study: .774 to .846)."""

FADING = Window((0.85, 0.75, 0.7), (0.75, 0.7, 0.65))
"""Of the best likeness of a word: it counts nearly whole where a neighbour has it (study)."""

ANSWERED = 0.3  # further share of the turn before where that asks: its words are what this turn speaks of (study)
AMONG_TURNS = 0.7
"""Turns of a talk go by the best turn in each arm, unless a fact beside them is better by more than this: then they
have little to say (LoCoMo with the facts that it ships: .841 by the best of all, .843 with it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of each arm, divided by its best, and of each signal; a signal without its cue adds nothing."""

    lexical: float = 0.3  # BM25F over the window (without it .841 for .846)
    dense: float = 0.5  # cosine to the window's mean vector, names taken out of the question (without it .816)
    likeness: float = 1.0  # each word of the question against the likest word in the window (without it .832)
    speaker: float = 0.3  # the turn is of the one speaker whom the question names (without it .828)
    date: float = 0.7  # the turn was told near the date in the question (without it .830)
    question: float = -0.15  # the turn ends in a question mark: it asks and does not tell (without it .840)
    temporal: float = 0.1  # the turn says when (two such words for the whole of it)
    proper: float = 0.2  # the turn names places, people and things (three for the whole of it; without it .843)
    directive: float = 1.0
    """A standing instruction near the question, where that asks for something to be done (BEAM .62 to .65)."""
    preference: float = 0.7  # a preference, likewise
    retold: float = -0.05
    """A fact where turns are searched too: it says again what one of them said (LoCoMo with the facts that it ships:
    .842 without, .843 with it and of the turns alone)."""
    noted: float = -0.05  # a note beside a fact: of two that answer equally well the fact comes first
    user: float = 0.4
    """Share of its arms that a unit has on top whose words are the user's: a message to an assistant, or a note."""
    slight: float = -0.2
    """Share that a turn without a word loses, one of few words less ("Understood."): the turns around it lift it."""
    aged: float = -0.15
    """Share that the oldest unit loses, newer ones less, where a question asks how things stand now.

    These three were chosen on 76 dialogues (benchmarks/data/talk: `train.jsonl`, and 36 of `train2.jsonl`) and looked
    at on the 18 others of `train2.jsonl`: found in five .639 before, .660 with them; mean reciprocal rank .398, .442.
    BEAM's long answers lose a little: recall@10 .665 and .643 of 125 questions.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexical:
    """BM25F's constants; flatter than for text search, because turns are short (study: 1.2 and .75 give +-.003)."""

    k1: float = 0.9
    b: float = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How candidates are scored."""

    talk: Weights = field(default_factory=lambda: Weights(slight=0.0, aged=0.0))
    """Of short turns whose speaker has a name: people who talk with one another."""
    alone: Weights = field(default_factory=lambda: Weights(lexical=0.42, dense=0.97, likeness=0.42))
    """Of facts, of long messages and of what is said to an assistant: each says by itself what it is about, so that
    meaning counts more and single words less (BEAM .62 to .65). The three make as much together as those of `talk`."""
    lexical: Lexical = field(default_factory=Lexical)
    long_whole: float = 0.4  # share of a long memory's dense arm that its whole text has (BEAM W)..
    long_passage: float = 0.3  # ... and its best passage.
