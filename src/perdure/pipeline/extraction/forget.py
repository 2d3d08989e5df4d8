"""Requests to forget: the thing to forget is named, and nothing else of the request is kept.

A request is an order (`forget_order`) or a wish (`forget_wish`); `forget_matter` says what it is about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import dropping, forget_matter, forget_order, forget_wish, grammar
from perdure.pipeline.extraction.discourse import Discourse
from perdure.pipeline.extraction.forget_order import Order

LONGEST_MATTER = 200
"""Characters: what is longer is no name of something told."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request and the sentence around it.

    `asked` are the texts of what is to be forgotten ("User asked to forget the staging password"), none where it names
    nothing that was told; `left` is what the sentence tells beside the request and its reason.
    """

    asked: tuple[str, ...] = ()
    left: str = ""


def read(sentence: str, talk: Discourse, at: int) -> Request | None:
    """The request that the sentence makes, or None if it makes none."""
    sentence = _MIND.sub(_ordering, sentence, count=1)
    order = forget_order.find(sentence, talk) or forget_wish.find(sentence)
    if order is None:
        return None
    more = _FURTHER.match(order.trail)
    matters = forget_matter.name(order.what, talk, at, order.before or order.spoken)
    if more and matters and grammar.find_verb(more.group("what").split()) < 0:
        matters = (*matters, *(forget_matter.name(more.group("what"), talk, at, "") or ()))
        order = replace(order, trail="")
    if matters is None:
        return Request(left=_left(order, (), ""))
    whole = order.before if _told_just_now(order) else ""
    asked = tuple(f"{talk.who} asked to forget{_linked(matter, talk.who)}" for matter in matters if not whole)
    return Request(asked, _left(order, matters, whole))


_MIND = Pattern(
    r"\b(?:(?:would|do|will) (?:you|u) mind|(?:i|we) (?:would )?(?:really )?appreciate (?:you|your)|"
    r"(?:how|what) about|(?:may|can|could) i ask you to consider) (?P<ing>[a-z]+ing)\b",
    re.I,
)


def _ordering(match: re.Match[str]) -> str:
    """ "would you mind deleting": "please delete"."""
    stem = match["ing"].lower()[:-3]
    undoubled = stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else stem
    for base in (stem, f"{stem}e", undoubled):
        if forget_order.any_verb().fullmatch(base):
            return f"please {base}"
    return match.group()


_FURTHER = Pattern(
    r"^(?:and|also|plus|or)(?: also)? (?P<what>(?:my|our|the|what|that|his|her|their) [\w' -]{2,40}?)"
    r"(?: (?:also|too|as well|please|pl[sz]))*$",
    re.I,
)


def asks(text: str) -> bool:
    """Whether a sentence of a text asks to forget what by its words was told; such a text is no story or game."""
    talk = Discourse()
    for sentence in re.split(r"(?<=[.!?])\s+", text[:1000]):
        spoken = dropping.strip_openers(sentence)
        order = forget_order.find(spoken, talk) or forget_wish.find(spoken)
        if order is not None and forget_matter.is_told(order.what):
            return True
    return False


def _linked(matter: str, who: str) -> str:
    if matter.startswith(": "):
        return matter
    return f" that {matter}" if matter.startswith(f"{who} ") else f" {matter}"


def _told_just_now(order: Order) -> bool:
    """ "My pin is 2607 - actually, delete that": what stands before is itself the matter, and never was stored."""
    if not forget_matter.is_pointer(order.what) or not order.before or order.joint == "so":
        return False
    if forget_matter.stands_for_matter(order.before):
        return False
    return forget_matter.mentioned(order.before) == "" and grammar.find_verb(order.before.split()) > 0


def _left(order: Order, matters: tuple[str, ...], whole: str) -> str:
    """What the sentence tells beside: neither the matter again nor the reason for the request."""
    before = "" if whole or _is_reason(order, matters) else order.before
    after = order.trail if _worth(order.trail, matters) else ""
    return ", and ".join(part for part in (before, after) if part)


def _is_reason(order: Order, matters: tuple[str, ...]) -> bool:
    """Whether what stands before a request only says why: it tells of the same matter, or that it was told."""
    if not order.before:
        return True
    if forget_matter.mentioned(order.before) or forget_matter.reasons().search(order.before):
        return True
    return any(forget_matter.shares(order.before, matter) for matter in matters) and order.joint == "so"


_JOINED = Pattern(r"^(?:and|also|oh|but|then|plus)\b[ ,]*", re.I)
_OWN_NEWS = Pattern(r"^(?:i|we|my|our)\b", re.I)
_POINTS = Pattern(r"\b(?:it|that|this|them|those|these|you)\b", re.I)


def _worth(trail: str, matters: tuple[str, ...]) -> bool:
    """Whether what trails a request tells something of its own: joined to it, or the speaker's news with a value."""
    if not trail:
        return False
    if _JOINED.match(trail):
        return not forget_matter.reasons().search(trail)
    if (
        _POINTS.search(trail)
        or forget_matter.reasons().search(trail)
        or any(forget_matter.names_all(trail, m) for m in matters)
    ):
        return False
    parts = trail.split()
    told = any(grammar.is_number(part) or grammar.is_name(part) for part in parts[1:]) or "now" in trail.lower().split()
    return told and grammar.find_verb(parts) > 0 and (_OWN_NEWS.match(trail) is not None or parts[0].lower() == "the")
