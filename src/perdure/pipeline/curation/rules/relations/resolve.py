"""Which known entity a name means: the same name, or one so near that it can be no other; in doubt none."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from perdure.domain.graph import DEFAULT_TYPE, Entity, entity_key
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.lexicon import word_set

_TITLES = frozenset({"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "sir"})
_FORMS = word_set("resolve.forms")
_BREAKS = Pattern(r"[^\w]+|_+")
_POSSESSIVE = Pattern(r"['’]s$")
LONG_WORD = 7
"""Letters that a word must have for a slip in it to be told from another word."""


def resolve(name: str, type: str, candidates: Sequence[Entity]) -> str | None:
    """The name by which a candidate is known that is the entity named; None if none is, or more than one may be.

    First the same name (`entity_key`), then the same but for accents, punctuation, a title ("Ms. Alice Smith") or the
    form of a firm ("Google Inc."), then but for a slip of the pen in a long word. From the second on the types must
    agree: be equal, or one of them not known. A first name alone is nobody's full name. The order of the candidates
    does not matter.
    """
    key = entity_key(name)
    for known in candidates:
        if entity_key(known.name) == key:
            return known.name
    fitting = [known for known in candidates if _agree(type, known.type)]
    core = _core(name)
    if not core:
        return None
    same = [known.name for known in fitting if _core(known.name) == core]
    if same:
        return _only(same)
    return _only([known.name for known in fitting if _is_slip(core, _core(known.name), "person" in (type, known.type))])


def _agree(one: str, other: str) -> bool:
    return one == other or DEFAULT_TYPE in (one, other)


def _only(names: Sequence[str]) -> str | None:
    """The one entity that all names are; None if they are several."""
    return min(names) if len({entity_key(name) for name in names}) == 1 else None


def _core(name: str) -> tuple[str, ...]:
    """The words that make a name: small letters, no accents, titles, articles or forms of firms."""
    plain = unicodedata.normalize("NFKD", _POSSESSIVE.sub("", name.strip()))
    plain = "".join(each for each in plain if not unicodedata.combining(each)).casefold().replace(".", "")
    words = [word for word in _BREAKS.split(plain) if word]
    while len(words) > 1 and (words[0] in _TITLES or words[0] == "the"):
        words = words[1:]
    while len(words) > 1 and words[-1] in _FORMS:
        words = words[:-1]
    return tuple(words)


def _is_slip(one: tuple[str, ...], other: tuple[str, ...], is_person: bool) -> bool:
    """Whether two names differ by one slip in one long word that begins alike, and in no digit.

    Of persons only letters that changed places or were doubled: Andersen and Anderson are two families.
    """
    if len(one) != len(other):
        return False
    differing = [(left, right) for left, right in zip(one, other, strict=True) if left != right]
    if len(differing) != 1:
        return False
    left, right = differing[0]
    if min(len(left), len(right)) < LONG_WORD or left[0] != right[0] or not (left + right).isalpha():
        return False
    return _is_swap(left, right) or _is_doubling(left, right) or (not is_person and _is_one_off(left, right))


def _is_swap(one: str, other: str) -> bool:
    if len(one) != len(other):
        return False
    places = [place for place in range(len(one)) if one[place] != other[place]]
    return len(places) == 2 and places[1] == places[0] + 1 and sorted(one) == sorted(other)


def _is_doubling(one: str, other: str) -> bool:
    """Whether one has a letter twice in a row that the other has once."""
    short, long = sorted((one, other), key=len)
    if len(long) != len(short) + 1:
        return False
    place = next((place for place in range(len(short)) if short[place] != long[place]), len(short))
    return short[place:] == long[place + 1 :] and long[place] == long[place - 1]


def _is_one_off(one: str, other: str) -> bool:
    """Whether one letter was put in, left out or replaced, an `s` at the end aside: that makes another word."""
    short, long = sorted((one, other), key=len)
    if long == f"{short}s" or len(long) - len(short) > 1:
        return False
    place = next((place for place in range(len(short)) if short[place] != long[place]), len(short))
    return short[place + (len(long) == len(short)) :] == long[place + 1 :]
