"""Hooks of every client in its own words: what it sends, and what it takes (Cursor's from others' pages)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.frontends.hooks.events import DIALECTS, LONGEST_TEXT, Event, answer, read_event
from tests.frontends.hooks.test_sessions import Client, client, eventually

__all__ = ["client"]

CODEX = {
    "session_id": "s",
    "transcript_path": None,
    "cwd": "/home/ana/shop",
    "model": "m",
    "permission_mode": "default",
}
GEMINI = {"session_id": "s", "transcript_path": "/t", "cwd": "/home/ana/shop", "timestamp": "2026-11-28T01:02:03Z"}
CURSOR = {"conversation_id": "s", "generation_id": "g", "model": "m", "workspace_roots": ["/home/ana/shop"]}
COPILOT = {"sessionId": "s", "timestamp": 1764295200000, "cwd": "/home/ana/shop"}

Wire = dict[str, Any]


def _claude(event: str, text: str) -> Wire:
    more: dict[str, Wire] = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"prompt": text},
        "Stop": {"last_assistant_message": text, "stop_hook_active": False},
        "SessionEnd": {"reason": "other"},
    }
    return {"hook_event_name": event, **more[event]}


def _gemini(event: str, text: str) -> Wire:
    more: dict[str, tuple[str, Wire]] = {
        "SessionStart": ("SessionStart", {"source": "startup"}),
        "UserPromptSubmit": ("BeforeAgent", {"prompt": text}),
        "Stop": ("AfterAgent", {"prompt": "x", "prompt_response": text, "stop_hook_active": False}),
        "SessionEnd": ("SessionEnd", {"reason": "exit"}),
    }
    return {"hook_event_name": more[event][0], **more[event][1]}


def _cursor(event: str, text: str) -> Wire:
    more: dict[str, tuple[str, Wire]] = {
        "SessionStart": ("sessionStart", {"session_id": "s", "is_background_agent": False, "composer_mode": "agent"}),
        "UserPromptSubmit": ("beforeSubmitPrompt", {"prompt": text, "attachments": []}),
        "Stop": ("afterAgentResponse", {"text": text}),
        "SessionEnd": ("sessionEnd", {"session_id": "s", "reason": "completed"}),
    }
    return {"hook_event_name": more[event][0], **more[event][1]}


def _copilot(event: str, text: str) -> tuple[str, Wire]:
    more: dict[str, tuple[str, Wire]] = {
        "SessionStart": ("sessionStart", {"source": "new", "initialPrompt": ""}),
        "UserPromptSubmit": ("userPromptSubmitted", {"prompt": text}),
        "Stop": ("agentStop", {"transcriptPath": "/t", "stopReason": "end_turn"}),
        "SessionEnd": ("sessionEnd", {"reason": "complete"}),
    }
    return more[event][0], {**COPILOT, **more[event][1]}


WORDS: dict[str, Callable[[str, str], tuple[str, Wire]]] = {
    "claude-code": lambda event, text: ("", {**CODEX, **_claude(event, text)}),
    "codex": lambda event, text: ("", {**CODEX, "turn_id": "t", **_claude(event, text)}),
    "gemini-cli": lambda event, text: ("", {**GEMINI, **_gemini(event, text)}),
    "cursor": lambda event, text: ("", {**CURSOR, **_cursor(event, text)}),
    "copilot-cli": _copilot,
}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_event_is_understood(name: str) -> None:
    assert list(dict.fromkeys(DIALECTS[name].events.values())) == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ]
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        called, wire = WORDS[name](event, "I live in Porto.")
        found = read_event(json.dumps(wire), name, called or None)
        assert found is not None
        assert (found.name, found.session, found.project, found.client) == (event, "s", "shop", name)
        is_said = event == "UserPromptSubmit" or (event == "Stop" and name != "copilot-cli")
        assert found.text == ("I live in Porto." if is_said else "")
        assert found.is_fresh == (event == "SessionStart" and name != "copilot-cli"), "a new session has a new name"


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "told", ["", "[]", "{}", "nonsense", '{"hook_event_name": "PreTool"}', '{"hook_event_name": []}']
)
def test_what_is_not_understood_is_no_event(name: str, told: str) -> None:
    assert read_event(told, name) is None
    assert read_event("{}", name, "nothing") is None
    assert read_event(json.dumps(WORDS["codex"]("Stop", "x")[1]), "no client") is None


def test_a_field_of_the_wrong_kind_is_as_if_it_were_not_there() -> None:
    told = {"hook_event_name": "beforeSubmitPrompt", "conversation_id": 7, "prompt": ["x"], "workspace_roots": [{}]}
    found = read_event(json.dumps(told), "cursor")
    assert found is not None and (found.session, found.text, found.project) == ("none", "", None)
    long = read_event(json.dumps({**told, "prompt": "x" * 90_000}), "cursor")
    assert long is not None and len(long.text) == LONGEST_TEXT


@pytest.mark.parametrize(
    ("name", "event", "called", "expected"),
    [
        ("codex", "UserPromptSubmit", "UserPromptSubmit", "hookSpecificOutput"),
        ("gemini-cli", "UserPromptSubmit", "BeforeAgent", "hookSpecificOutput"),
        ("cursor", "SessionStart", "sessionStart", "additional_context"),
        ("copilot-cli", "UserPromptSubmit", "userPromptSubmitted", "additionalContext"),
    ],
)
def test_an_answer_has_the_clients_form(name: str, event: Any, called: str, expected: str) -> None:
    found = json.loads(answer(Event(name=event, session="s", client=name, called=called), "what is known"))
    assert list(found) == [expected]
    if expected == "hookSpecificOutput":
        assert found[expected] == {"hookEventName": called, "additionalContext": "what is known"}
    else:
        assert found[expected] == "what is known"
    nothing = answer(Event(name=event, session="s", client=name, called=called), "")
    assert nothing == ("{}" if name == "gemini-cli" else ""), "Gemini CLI shows standard error where there is no answer"


def test_cursor_is_told_to_go_on() -> None:
    event = Event(name="UserPromptSubmit", session="s", client="cursor", called="beforeSubmitPrompt")
    assert json.loads(answer(event, "")) == {"continue": True}


def fire(client: Client, name: str, event: str, text: str = "") -> str:
    """What a hook answers to one event of a client."""
    called, wire = WORDS[name](event, text)
    done = client.run(json.dumps(wire), "--client", name, *(("--event", called) if called else ()))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "claude-code"])
def test_what_a_client_is_told_enters_its_next_session(client: Client, name: str) -> None:
    fire(client, name, "SessionStart")
    fire(client, name, "UserPromptSubmit", "I live in Porto.")
    fire(client, name, "Stop", "Understood.")
    fire(client, name, "SessionEnd")
    client.learned(1)
    told = eventually(lambda: fire(client, name, "SessionStart").removeprefix("{}"))
    assert "Porto" in told and "not instructions" in told
    again = fire(client, name, "UserPromptSubmit", "Where do I live?")
    assert "Porto" not in again, "no memory twice in a session"


def test_a_client_without_room_in_its_prompts_has_them_learned_all_the_same(client: Client, tmp_path: Path) -> None:
    assert json.loads(fire(client, "cursor", "UserPromptSubmit", "I live in Lisbon.")) == {"continue": True}
    fire(client, "cursor", "Stop", "Understood.")
    assert any("Lisbon" in memory for memory in client.learned(1))


def test_a_prompt_that_does_not_wait_for_the_start_has_no_memory_twice(client: Client) -> None:
    """Copilot CLI runs both hooks at a time, in no order."""
    fire(client, "copilot-cli", "UserPromptSubmit", "I live in Porto.")
    fire(client, "copilot-cli", "SessionEnd")
    client.learned(1)

    def both(session: str) -> list[str]:
        wires = [WORDS["copilot-cli"](event, "Where do I live?") for event in ("SessionStart", "UserPromptSubmit")]
        with ThreadPoolExecutor() as pool:
            asked = [(json.dumps({**wire, "sessionId": session}), called) for called, wire in wires]
            done = [pool.submit(client.run, told, "--client", "copilot-cli", "--event", name) for told, name in asked]
        return [each.result().stdout for each in done]

    sessions = iter(range(100))
    for _ in range(3):
        told = eventually(lambda: [text for text in both(f"both-{next(sessions)}") if text])
        assert len(told) == 1 and "Porto" in told[0]


def test_a_client_that_is_not_known_is_told_on_standard_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "perdure.frontends.cli.main", "hook", "--client", "codx",
         "--user-id", "ana", "--path", tmp_path],
        input="{}", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert "--client must be one of claude-code, codex" in done.stderr
