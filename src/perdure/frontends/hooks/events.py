"""The events of a client's session, and the answers to them, in the words of Claude Code. Standard library only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

Name = Literal["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
NAMES: tuple[Name, ...] = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
LONGEST_TEXT = 20_000
"""Characters of a prompt or an answer that are learned; the rest is a paste."""
FORGETS_CONTEXT = ("startup", "clear", "compact")
"""Sources of a session's start after which the model has none of the earlier context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    name: Name
    session: str
    text: str = ""
    """The user's prompt, or the assistant's last message."""
    project: str | None = None
    """The name of the working folder."""
    is_fresh: bool = False
    """Whether the session starts without earlier context."""


def read_event(told: str) -> Event | None:
    """Return the event of a hook's input; None for another event, or for text that is none."""
    try:
        found = json.loads(told)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("hook_event_name") not in NAMES:
        return None
    name: Name = found["hook_event_name"]
    texts = {"UserPromptSubmit": "prompt", "Stop": "last_assistant_message"}
    folder = _text(found, "cwd")
    return Event(
        name=name,
        session=_text(found, "session_id") or "none",
        text=_text(found, texts.get(name, ""))[:LONGEST_TEXT],
        project=PurePath(folder).name or None if folder else None,
        is_fresh=name == "SessionStart" and _text(found, "source") in (*FORGETS_CONTEXT, ""),
    )


def _text(found: dict[str, Any], key: str) -> str:
    """Return a text; a half of a surrogate pair, which no file can hold, becomes a question mark."""
    value = found.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def answer(event: Event, context: str) -> str:
    """Return the hook's output: the context for the model's prompt, or nothing."""
    if not context:
        return ""
    told = {"hookEventName": event.name, "additionalContext": context}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)
