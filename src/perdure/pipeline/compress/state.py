"""The state of a conversation: flat JSON, a slot for each thing that it has come to, each a node of a graph (V85)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.pattern import Pattern
from perdure.pipeline.compress.reading import Told, topic_of
from perdure.pipeline.echo import STATE
from perdure.pipeline.quoting import estimate_tokens, framed, one_line
from perdure.pipeline.slots.read import read

MOST_TOKENS: Final = 100
"""Tokens that a state may take (001 §14)."""
COVERED: Final = "turns"
"""The slot that says up to which turn the state tells of the conversation; it is not shown to models."""

_LISTS: Final = ("decisions", "open")
_MOST_LISTED: Final = 6
"""Entries of a list: the newest."""
_LONGEST: Final = 90
"""Characters of a value."""
_KEY = Pattern(r"[a-z][a-z0-9_]{0,30}")

Unfit = Callable[[str], bool]
"""Whether a text must not enter a prompt."""


def state_of(
    messages: Sequence[Message],
    facts: Sequence[MemoryItem],
    previous: Mapping[str, Any],
    *,
    unfit: Unfit = lambda _: False,
) -> dict[str, Any]:
    """What messages and facts, both oldest first, make of the state before them: topic, budget, decisions, open, more.

    The further slots are what the facts say of the user (`home`, `diet`, ...). No model is asked; the newer overrules
    the older. What is unfit, message or value, is left out; of the messages only those of user and assistant count.
    """
    told = Told.of(_lines_of(previous, "decisions"), _lines_of(previous, "open"))
    fit = [each for each in messages if each.role in ("user", "assistant") and not unfit(each.content)]
    for message in fit:
        told.hear(message)
    state: dict[str, Any] = {**previous}
    stated = [item for item in facts if not unfit(item.memory)]
    topic = topic_of([each.content for each in fit if each.role == "user"], str(previous.get("topic") or ""))
    budget = told.budget or next(filter(None, map(_budget, reversed(stated))), None)
    found = {"topic": topic, "budget": budget, "decisions": told.decisions, "open": told.open, **_slots(stated)}
    state.update({key: value for key, value in found.items() if value is not None})
    return bounded(state, unfit=unfit)


def bounded(state: Mapping[str, Any], *, unfit: Unfit = lambda _: False) -> dict[str, Any]:
    """A state as it may be kept: the four slots first, flat values on one line, within `MOST_TOKENS`.

    What does not fit goes: further slots first, then the oldest entries of the lists. What is nested, unfit or empty is
    left out.
    """
    given = {"topic": None, "budget": None, "decisions": [], "open": [], **state}
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if key != COVERED and _KEY.fullmatch(key):
            flat = _flat(value, unfit, listed=key in _LISTS)
            if flat or key in _LISTS:
                kept[key] = flat
    further = [key for key in kept if key not in ("topic", "budget", *_LISTS)]
    while _cost(kept) > MOST_TOKENS and (further or any(kept[key] for key in _LISTS)):
        if further:
            del kept[further.pop(0)]
        else:
            longest = max(_LISTS, key=lambda key: len(kept[key]))
            del kept[longest][0]
    covered = state.get(COVERED)
    if isinstance(covered, int) and not isinstance(covered, bool) and covered > 0:
        kept[COVERED] = covered
    return kept if any(kept.values()) else {}


def rendered(state: Mapping[str, Any]) -> str:
    """The state as a block for a prompt, data between `echo`'s delimiters; "" where it says nothing."""
    shown = {key: value for key, value in state.items() if key != COVERED and value}
    return framed(f"{STATE}\n{_line(shown)}") if shown else ""


def words_of(state: Mapping[str, Any]) -> list[str]:
    """The texts that a state shows, each alone, as one who repeats them would say them."""
    shown = [value for key, value in state.items() if key != COVERED]
    values = [each for value in shown for each in (value if isinstance(value, list) else [value])]
    return [each for each in values if isinstance(each, str) and each.strip()]


def _line(state: Mapping[str, Any]) -> str:
    return one_line(json.dumps(dict(state), ensure_ascii=False))


def _cost(state: Mapping[str, Any]) -> int:
    """Tokens of a state; JSON's signs count as half a word for each value."""
    values = sum(len(value) if isinstance(value, list) else 1 for value in state.values())
    return estimate_tokens(_line(state)) + (len(state) + values) // 2


def _flat(value: Any, unfit: Unfit, *, listed: bool) -> Any:
    """A number, a text on one line, or a list of such texts, the newest; None for anything else."""
    if isinstance(value, (list, tuple)) or listed:
        entries = value if isinstance(value, (list, tuple)) else [value]
        single = [each for each in entries if not isinstance(each, (list, tuple))]
        texts = [text for each in single if (text := _flat(each, unfit, listed=False)) is not None]
        return list(dict.fromkeys(map(str, texts)))[-_MOST_LISTED:]
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str) or unfit(value):
        return None
    return _cut(one_line(value)) or None


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 1].rsplit(" ", 1)[0] + "…"


def _lines_of(state: Mapping[str, Any], key: str) -> list[str]:
    value = state.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _budget(item: MemoryItem) -> str | None:
    """The amount that a fact about a budget names."""
    told = Told.of([], [])
    told.hear(Message("user", item.memory))
    return told.budget


def _slots(facts: Sequence[MemoryItem]) -> dict[str, str]:
    """What the facts say of the user, by attribute; the newest fact of an attribute counts."""
    found: dict[str, str] = {}
    for item in facts:
        reading = read(item.memory)
        if reading.party.kind == "user" and not reading.topic and reading.slots:
            if not (reading.mood.negated or reading.mood.ended):
                for slot in reading.slots:
                    _put(found, slot.attribute, reading.text[slot.start : slot.end])
        elif item.slots is not None and item.slots.polarity and item.slots.subject.casefold() in ("user", ""):
            _put(found, item.slots.attribute, item.slots.value)
    return found


def _put(found: dict[str, str], attribute: str, value: str) -> None:
    key = re.sub(r"[^a-z0-9]+", "_", attribute.casefold()).strip("_")
    if value and key not in ("topic", "budget", COVERED, *_LISTS):
        found.pop(key, None)  # so that the newest stand last, and go last
        found[key] = value


def joined(older: Mapping[str, Any], newer: Mapping[str, Any], *, unfit: Unfit = lambda _: False) -> dict[str, Any]:
    """One state of two that follow each other: the lists one after the other, of all else the newer."""
    lists = {key: [*_lines_of(older, key), *_lines_of(newer, key)] for key in _LISTS}
    return bounded({**older, **newer, **lists}, unfit=unfit)
