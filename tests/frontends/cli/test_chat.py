"""perdure chat, as a real process that talks to a real server on a real port."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.wire.openai import KEY, OpenAIWire, Says, failure
from tests.frontends.cli.runs import PROGRAM, Folder, Ran, perdure

SOON = 60.0


@pytest.fixture
def wire() -> Iterator[OpenAIWire]:
    with OpenAIWire() as server:
        yield server


def talking(path: Path, wire: OpenAIWire, *answers: Any) -> Folder:
    """A folder whose settings name the model; the rules learn."""
    wire.answers += answers
    path.mkdir(parents=True, exist_ok=True)
    (path / "perdure.toml").write_text(
        'curator = "rules"\n[embedder]\nprovider = "hashed"\n[llm]\nprovider = "openai"\n'
        f'config = {{ model = "gpt-4o-mini", base_url = "{wire.base_url}", api_key = "{KEY}", retries = 0 }}\n',
        encoding="utf-8",
    )
    return Folder(path)


def asked(wire: OpenAIWire, number: int) -> list[dict[str, str]]:
    messages: list[dict[str, str]] = wire.bodies()[number]["messages"]
    return messages


def test_a_turn_streams_recalls_and_learns(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, "Lisbon is lovely!", "You live in Lisbon.")
    ran = at("chat", "--user-id", "ana", stdin="I live in Lisbon\n\nIn which city do I live?\n")
    assert (ran.status, ran.out) == (0, "Lisbon is lovely!\nYou live in Lisbon.\n")
    assert "learned   User lives in Lisbon" in ran.err
    assert at.texts() == ["User lives in Lisbon"]
    first, second = wire.bodies()
    assert first["stream"] is True and second["stream"] is True
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert second["messages"][2]["content"] == "Lisbon is lovely!"
    assert ran.err.count("1 model call, 20 tokens in, 7 out, $0.0000") == 2


def test_what_an_earlier_session_told_is_recalled(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, "Noted.", "Try the market in Lisbon.", "I do not know.")
    at("chat", "I live in Lisbon", "--user-id", "ana")
    ran = at("chat", "User lives where, Lisbon?", "--user-id", "ana")
    assert "recalled  User lives in Lisbon" in ran.err
    system = asked(wire, 1)[0]
    assert system["role"] == "system" and '"User lives in Lisbon"' in system["content"]
    other = at("chat", "User lives where, Lisbon?", "--user-id", "bo")
    assert "recalled" not in other.err


@pytest.mark.parametrize("word", ["/quit", "/exit", "/QUIT"])
def test_a_word_ends_the_conversation_and_is_not_said(tmp_path: Path, wire: OpenAIWire, word: str) -> None:
    at = talking(tmp_path, wire, "Lisbon is lovely!")
    ran = at("chat", "--user-id", "ana", stdin=f"I live in Lisbon\n{word}\nI live in Rome\n")
    assert (ran.status, ran.out) == (0, "Lisbon is lovely!\n")
    assert len(wire.bodies()) == 1 and at.texts() == ["User lives in Lisbon"]


def test_help_is_told_and_not_said(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, "It lists users.")
    ran = at("chat", "--user-id", "ana", stdin="/help\nWhat is /etc/passwd?\n")
    assert (ran.status, ran.out) == (0, "It lists users.\n")
    assert all(word in ran.err for word in ("/quit", "/exit", "/help", "Control-D"))
    (only,) = wire.bodies()
    assert [message["content"] for message in only["messages"] if message["role"] == "user"] == ["What is /etc/passwd?"]


def test_json_is_a_line_for_each_turn(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, "Hello Ana.", "Yes.")
    ran = at("chat", "--user-id", "ana", "--json", stdin="My name is Ana\nIs my name Ana?\n")
    first, second = map(json.loads, ran.out.splitlines())
    assert first["answer"] == "Hello Ana." and [each["event"] for each in first["learned"]] == ["ADD"]
    assert second["said"] == "Is my name Ana?" and [item["memory"] for item in second["recalled"]] == [
        "User's name is Ana"
    ]
    assert first["usage"]["calls"] == 1 and first["usage"]["cost"] > 0
    assert ran.err == ""


def test_a_model_that_fails_loses_nothing_of_what_was_said(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, failure("server"), "Still here.", failure("overloaded"))
    ran = at("chat", "--user-id", "ana", stdin="I have a cat called Fritzi\nhello\n")
    assert (ran.status, ran.out) == (1, "Still here.\n")
    assert "status 500" in ran.err
    assert any("Fritzi" in text for text in at.texts())
    once = at("chat", "hello", "--user-id", "ana")
    assert once.status == 1 and "perdure: " in once.err


def reading(at: Folder) -> Folder:
    """The same, and the model learns."""
    settings = at.path / "perdure.toml"
    settings.write_text(settings.read_text().replace('curator = "rules"', 'curator = "llm"\nreconcile = "append"'))
    return at


def found(*texts: str) -> str:
    return json.dumps({"facts": texts})


def read_by_model(wire: OpenAIWire) -> list[str]:
    return [body["messages"][1]["content"].rpartition("\n\n")[2] for body in wire.bodies() if not body.get("stream")]


def test_a_slow_model_reads_several_turns_in_one_call_and_the_end_reads_the_rest(
    tmp_path: Path, wire: OpenAIWire
) -> None:
    answers = ["Lovely!", "Nice.", found("User lives in Lisbon", "User has a dog"), "Good.", found("User plays chess")]
    at = reading(talking(tmp_path, wire, *answers))
    ran = at("chat", "--user-id", "ana", "--every", "2", stdin="I live in Lisbon\nI have a dog\nI play chess\n")
    assert (ran.status, ran.out) == (0, "Lovely!\nNice.\nGood.\n")
    assert at.texts() == ["User lives in Lisbon", "User has a dog", "User plays chess"]
    assert read_by_model(wire) == [
        "user: I live in Lisbon\nassistant: Lovely!\nuser: I have a dog\nassistant: Nice.",
        "user: I play chess\nassistant: Good.",
    ]
    assert ran.err.index("User has a dog") < ran.err.index("User plays chess")
    assert at("doctor").status == 0


def test_turns_that_wait_are_searched_and_the_next_chat_or_a_repair_reads_them(
    tmp_path: Path, wire: OpenAIWire
) -> None:
    at = reading(talking(tmp_path, wire, "Lovely!", "rubbish"))
    ran = at("chat", "I live in Lisbon", "--user-id", "ana", "--every", "5")
    assert ran.err.count("no facts were extracted, the messages are kept") == 1 and at.texts() == []
    assert "I live in Lisbon" in at("search", "Lisbon", "--user-id", "ana").out
    wire.answers += ["Nice.", found("User lives in Lisbon", "User has a dog")]
    ran = at("chat", "I have a dog", "--user-id", "ana", "--every", "5", "--json")
    turn, end = map(json.loads, ran.out.splitlines())
    assert turn["learned"] == [] and [each["memory"] for each in end["learned"]] == at.texts()
    assert at.texts() == ["User lives in Lisbon", "User has a dog"] and end["usage"]["calls"] == 1
    wire.answers += ["Good.", failure("server"), found("User plays chess")]
    at("chat", "I play chess", "--user-id", "ana", "--every", "5")
    assert at("doctor", "--repair").status == 0 and at.texts()[2:] == ["User plays chess"]


def test_thoughts_are_not_said_again(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, "<think>She lives in Rome.</think>\nGood.", "Fine.")
    at("chat", "--user-id", "ana", stdin="hello there\nhow are you?\n")
    assert asked(wire, 1)[2] == {"role": "assistant", "content": "Good."}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("hello", "--user-id", "ana"), "there is no language model to talk to"),
        (("hello", "--user-id", "ana", "--model", "gpt-5"), "names no provider"),
        (("hello", "--user-id", "ana", "--model", "openai/gpt-5"), "OPENAI_API_KEY"),
        (("hello",), "At least one of user_id, agent_id, or run_id"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_written(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    ran = perdure("chat", *arguments, "--path", str(tmp_path / "none"), env=env)
    assert ran.status == 2 and complaint in ran.err
    assert not (tmp_path / "none").exists()


def test_another_model_of_the_configured_provider(tmp_path: Path, wire: OpenAIWire) -> None:
    at = talking(tmp_path, wire, "One.", "Two.")
    for model in ("gpt-4.1-mini", "openai/gpt-4.1-mini"):
        ran = at("chat", "hello", "--user-id", "ana", "--model", model)
        assert ran.status == 0, ran.err
    assert [body["model"] for body in wire.bodies()] == ["gpt-4.1-mini"] * 2


def test_control_c_cuts_an_answer_short_and_the_conversation_goes_on(tmp_path: Path, wire: OpenAIWire) -> None:
    endless = Says("word " * 400, pause=0.05)
    at = talking(tmp_path, wire, endless, "And now?")
    with Screen("chat", "--user-id", "ana", "--path", str(at.path)) as screen:
        screen.until("> ")
        screen.type("I live in Lisbon\n")
        screen.until("word word")
        screen.process.send_signal(signal.SIGINT)
        assert "cut short" in screen.until("learned   User lives in Lisbon")
        screen.until("> ")
        screen.type("go on\n")
        screen.until("And now?")
        screen.until("> ")
        screen.type("\x04")
        assert screen.process.wait(SOON) == 0
    said = asked(wire, 1)[2]
    assert said["role"] == "assistant" and said["content"].startswith("word word")
    assert len(said["content"]) < len("word " * 400)


class Screen:
    """The program on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen([*PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self._shown = ""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def until(self, wanted: str) -> str:
        """What is shown up to and with the text, since the last time."""
        end = time.monotonic() + SOON
        while wanted not in self._shown:
            assert time.monotonic() < end, f"{wanted!r} did not appear in {self._shown!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                self._shown += os.read(self._terminal, 4096).decode("utf-8", "replace")
        before, _, self._shown = self._shown.partition(wanted)
        return before + wanted


def test_help_shows_how(tmp_path: Path) -> None:
    ran: Ran = perdure("chat", "--help")
    assert ran.status == 0 and "--model" in ran.out and "Example:" in ran.out
