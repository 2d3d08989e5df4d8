"""A long history goes up as the state that it came to, its last turns and memories, over real HTTP."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.scope import Scope
from perdure.engine.chat.turn_log import own_session
from perdure.engine.write.provenance import bare_sentence
from perdure.pipeline.prompting.quoting import STATE, fingerprint, strip_injected
from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.scripts import Reply, completion, tool_call
from tests.frontends.gateway.talks import PATH, Numbered, Talk
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import JSON, Running

pytestmark = pytest.mark.covers("V83", "V84")

CHAT = "/v1/chat/completions"
SETTINGS: dict[str, Any] = {"compression": {"enabled": True}, "default_similarity_threshold": 0.0}
KEPT = 5
TOPIC = "We're planning a Hawaii vacation. My budget for the Hawaii trip is $10,000."


@pytest.fixture(scope="module", params=["native", "translated"])
def model(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    with upstream(responses=request.param == "native") as found:
        yield found


@pytest.fixture(scope="module")
def gateway(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway_to(tmp_path_factory.mktemp("memory"), model.url, gateway=knowing(model, SETTINGS)) as found:
        yield found


@pytest.fixture
def talk(gateway: Running, model: Upstream, who: str) -> Talk:
    if model.responses:
        model.always(PATH, Numbered())
    model.always(CHAT, Reply.of_json(completion("I see.")))
    return Talk(gateway, who)


def question(turn: int) -> str:
    return TOPIC if turn == 1 else f"And what about the weather in Hawaii on day {turn}?"


def turn_of(number: int) -> list[dict[str, Any]]:
    """One turn of a history; every fourth had a tool."""
    asked: dict[str, Any] = {"role": "user", "content": question(number)}
    answer = {"role": "assistant", "content": f"It will be sunny on day {number}. " * 8}
    if number % 4:
        return [asked, answer]
    call = {"role": "assistant", "content": None, "tool_calls": [tool_call("weather", {}, f"call_{number}")]}
    return [asked, call, {"role": "tool", "tool_call_id": f"call_{number}", "content": "Sunny."}, answer]


def history(turns: int) -> list[dict[str, Any]]:
    """What a client sends with a turn: all that was said before, and the question."""
    before = [message for number in range(1, turns) for message in turn_of(number)]
    return [{"role": "system", "content": "Be kind."}, *before, {"role": "user", "content": question(turns)}]


def chat(talk: Talk, messages: list[dict[str, Any]], **more: Any) -> bytes:
    """One request; its body."""
    body = json.dumps({"model": "m", "messages": messages, **more}, indent=1).encode()
    talk.gateway.client.post(
        CHAT, content=body, headers={**JSON, **talk.headers, "x-session-id": "s"}
    ).raise_for_status()
    return body


def until_told(talk: Talk, name: str = "s") -> None:
    """Wait until there is a state of the session."""

    async def told() -> bool:
        kernel = talk.gateway.service.engine.kernel
        found = await own_session(kernel, await kernel.required_ledger(), name, Scope(user_id=talk.user))
        return found is not None and bool(found.state)

    for _ in range(2000):
        if talk.gateway.wait(told()):
            return
        time.sleep(0.005)
    raise AssertionError("no state was built")


def states(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where the state stands."""
    return [each for each in messages if STATE in str(each.get("content"))]


@pytest.mark.covers("V84")
def test_turn_sixty_goes_up_as_state_last_turns_and_memories(talk: Talk, model: Upstream) -> None:
    talk.remember("User's hotel in Hawaii is the Hilton")
    for turn in range(1, 61):
        chat(talk, history(turn))
        talk.settled()
        if turn == 12:
            until_told(talk)
    whole, went_up = history(60), model.last.messages
    system, state, *turns = went_up
    assert system == whole[0]
    assert state["role"] == "system"
    assert "$10,000" in state["content"]
    assert "Hawaii" in state["content"]
    assert [each["content"] for each in turns if each["role"] == "user"][:-1] == [question(n) for n in range(56, 60)]
    assert turns[:-1] == [message for number in range(56, 60) for message in turn_of(number)]
    assert [each["tool_call_id"] for each in turns if each["role"] == "tool"] == ["call_56"]
    assert "[memory] User's hotel in Hawaii is the Hilton" in turns[-1]["content"]
    assert strip_injected(turns[-1]["content"]) == question(60)
    assert strip_injected(state["content"]) == ""
    assert len(json.dumps(went_up)) < len(json.dumps(whole)) / 5


@pytest.mark.covers("V84")
def test_a_request_without_memory_is_not_made_short(talk: Talk, model: Upstream) -> None:
    for turn in range(1, 13):
        chat(talk, history(turn))
        talk.settled()
    until_told(talk)
    headers = {**JSON, **talk.headers, "x-session-id": "s", "x-disable-router-memory": "true"}
    body = json.dumps({"model": "m", "messages": history(13)}).encode()
    talk.gateway.client.post(CHAT, content=body, headers=headers).raise_for_status()
    assert model.last.body == body


@pytest.mark.covers("V84")
def test_a_chain_that_is_kept_here_goes_up_short(talk: Talk, model: Upstream) -> None:
    previous: str | None = None
    first: str | None = None
    for turn in range(1, 16):
        previous = talk.say(question(turn), previous_response_id=previous, instructions="Be kind.")
        first = first or previous
        talk.settled()
        if turn == 12 and not model.responses:
            until_told(talk, first)
    if model.responses:
        assert model.last.json["input"] == question(15), "the model's server keeps the chain"
        return
    sent = model.last.messages
    asked = [each["content"] for each in sent if each["role"] == "user"]
    assert asked == [question(n) for n in range(11, 16)]
    assert "$10,000" in states(sent)[0]["content"]
    assert sent[0]["role"] == "system"
    assert sent[0]["content"].startswith("Be kind.")
    listed = talk.gateway.client.get(f"{PATH}/{previous}/input_items", headers=talk.headers).json()["data"]
    assert [each["content"][0]["text"] for each in listed] == [question(15)], "what is kept is what was asked"


@pytest.mark.covers("V84")
def test_items_that_a_client_sends_whole_go_up_short(talk: Talk, model: Upstream) -> None:
    items: list[dict[str, Any]] = []
    for turn in range(1, 16):
        items.append({"role": "user", "content": question(turn)})
        talk.post(items, store=False)
        talk.settled()
        if turn == 12:
            mark = hashlib.sha256(f"{talk.user}:{question(1)}".encode()).hexdigest()
            until_told(talk, f"cc-{mark[:16]}")
        call = {"type": "function_call", "call_id": f"c{turn}", "name": "f", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": f"c{turn}", "output": "Sunny."}
        items += [call, result, {"role": "assistant", "content": f"Sunny on day {turn}."}]
    sent = model.last.json["input"] if model.responses else model.last.messages
    asked = [each["content"] for each in sent if each.get("role") == "user"]
    assert [strip_injected(each) for each in asked] == [question(n) for n in range(11, 16)]
    assert len(states(sent)) == 1
    if model.responses:
        assert sent[1:] == items[-20:-3]
        assert [each["call_id"] for each in sent if each.get("type") == "function_call"] == [
            f"c{number}" for number in range(11, 15)
        ]


@pytest.mark.covers("V83")
def test_compression_is_off_unless_it_is_asked_for(model: Upstream, tmp_path: Any, who: str) -> None:
    with gateway_to(tmp_path, model.url, gateway={"summaries": False}) as off:
        talk = Talk(off, who)
        for turn in (1, 11, 20, 60):
            body = chat(talk, [each for each in history(turn + 1) if each["content"] != TOPIC])
            talk.settled()
            assert model.last.body == body


@pytest.mark.covers("V84")
@pytest.mark.parametrize("compresses", [True, False], ids=["state", "whole"])
def test_the_words_of_a_state_that_went_up_are_noted_as_injected(
    tmp_path: Path, model: Upstream, who: str, compresses: bool
) -> None:
    """The state's own words were put into the prompt by perdure: who repeats them has said nothing new."""
    settings = knowing(model, {**SETTINGS, "compression": {"enabled": compresses}, "summaries": False})
    plan = "We decided to stay at the Hilton Waikiki"
    model.always(CHAT, Reply.of_json(completion("I see.")))
    with gateway_to(tmp_path / "memory", model.url, gateway=settings) as gateway:
        talk = Talk(gateway, who)
        said = [TOPIC, f"{plan}.", *(question(turn) for turn in range(3, 14))]
        for turn, text in enumerate(said, 1):
            chat(talk, [*(message for each in said[: turn - 1] for message in pair(each)), user(text)])
            talk.settled()
        if compresses:
            until_told(talk)
            chat(talk, [*(message for each in said for message in pair(each)), user("Where do we stay?")])
            talk.settled()
            (state,) = states(model.last.messages)
            words = json.loads(next(line for line in state["content"].splitlines() if line.startswith("{")))
            texts = [each for value in words.values() for each in (value if isinstance(value, list) else [value])]
        else:
            texts = [plan]
        scope = Scope(user_id=who)

        async def noted() -> set[str]:
            ledger = await gateway.service.ledger()
            return await ledger.known_fingerprints(scope, {fingerprint(bare_sentence(text)) for text in texts})

        assert texts and len(gateway.wait(noted())) == (len({*texts}) if compresses else 0)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def pair(text: str) -> list[dict[str, Any]]:
    return [user(text), {"role": "assistant", "content": "I see."}]
