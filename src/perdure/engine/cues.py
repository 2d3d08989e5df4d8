"""The cues of a row: read out of its text when it is written, and kept in it, for reading them takes a third of a
millisecond and a scope may have a hundred thousand rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.pipeline.directives import directive, preference
from perdure.pipeline.recall.names import proper_nouns
from perdure.pipeline.recall.scope_index import Cues
from perdure.pipeline.recall.time_window import temporal_words
from perdure.pipeline.standing_facts import is_standing

CUES = "cues"
"""The payload's key; no field of an item, so that a row that is written anew has it made anew."""


def read_cues(payload: Mapping[str, Any]) -> Cues:
    """The cues of a row from its text: those that its role and speaker let signals ask for."""
    text = payload.get("memory")
    role = payload.get("role", "memory")
    if not isinstance(text, str):
        return Cues()
    if role == "memory":
        return Cues(directive=is_standing(text))
    named = bool(payload.get("speaker"))
    user = role == "user"  # what an assistant advises is no instruction
    return Cues(
        temporal=temporal_words(text) if named else 0,
        proper=len(proper_nouns(text)) if named else 0,
        directive=user and directive(text) is not None,
        preference=user and preference(text) is not None,
    )


def pack_cues(cues: Cues) -> str:
    """The cues as text of a few letters."""
    marks = ("d" if cues.directive else "") + ("p" if cues.preference else "")
    return f"{cues.temporal}.{cues.proper}.{marks}"


def cues_of(payload: Mapping[str, Any]) -> Cues:
    """The cues that a row keeps, else those that its text has."""
    kept = payload.get(CUES)
    parts = kept.split(".") if isinstance(kept, str) else []
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return read_cues(payload)
    return Cues(int(parts[0]), int(parts[1]), "d" in parts[2], "p" in parts[2])
