"""Task prompts of chat programs: requests for a chat's title, tags or follow-ups, which no user wrote."""

from __future__ import annotations

import re

from perdure.domain.text.pattern import Pattern

OPENING = 8_000
"""Characters in which such a prompt says what it wants, before it quotes anything."""
_ENDING = 20_000
"""Characters at its end in which the last thing that it quotes closes."""

_TASK = Pattern(r"\s*#{1,6}[ \t]*\**[ \t]*(?:your[ \t]+)?task\b", re.IGNORECASE)
_HEADING = Pattern(r"^[ \t]*#{1,6}[ \t]*\**[ \t]*(?P<title>[A-Za-z][^\n*:]{0,60})", re.MULTILINE)
_JSON = Pattern(r"\bJSON\b|\{\s*\"\w+\"\s*:", re.IGNORECASE)
_CHAT = Pattern(r"chat|conversation|messages|transcript|dialogue|history", re.IGNORECASE)
_CLOSING = Pattern(r"</(?P<tag>[A-Za-z][\w-]{0,40})>[ \t]*(?:\n[ \t]*(?:#{1,6}[^\n]{0,60})?)*\Z")


def is_client_task(text: str) -> bool:
    """Whether a user's message is a chat program's own errand, by its build and not by its wording.

    Such a prompt is laid out in headed sections, of which the first is its task and another its output; and it ends
    with the material that it quotes between tags: the chat, or anything where the answer is to be JSON. Titles, tags,
    follow-ups, search queries, completions and descriptions of images are asked for so. A prompt of the same layout
    that ends with a question of the user's own, as with retrieved documents, is none.
    """
    if _TASK.match(text) is None:
        return False
    closing, opening = _CLOSING.search(text[-_ENDING:].rstrip()), text[:OPENING]
    if closing is None or f"<{closing['tag']}>" not in opening:
        return False
    titles = [found["title"].strip().lower() for found in _HEADING.finditer(opening)]
    if not any(title.startswith("output") for title in titles[1:]):
        return False
    return _CHAT.search(closing["tag"]) is not None or _JSON.search(opening) is not None
