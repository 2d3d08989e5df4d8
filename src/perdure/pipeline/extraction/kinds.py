"""What kind of statement a fact is: an event (episodic), a way of doing (procedural), or a state (semantic)."""

from __future__ import annotations

from typing import Literal

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import grammar, verbs
from perdure.pipeline.extraction.wordsets import word_set

Kind = Literal["semantic", "procedural", "episodic"]

_STATE_PASTS = word_set("kinds.state_pasts")
_TIMED = Pattern(r"\b(?:ago|yesterday|last (?:week|month|year|night|spring|summer|autumn|winter)|in (?:19|20)\d\d)\b")
_RULE = Pattern(
    r"^(?:To \w+.*:|When(?:ever)? .*,|Before \w+ing|After \w+ing|How \w+ |The (?:process|procedure|routine|"
    r"steps?)\b|Every \w+ over|First\b)"
)


def kind_of(fact: str, procedural: bool, episodic: bool) -> Kind:
    """The kind of a finished fact; the flags say what its rule knew already."""
    if procedural or _RULE.match(fact):
        return "procedural"
    if episodic:
        return "episodic"
    parts = fact.split()
    verb = grammar.find_verb(parts)
    if verb < 0:
        return "semantic"
    word = grammar.bare(parts[verb])
    if word in verbs.simple_pasts() and word not in _STATE_PASTS and word not in verbs.bases():
        return "episodic"
    if word in verbs.ambiguous_pasts() and _TIMED.search(fact):
        return "episodic"
    return "semantic"
