"""Merging: the text of an update, in which nothing of the memory is lost that the new fact does not contradict."""

from __future__ import annotations

from perdure.pipeline.reconciliation.pairing import Pair, content, generic, uncovered
from perdure.pipeline.slots import Chunk, Reading, comparable, fits


def merged(pair: Pair, new_text: str) -> str:
    """The new statement with what else the memory said of the same ("... as a data scientist")."""
    new, old = pair.new, pair.old
    kept = _kept_phrases(new, old)
    if not kept or not pair.whole or new.mood.negated or new.mood.ended:
        return new_text
    base = new_text.rstrip(" .")
    for phrase in kept:
        base = f"{base} {phrase}"
    return base


def _kept_phrases(new: Reading, old: Reading) -> list[str]:
    """The phrases of the memory that fill an attribute which the fact leaves open, with their leading words."""
    mine = {slot.attribute for slot in new.slots}
    kept: list[str] = []
    for slot in old.slots:
        if slot.attribute in mine or not new.slots or slot.attribute == "field":
            continue
        if {"employer", "role"} != {slot.attribute, *mine} & {"employer", "role"}:
            continue
        chunk = next((chunk for chunk in old.chunks if chunk.start == slot.start), None)
        if chunk is not None and chunk.lead:
            kept.append(f"{chunk.lead} {_determined(old.text, chunk)}")
    return kept or _kept_values(new, old)


def _kept_values(new: Reading, old: Reading) -> list[str]:
    """Typed phrases of the memory of another type than any in the fact: its time beside a new day."""
    if not new.topic or not old.topic or not new.values:
        return []
    kept: list[str] = []
    for chunk in old.chunks:
        alone = chunk.values and not chunk.concepts and chunk.lead
        if alone and not any(comparable(a, b) or fits(a, b) for a in chunk.values for b in new.values):
            kept.append(f"{chunk.lead} {old.text[chunk.start : chunk.end]}")
    return kept


def _determined(text: str, chunk: Chunk) -> str:
    """The phrase with the article before it."""
    before = text[: chunk.start].rstrip()
    word = before.rsplit(" ", 1)[-1].lower()
    phrase = text[chunk.start : chunk.end]
    return f"{word} {phrase}" if word in ("a", "an", "the", "their") else phrase


__all__ = ["content", "generic", "merged", "uncovered"]
