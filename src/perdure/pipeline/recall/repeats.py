"""Repeats: of wordings that say the same, only the best is told (002 §3: five ways to like coffee are one memory)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from perdure.domain.memory import Slots
from perdure.pipeline.slots import read_slots

USER = "user"
"""The subject of what is about the user, as it stands in slots."""


def without_repeats(told: Sequence[tuple[str, Slots | None]]) -> list[int]:
    """The places of the texts that say something which none before them says.

    Two say the same where they are about the user, and attribute and value are the same in canonical form, whatever the
    wording: "User loves coffee" and "User is fond of coffee" do, "User visited Rome in 2021" and "in 2023" do not.
    What is about others is left alone, because a subject's own details are not in its slots ("house number 7").
    With each text come the slots that are known of it; for a None they are read. A text without any repeats nothing.
    """
    said: set[tuple[str, str, bool]] = set()
    kept: list[int] = []
    for place, (text, known) in enumerate(told):
        key = _key(known or _read(text))
        if key is None or key not in said:
            kept.append(place)
        if key is not None:
            said.add(key)
    return kept


def _key(slots: Slots | None) -> tuple[str, str, bool] | None:
    if slots is None or slots.subject != USER or not slots.value.strip():
        return None
    return slots.attribute, " ".join(slots.value.casefold().split()), slots.polarity


@lru_cache(maxsize=4_096)
def _read(text: str) -> Slots | None:
    """The slots of a text that is about the user; without that word it cannot be, and need not be read."""
    return None if text.isascii() and USER not in text.lower() else read_slots(text)
