"""Caution: where weighing alone, with no rule behind it, may neither retire a memory nor take a fact for known."""

from __future__ import annotations

import re

from perdure.pipeline.reconciliation.pairing import Pair, content, everything, exclusive, generic, uncovered
from perdure.pipeline.slots import comparable, fits

SAME_ALONE = 0.74
"""Cosine from which a fact with a word that the memory lacks may be taken for known."""

_DETAIL = re.compile(r"^[^:]{1,60}: ")
_RETURNING = re.compile(r"\b(?:again|still|no longer|any ?more|now|instead|these days|after all)\b", re.IGNORECASE)


def is_detail(text: str) -> bool:
    """Whether a fact is a bare detail of something named before ("User's trip: 9 days"): it retires nothing."""
    return _DETAIL.match(text) is not None


def may_retire(pair: Pair) -> bool:
    """Whether weighing may find a change: something in the fact says so, or nothing of the memory would be lost."""
    new, old = pair.new, pair.old
    if is_detail(pair.new.text):
        return False
    mood = new.mood
    mine, theirs = _telling(everything(new)), _telling(everything(old))
    lacking, missing = uncovered(mine, theirs), uncovered(theirs, mine)
    apart = any(exclusive(one, two) for one in lacking for two in missing)
    cue = mood.changed or mood.corrected or mood.denied or bool(_RETURNING.search(new.text))
    if cue or apart:
        return True
    if mood.ended or mood.negated != old.mood.negated:
        return bool(_telling(content(new)) - lacking) or not missing
    if old.mood.past and mood.past:
        return False  # two things that happened
    unmet = [value for value in old.values if not any(comparable(value, other) for other in new.values)]
    return not (lacking and missing) and not (unmet and lacking)


def may_be_known(pair: Pair) -> bool:
    """Whether weighing may find that the memory holds the fact: it brings no name, no value, and little else."""
    new, old = pair.new, pair.old
    if is_detail(new.text) and not is_detail(old.text):
        return False
    if any(not any(fits(value, other) for other in old.values) for value in new.values):
        return False
    lacking = uncovered(_telling(everything(new)), everything(old))
    if lacking & new.names:
        return False
    return not lacking or pair.near >= SAME_ALONE


def _telling(concepts: frozenset[str]) -> frozenset[str]:
    return frozenset(concept for concept in concepts if not generic(concept))


__all__ = ["is_detail", "may_be_known", "may_retire"]
