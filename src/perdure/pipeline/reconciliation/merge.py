"""Merging: the text of an update, in which nothing of the memory is lost that the new fact does not contradict."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.reconciliation.pairing import Pair, content, everything, generic, uncovered
from perdure.pipeline.slots import Chunk, Reading, Value, comparable, fits
from perdure.pipeline.slots.lexis import concept_of
from perdure.pipeline.slots.scan import scan
from perdure.pipeline.slots.typed import type_values

_LIST = Pattern(r"(?P<members>(?:[^\W\d_][\w'-]*, )*[^\W\d_][\w'-]*) and (?P<last>[^\W\d_][\w'-]*)")


def merged(pair: Pair, new_text: str) -> str:
    """The new statement with what else the memory said of the same ("... as a data scientist").

    Where the fact only gives another value, the memory's own sentence with that value, if it says more.
    """
    if not pair.whole or pair.new.mood.negated or pair.new.mood.ended:
        return new_text
    swapped = _swapped(pair)
    if swapped is not None:
        return swapped
    base = new_text.rstrip(" .")
    for phrase in _left_open(pair.new, pair.old):
        base = f"{base} {phrase}"
    return base if base != new_text.rstrip(" .") else new_text


def without(pair: Pair) -> str | None:
    """The memory without the one member of its list that the fact ends ("takes piano, chess and karate lessons")."""
    if not (pair.new.mood.ended or pair.new.mood.negated):
        return None
    gone = {concept for concept in content(pair.new) if not generic(concept)}
    text = pair.memory.item.memory
    for match in _LIST.finditer(text):
        members = [*match["members"].split(", "), match["last"]]
        kept = [member for member in members if concept_of(member) not in gone]
        if len(kept) == len(members) - 1:
            listed = kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}"
            return text[: match.start()] + listed + text[match.end() :]
    return None


def _swapped(pair: Pair) -> str | None:
    """The memory's sentence with the fact's value in the place of its own, where the sentence says more."""
    new, old = pair.new, pair.old
    mine, theirs = everything(new), everything(old)
    said_more = {concept for concept in uncovered(theirs, mine) if not generic(concept) and concept != old.verb}
    if not said_more and len(old.values) <= len(new.values):
        return None
    if {concept for concept in uncovered(mine, theirs) if not generic(concept) and concept != new.verb}:
        return None
    text = pair.memory.item.memory
    meet = [(a, b) for a in new.values for b in old.values if comparable(a, b) and not fits(a, b)]
    if len(meet) != 1 or not _alike(*meet[0]):
        return None
    inserted, removed = _written(pair.new.text, meet[0][0]), _place(text, meet[0][1])
    if inserted is None or removed is None:
        return None
    return text[: removed[0]] + inserted + text[removed[1] :]


def _alike(new: Value, old: Value) -> bool:
    """Whether one value can stand where the other stood: "85 quid" cannot where "the 100 fly" was."""
    kinds = {new.kind, old.kind}
    return len(kinds) == 1 or kinds <= {"date", "ordinal"} or kinds <= {"date", "weekday"}


def _written(text: str, value: Value) -> str | None:
    place = _place(text, value)
    return None if place is None else text[place[0] : place[1]]


def _place(text: str, value: Value) -> tuple[int, int] | None:
    for token in type_values(scan(text)):
        if token.value == value:
            suffix = re.match(r"[A-Za-z]?(?!\w)", text[token.end :])  # "14B"
            return token.start, token.end + (suffix.end() if suffix else 0)
    return None


def _left_open(new: Reading, old: Reading) -> list[str]:
    """Phrases of the memory that fill what the fact leaves open, with their leading words.

    The role beside a new employer, and a typed value of another type than any in the fact (the time beside a new day).
    """
    attributes = {slot.attribute for slot in new.slots}
    kept: list[str] = []
    for slot in old.slots:
        if {slot.attribute} | (attributes & {"employer", "role"}) != {
            "employer",
            "role",
        } or slot.attribute in attributes:
            continue
        chunk = next((chunk for chunk in old.chunks if chunk.start == slot.start), None)
        if chunk is not None and chunk.lead:
            kept.append(f"{chunk.lead} {_determined(old.text, chunk)}")
    placed = any(
        chunk.names and (chunk.lead in ("at", "in") or (chunk.lead and new.mood.changed)) for chunk in new.main
    )
    if kept or not new.topic or not old.topic or not (new.values or placed):
        return kept
    for chunk in old.main:
        alone = chunk.values and not chunk.concepts and chunk.lead
        if alone and not any(comparable(a, b) or fits(a, b) for a in chunk.values for b in new.values):
            kept.append(f"{chunk.lead} {old.text[chunk.start : chunk.end]}")
    return kept


def _determined(text: str, chunk: Chunk) -> str:
    """The phrase with the article before it."""
    word = text[: chunk.start].rstrip().rsplit(" ", 1)[-1].lower()
    phrase = text[chunk.start : chunk.end]
    return f"{word} {phrase}" if word in ("a", "an", "the", "their") else phrase
