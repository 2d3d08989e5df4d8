"""The events of a client's session and the answers to them, in each client's own words. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, get_args

Name = Literal["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
AS_HERE: Mapping[str, Name] = {name: name for name in get_args(Name)}
"""The events of a client that calls them what they are called here."""
LONGEST_TEXT = 20_000
"""Characters of a prompt or an answer that are learned; the rest is a paste."""
FORGETS_CONTEXT = ("startup", "clear", "compact", "")
"""Sources of a session's start after which the model has none of the earlier context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one client calls things."""

    events: Mapping[str, Name]
    """Its events that are answered, and what they are here."""
    session: tuple[str, ...] = ("session_id",)
    """Fields of the session's name; the first that is there counts."""
    texts: Mapping[Name, str] = field(
        default_factory=lambda: {"UserPromptSubmit": "prompt", "Stop": "last_assistant_message"}
    )
    """The field of what was said, by event."""
    takes_context: tuple[Name, ...] = ("SessionStart", "UserPromptSubmit")
    """Events whose answer may enter the model's prompt."""
    context: str | None = None
    """The field of the answer that holds the context; None for Claude Code's form."""
    nothing: str = ""
    """The answer where there is nothing to say."""
    goes_on: tuple[Name, ...] = ()
    """Events that ask whether to go on."""


DIALECTS = {
    "claude-code": Dialect(events=AS_HERE),
    "codex": Dialect(events=AS_HERE),
    "gemini-cli": Dialect(
        events={
            "SessionStart": "SessionStart",
            "BeforeAgent": "UserPromptSubmit",
            "AfterAgent": "Stop",
            "SessionEnd": "SessionEnd",
        },
        texts={"UserPromptSubmit": "prompt", "Stop": "prompt_response"},
        nothing="{}",  # without an answer it shows standard error to the person
    ),
    "cursor": Dialect(
        events={
            "sessionStart": "SessionStart",
            "beforeSubmitPrompt": "UserPromptSubmit",
            "afterAgentResponse": "Stop",
            "sessionEnd": "SessionEnd",
        },
        session=("conversation_id", "session_id"),
        texts={"UserPromptSubmit": "prompt", "Stop": "text"},
        takes_context=("SessionStart",),
        context="additional_context",
        goes_on=("UserPromptSubmit",),
    ),
    "copilot-cli": Dialect(
        events={
            "sessionStart": "SessionStart",
            "userPromptSubmitted": "UserPromptSubmit",
            "agentStop": "Stop",
            "sessionEnd": "SessionEnd",
        },
        session=("sessionId",),
        texts={"UserPromptSubmit": "prompt"},
        context="additionalContext",
    ),
}
"""Clients whose hooks are answered. Codex and Claude Code speak alike; Copilot CLI does not say what was answered."""


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
    client: str = "claude-code"
    called: str = ""
    """The client's own name of the event, if it differs."""

    @property
    def dialect(self) -> Dialect:
        """The client's words."""
        return DIALECTS[self.client]


def read_event(told: str, client: str = "claude-code", called: str | None = None) -> Event | None:
    """Return the event of a hook's input; None for another event, or for text that is none.

    `called` is the event of a client whose input does not name it.
    """
    try:
        found = json.loads(told)
    except ValueError:
        return None
    if not isinstance(found, dict) or (dialect := DIALECTS.get(client)) is None:
        return None
    wire = called if called is not None else found.get("hook_event_name")
    name = dialect.events.get(wire) if isinstance(wire, str) else None
    if name is None or wire is None:
        return None
    roots = found.get("workspace_roots")
    folder = _text(found, "cwd") or (_text({"root": roots[0]}, "root") if isinstance(roots, list) and roots else "")
    return Event(
        name=name,
        session=next(filter(None, (_text(found, key) for key in dialect.session)), "none"),
        text=_text(found, dialect.texts.get(name, ""))[:LONGEST_TEXT],
        project=PurePath(folder).name or None if folder else None,
        is_fresh=name == "SessionStart" and _text(found, "source") in FORGETS_CONTEXT,
        client=client,
        called=wire,
    )


def _text(found: dict[str, Any], key: str) -> str:
    """Return a text; a half of a surrogate pair, which no file can hold, becomes a question mark."""
    value = found.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def answer(event: Event, context: str) -> str:
    """Return the hook's output in the client's form: the context for the model's prompt, or nothing."""
    if event.name in event.dialect.goes_on:
        return json.dumps({"continue": True})
    if not context:
        return event.dialect.nothing
    if event.dialect.context is not None:
        return json.dumps({event.dialect.context: context}, ensure_ascii=False)
    told = {"hookEventName": event.called or event.name, "additionalContext": context}
    return json.dumps({"hookSpecificOutput": told}, ensure_ascii=False)
