"""An earlier statement of the same conversation taken back by a later one ("Wait, no. It's with the guy at 11")."""

from __future__ import annotations

import difflib
import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import corrections, grammar
from perdure.pipeline.extraction.discourse import Discourse, Draft

_CUE = Pattern(
    r"(?:^|[.!?;\n] ?)\W*(?:(?:ah|oh|um|er|ok|well),? )?(?:wait|sorry|no,|no wait|nope|actually|"
    r"oops|scratch that|strike that|correction|"
    r"change of plans?|my mistake|my bad|hang on|hold on|pardon|i misread|i got (?:it|that) wrong|"
    r"typo|ignore that|update)\b|"
    r"\bi (?:misread|misremembered|mixed (?:it|them|that) up|got (?:it|that) wrong|was wrong|keep doing that)\b",
    re.I,
)
_JOINTS = frozenset({"at", "in", "on", "with", "to", "from", "by", "for"})


def cued(content: str) -> bool:
    """Whether a message says that something told before was wrong or has changed."""
    return _CUE.search(content[:300]) is not None


def retract(talk: Discourse, before: int) -> None:
    """Drop earlier drafts that one of the drafts from place `before` on gives another value."""
    fresh = [draft for draft in talk.drafts[before:] if not draft.forget]
    gone: set[int] = set()
    for new in fresh:
        for place, old in enumerate(talk.drafts[:before]):
            if place not in gone and not old.forget and _same_slot(old, new):
                gone.add(place)
                new.rule = "correction"
                new.sources = tuple(sorted({*old.sources, *new.sources}))
    talk.drafts[:before] = [draft for place, draft in enumerate(talk.drafts[:before]) if place not in gone]


def _same_slot(old: Draft, new: Draft) -> bool:
    """Whether both say the same of the same subject but for the value."""
    left, right = _split(old.text), _split(new.text)
    if left is None or right is None or not set(old.sources).isdisjoint(new.sources):
        return False
    if left[0] != right[0] or old.text.lower() == new.text.lower():
        return False
    was, now = left[1], right[1]
    if was[0] == now[0] == "is" and len(was) > 1 and len(now) > 1:
        called = {"called", "named"}
        if was[1] in called or now[1] in called:
            return _alike(was[-1], now[-1])
    if was[0] != now[0] and not {was[0], now[0]} <= {"is", "was", "will", "holds", "holding"}:
        return False
    kinds = {kind for kind, pattern in corrections.TYPES if pattern.search(" ".join(was))}
    shared = {kind for kind, pattern in corrections.TYPES if pattern.search(" ".join(now))} & kinds
    placed = {word for word in was if word in _JOINTS} & {word for word in now if word in _JOINTS}
    return bool(shared) or (was[0] in {"is", "was"} and bool(placed))


def _split(text: str) -> tuple[str, list[str]] | None:
    parts = text.split()
    verb = grammar.find_verb(parts)
    if verb < 1 or verb + 1 >= len(parts):
        return None
    subject = " ".join(parts[:verb]).lower().removeprefix("the ")
    return subject, [grammar.bare(part) for part in parts[verb:]]


def _alike(left: str, right: str) -> bool:
    return left != right and difflib.SequenceMatcher(None, left, right).ratio() > 0.55
