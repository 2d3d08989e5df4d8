"""Clauses that point back: "opened an account with Pennine, that is where my copper comes from now"."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import corrections, grammar
from perdure.pipeline.extraction.discourse import Discourse

_POINTS = Pattern(
    r"^(?:that|this|it|which)(?: (?:is|was)|'s) (?:also |now |actually )?(?P<by>where|who|whom|what|"
    r"when) (?P<rest>\S.+)$",
    re.I,
)
_LATER = Pattern(
    r"(?:,? (?:now|these days|nowadays|at the moment|instead|from now on|mostly|too|as well|anyway))+$", re.I
)
_OPEN = Pattern(r"\b(?:from|at|to|in|on|with|for|of|off|through|by|into)$", re.I)


_SAID = Pattern(
    r"\b(?:said|say|says|mean|means|meant|think|thought|thinks|heard|hear|told|want|wanted|need|needed|like|"
    r"love|do|did|"
    r"does|happened|happens|matters|asked|ask|know|knew|get|got|am|are|is|was|were)$",
    re.I,
)
"""Verbs after which "that is what I ..." only agrees or comments."""


def read(clause: str, talk: Discourse) -> str:
    """The clause with what it points at in the place where that belongs, or "" if it does not point or at nothing."""
    match = _POINTS.match(clause.strip(" ,."))
    if match is None:
        return ""
    by, rest = match.group("by").lower(), match.group("rest")
    meant = _meant(by, talk)
    if not meant:
        return ""
    later = _LATER.search(rest)
    adverbs = later.group() if later else ""
    rest = rest[: later.start()] if later else rest
    if _SAID.search(rest):
        return ""
    if not grammar.subject_of(rest.split()):
        return f"{meant} {rest}{adverbs}" if by in {"who", "what"} else ""
    lead = "" if by in {"who", "whom", "what"} or _OPEN.search(rest) else " on" if by == "when" else " at"
    return f"{rest}{lead} {meant}{adverbs}"


def _meant(by: str, talk: Discourse) -> str:
    """What was told last of the kind that the word asks for."""
    last = next((draft.text for draft in reversed(talk.drafts) if not draft.forget), "")
    if by == "when":
        found = corrections.typed(last)
        return found[1] if found and found[0] in {"date", "time", "weekday", "month"} else ""
    if by in {"who", "whom"}:
        return talk.person or talk.named
    named = re.findall(r"(?<=[a-z,] )[A-Z][\w&'-]+(?: (?:& )?[A-Z][\w&'-]+)*", last)
    return (named[-1] if named and not named[-1].startswith(talk.who) else "") or (talk.thing if by == "what" else "")
