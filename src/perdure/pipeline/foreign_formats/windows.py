"""Windows: the stretches in which a long conversation is read, as if it had been told when it was told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from perdure.domain.clock import read_moment

MESSAGES: Final = 20
"""Messages of a stretch: what came just before is known to the curator from the messages that were kept."""
CHARACTERS: Final = 12_000
"""Characters of a stretch, some three thousand tokens: a model reads it well, and one long message stays whole."""
PAUSE: Final = timedelta(hours=6)
"""A pause after which a conversation goes on as another: what was said elsewhere meanwhile is read in between."""


def windows(messages: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The messages in stretches that follow each other; a stretch begins with the user's words if it can."""
    found: list[list[dict[str, Any]]] = []
    length = 0
    for message in messages:
        size = len(message["content"])
        last = found[-1] if found else []
        is_full = len(last) >= MESSAGES or length + size > CHARACTERS
        is_nearly_full = len(last) >= MESSAGES - 1 or length + size > CHARACTERS * 3 // 4
        turns = is_full or (is_nearly_full and message["role"] == "user")
        if not last or turns or _pause(last[-1], message):
            found.append([])
            length = 0
        found[-1].append(message)
        length += size
    return found


def _pause(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether much time, in either direction, lies between two messages that tell theirs."""
    before, after = read_moment(earlier.get("timestamp") or ""), read_moment(later.get("timestamp") or "")
    return before is not None and after is not None and abs(after - before) > PAUSE
