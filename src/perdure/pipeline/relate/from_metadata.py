"""Entities that a caller names in a memory's metadata: `{"entities": [{"name": "Alice", "type": "person"}]}` (X57)."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.domain.graph import DEFAULT_TYPE, Mention
from perdure.domain.text import is_unicode

LONGEST_NAME = 200
"""Characters: a longer one is a text, and no name."""
MOST = 200
"""Entities of one memory that are read."""


def read_mentions(value: object) -> tuple[Mention, ...]:
    """The entities of a list, each once, in its order; an entry without a name is skipped, a type defaults (X58).

    An entry is `{name, type, description}` or a name alone. Whatever is of another shape is no entity, and no error.
    """
    if not isinstance(value, (list, tuple)):
        return ()
    found: dict[str, Mention] = {}
    for entry in value:
        mention = _mention({"name": entry} if isinstance(entry, str) else entry)
        if mention is not None:
            found.setdefault(mention.key, mention)
        if len(found) == MOST:
            break
    return tuple(found.values())


def _mention(entry: object) -> Mention | None:
    if not isinstance(entry, Mapping):
        return None
    name = _text(entry.get("name"))
    if not name or len(name) > LONGEST_NAME:
        return None
    kind = _text(entry.get("type")).casefold()[:LONGEST_NAME]
    return Mention(name=name, type=kind or DEFAULT_TYPE, description=_text(entry.get("description")))


def _text(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) and is_unicode(value) else ""
