"""Cues: a fact that says that something changed or ended, and one memory that is nearer to it than all others."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.pipeline.reconciliation.pairing import (
    Pair,
    concept_set,
    core,
    covers,
    everything,
    generic,
    parties_agree,
    people,
)
from perdure.pipeline.reconciliation.verdict import Verdict

NEAR = 0.6
"""Cosine that the memory needs with one shared word of weight."""
NEAR_MORE = 0.5
"""The same with two or more."""
MARGIN = 0.08
"""How much nearer the memory is than the next one that shares as much."""


def judge_by_cue(pairs: Sequence[Pair]) -> Verdict | None:
    """The memory that a fact of change or end must mean, because it alone is near and shares its matter."""
    if not pairs or pairs[0].similarity is None:
        return None
    kind = _cue(pairs[0])
    if not kind:
        return None
    candidates = [(pair, shared) for pair in pairs if (shared := _shared(pair))]
    candidates.sort(key=lambda found: (-len(found[1]), -found[0].near))
    if not candidates:
        return None
    best, shared = max(candidates, key=lambda found: found[0].near)
    floor = NEAR_MORE if len(shared) > 1 else NEAR
    rivals = [pair.near for pair, words in candidates if pair is not best and len(words) >= len(shared)]
    if best.near < floor or (rivals and best.near - max(rivals) < MARGIN) or not _alive(best, kind):
        return None
    return Verdict("ends" if kind != "changed" else "replaces", best, f"cue.{kind}", 0.72)


def _cue(pair: Pair) -> str:
    mood, verb = pair.new.mood, pair.new.verb
    if mood.hedged or mood.planned:
        return ""
    if mood.denied:
        return "denied"
    if mood.ended:
        return "ended"
    if mood.corrected:
        return "corrected"
    if verb in concept_set("reconcile_done.txt"):
        return "done"
    return "changed" if mood.changed else ""


def _alive(pair: Pair, kind: str) -> bool:
    """Whether the memory can be what the cue speaks of: still so, and pending if something was done."""
    old = pair.old
    if old.mood.ended or (old.mood.past and kind not in ("denied", "corrected")):
        return False
    if kind == "done":
        words = everything(old) & concept_set("reconcile_pending.txt")
        return old.mood.planned or old.mood.hedged or bool(words)
    return True


def _shared(pair: Pair) -> frozenset[str]:
    """The words of weight that both have, if what the fact is about is among them and no other person is named."""
    new, old = pair.new, pair.old
    if not parties_agree(new, old, pair.aliases) and people(new) != people(old):
        return frozenset()
    mine, theirs = everything(new), everything(old)
    shared = frozenset(concept for concept in mine if not generic(concept) and covers(theirs, concept))
    heads = {chunk.head for chunk in new.main if not chunk.lead} | ({new.topic[-1]} if new.topic else set())
    about = {concept for concept in (heads or core(new)) if not generic(concept)}
    if (new.names - people(new)) - theirs and not shared & new.names:
        return frozenset()
    return shared if shared & about or len(shared) > 1 else frozenset()
