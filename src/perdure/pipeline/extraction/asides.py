"""What stands in brackets behind a name: "Rafi (5)", "Gizmo (cockapoo, 9)"."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern
from perdure.pipeline.extraction import grammar, people, statements
from perdure.pipeline.extraction.discourse import Discourse

_BEHIND = Pattern(
    r"\b(?P<name>[A-ZÀ-Þ][\w'-]+?)(?P<own>'s(?: [a-z]+)?)? \((?P<kind>[a-z][a-z -]{2,30}?)??,? ?"
    r"(?P<age>\d{1,2})(?P<unit> ?(?:months?|weeks?|years?|yrs?|yo|y/o|m)(?: old)?)?\)"
)


def read(text: str, talk: Discourse, at: int) -> str:
    """The text without such brackets; age and kind are appended to `talk.drafts`, the name is remembered."""
    if "(" not in text:
        return text
    return _BEHIND.sub(lambda match: _told(match, talk, at), text)


def _told(match: re.Match[str], talk: Discourse, at: int) -> str:
    name = match.group("name")
    if not grammar.is_name(name) or people.is_known_word(name.lower()):
        return match.group()
    unit = (match.group("unit") or "").strip()
    age = f"{match.group('age')} {unit}" if unit[:1] in {"m", "w"} else match.group("age")
    talk.call(name, talk.names.get(name.lower(), name))
    talk.meet(talk.names[name.lower()], "n")
    if match.group("kind"):
        kind = match.group("kind")
        article = "an" if kind[:1] in "aeiou" else "a"
        talk.drafts.append(statements.make(f"{name} is {article} {kind}", "aged", talk, at))
    talk.drafts.append(statements.make(f"{name} is {age}", "aged", talk, at))
    return name + (match.group("own") or "")
