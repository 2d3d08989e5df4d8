"""Memory in responses, before servers that have the API and before those that have only chat."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.scripts import Play, Reply, chat_events, completion, response_events, tool_call
from tests.frontends.gateway.talks import PATH, Numbered, Talk
from tests.frontends.gateway.upstream import Upstream, upstream
from tests.frontends.server.running import Running

CHAT = "/v1/chat/completions"
BUDGET = "User's budget for the Hawaii trip is $10,000"
QUESTION = "What is my budget for the Hawaii trip?"
SETTINGS: dict[str, Any] = {"default_similarity_threshold": 0.2}
_users = itertools.count()


@pytest.fixture(scope="module", params=["native", "translated"])
def model(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    with upstream(responses=request.param == "native") as found:
        yield found


@pytest.fixture(scope="module")
def gateway(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway_to(tmp_path_factory.mktemp("memory"), model.url, gateway=knowing(model, SETTINGS)) as found:
        yield found


@pytest.fixture
def talk(gateway: Running, model: Upstream) -> Talk:
    """A user of one test's own; every response of the model's server has an id of its own."""
    if model.responses:
        model.always(PATH, Numbered())
    return Talk(gateway, f"user-{next(_users)}")


def instructions(model: Upstream) -> str:
    """What the model was told beside what the user said."""
    if model.responses:
        return model.last.json.get("instructions") or ""
    return "\n".join(each["content"] for each in model.last.messages if each["role"] == "system")


def users(model: Upstream) -> list[Any]:
    """What the model was told that the user said."""
    if not model.responses:
        return [each["content"] for each in model.last.messages if each["role"] == "user"]
    given = model.last.json["input"]
    return [given] if isinstance(given, str) else [each["content"] for each in given if each.get("role") == "user"]


def text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part["text"] for part in content)


@pytest.mark.covers("V28")
@pytest.mark.covers("V28")
def test_memory_stands_in_the_instructions_after_the_clients_own(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET)
    found = talk.post(QUESTION, instructions="You are Phoenix-2026.")
    told = instructions(model)
    assert told.startswith("You are Phoenix-2026.\n\n<perdure-memory")
    assert f"## User's Relevant Context\n\n- {BUDGET}" in told
    assert told.rstrip().endswith("</perdure-memory>")
    assert users(model) == [QUESTION]
    assert found.headers["x-memory-status"] == "used"
    assert found.headers["x-memory-reason"] == "injected"
    assert found.json().get("instructions") in (None, "You are Phoenix-2026.")


@pytest.mark.covers("U14")
def test_the_same_memories_give_the_same_bytes(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET)
    options = {"memory_config": {"auto_store": False}}
    talk.say(QUESTION, **options)
    first = model.last.body
    talk.say(QUESTION, **options)
    assert model.last.body == first


@pytest.mark.covers("U14")
@pytest.mark.parametrize("injection", ["prepend_user", "user_message"])
@pytest.mark.parametrize("given", ["text", "parts"])
def test_memory_may_stand_with_the_users_words(model: Upstream, tmp_path: Path, injection: str, given: str) -> None:
    with gateway_to(tmp_path, model.url, gateway={**SETTINGS, "responses_injection": injection}) as gateway:
        talk = Talk(gateway, "ana")
        talk.remember(BUDGET)
        parts = [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
        talk.say(QUESTION if given == "text" else parts, instructions="Be brief.")
    assert instructions(model) == "Be brief."
    said = [text(each) for each in users(model)]
    assert len(said) == (1 if injection == "prepend_user" else 2)
    assert f"[memory] {BUDGET}" in said[0]
    assert said[-1].endswith(QUESTION)
    assert ("Current message: " in said[0]) == (injection == "prepend_user")


@pytest.mark.covers("V57")
@pytest.mark.covers("V57")
def test_limit_and_threshold_of_one_request(talk: Talk, model: Upstream) -> None:
    for amount in (1, 2, 3):
        talk.remember(f"User's budget for trip number {amount} to Hawaii is {amount},000 dollars")
    talk.say(QUESTION)
    assert instructions(model).count("User's budget") == 3
    talk.say(QUESTION, memory_config={"retrieval_limit": 1, "auto_store": False})
    assert instructions(model).count("\n- User's budget") == 1
    found = talk.post(QUESTION, memory_config={"similarity_threshold": 1.0})
    assert "\n- User's budget" not in instructions(model)
    assert found.headers["x-memory-status"] in ("missing", "used")  # used where a summary is told


@pytest.mark.covers("V56")
@pytest.mark.covers("V56")
def test_types_of_one_request(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET, type="semantic")
    talk.remember("To pay from the Hawaii trip budget: open the budget app, then press trip", type="procedural")
    talk.say(QUESTION, memory_config={"memory_types": ["semantic"], "auto_store": False})
    assert BUDGET in instructions(model)
    assert "press trip" not in instructions(model)
    talk.say(QUESTION, memory_config={"memory_types": ["procedural"], "auto_store": False})
    assert BUDGET not in instructions(model)
    assert "press trip" in instructions(model)


@pytest.mark.covers("V54")
@pytest.mark.covers("V26", "V54")
def test_a_projects_memories_are_its_own(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET, project_id="P")
    talk.remember("User's budget for the Hawaii trip of project Q is $7", project_id="Q")
    talk.say(QUESTION, memory_context={"user_id": talk.user, "project_id": "P"})
    assert BUDGET in instructions(model)
    assert "$7" not in instructions(model)
    talk.say(QUESTION, headers={"x-memory-project-id": "Q"})
    assert "$7" in instructions(model)
    assert BUDGET not in instructions(model)


@pytest.mark.covers("B24", "V53")
def test_users_see_only_their_own(talk: Talk, model: Upstream) -> None:
    talk.remember("User drives a red Tesla")
    other = Talk(talk.gateway, f"{talk.user}-other")
    other.remember("User drives a blue Camry")
    anything: dict[str, Any] = {"memory_config": {"similarity_threshold": 0}}
    talk.say("What car do I drive?", **anything)
    assert "Tesla" in instructions(model)
    assert "Camry" not in instructions(model)
    other.say("What car do I drive?", **anything)
    assert "Camry" in instructions(model)
    assert "Tesla" not in instructions(model)
    # The header of an authenticating proxy counts, whatever the body says.
    talk.say("What car do I drive?", memory_context={"user_id": other.user}, user=other.user, **anything)
    assert "Camry" not in instructions(model)


@pytest.mark.covers("B15", "V55")
@pytest.mark.covers("B15", "V55")
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"memory_config": {"enabled": False}}, "policy_blocked"),
        ({"headers": {"x-disable-router-memory": "true"}}, "policy_blocked"),
    ],
)
def test_without_memory_nothing_is_recalled_or_kept(
    talk: Talk, model: Upstream, given: dict[str, Any], status: str
) -> None:
    talk.remember(BUDGET)
    found = talk.post(QUESTION, **given)
    assert found.headers["x-memory-status"] == status
    assert instructions(model) == ""
    assert talk.said() == []


@pytest.mark.covers("V46")
@pytest.mark.covers("V46")
def test_what_a_request_does_not_store_is_only_recalled(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET)
    talk.say(QUESTION, memory_config={"auto_store": False})
    assert BUDGET in instructions(model)
    assert talk.said() == []


@pytest.mark.covers("A4")
@pytest.mark.covers("A4")
def test_a_limit_of_none_recalls_nothing_and_keeps_what_is_said(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET)
    found = talk.post(QUESTION, memory_top_k=0)
    assert found.headers["x-memory-status"] == "policy_blocked"
    assert instructions(model) == ""
    assert talk.said()[0] == ("user", QUESTION)


@pytest.mark.covers("B16")
@pytest.mark.covers("B16")
def test_a_request_may_store_where_the_settings_do_not(model: Upstream, tmp_path: Path) -> None:
    with gateway_to(tmp_path, model.url, gateway={**SETTINGS, "auto_store": False}) as gateway:
        talk = Talk(gateway, "ana")
        talk.say("I live in Lisbon.")
        assert talk.said() == []
        talk.say("I live in Porto.", memory_config={"auto_store": True})
        assert talk.said()[0] == ("user", "I live in Porto.")


@pytest.mark.covers("V89")
@pytest.mark.covers("V89")
def test_switched_off_every_request_passes_untouched(model: Upstream, tmp_path: Path) -> None:
    with gateway_to(tmp_path, model.url, gateway={"enabled": False}) as gateway:
        talk = Talk(gateway, "ana")
        talk.remember(BUDGET)
        found = talk.post(QUESTION)
        assert found.headers["x-memory-status"] == "disabled"
        assert instructions(model) == ""
        assert talk.said() == []


@pytest.mark.covers("V90")
def test_memory_comes_on_top_of_a_chain_and_does_not_pile_up_in_it(talk: Talk, model: Upstream) -> None:
    talk.remember(BUDGET)
    first = talk.say(QUESTION)
    talk.say("And how much is left of my Hawaii trip budget?", previous_response_id=first)
    if model.responses:
        assert model.last.json["previous_response_id"] == first
        return
    assert instructions(model).count(f"- {BUDGET}") == 1
    roles = [each["role"] for each in model.last.messages]
    assert roles == ["system", "user", "assistant", "user"]
    kept = talk.gateway.client.get(f"{PATH}/{first}/input_items", headers=talk.headers).text
    assert "perdure-memory" not in kept


@pytest.mark.covers("B24")
def test_content_comes_back_as_it_was_said(talk: Talk, model: Upstream) -> None:
    facts = "My employee number is EMP-90210. I started on 2024-03-15. My manager is Evelyn Zhao. I work in Building 7."
    session = talk.say(facts)
    assert talk.end(session).status_code == 200
    talk.say("Who is my manager, and what is my employee number?")
    told = instructions(model)
    for word in ("EMP-90210", "Evelyn Zhao"):
        assert word in told


# ---------------------------------------------------------------------- what is kept
@pytest.mark.covers("V53", "V65")
def test_what_was_said_in_one_session_is_known_in_the_next(talk: Talk, model: Upstream) -> None:
    session = talk.say("My budget for the Hawaii trip is $10,000.")
    assert talk.said()[0] == ("user", "My budget for the Hawaii trip is $10,000.")
    ended = talk.end(session).json()
    assert (ended["turns"], ended["is_read"]) == (1, True)
    assert any("$10,000" in each for each in talk.memories)
    talk.say(QUESTION)
    assert "$10,000" in instructions(model)


@pytest.mark.covers("V32", "V34")
def test_two_chains_count_their_own_turns(talk: Talk, model: Upstream) -> None:
    chains = {name: [talk.say(f"I like {name} very much.")] for name in ("tea", "jazz")}
    for turn in range(2, 11):
        for name, ids in chains.items():
            ids.append(talk.say(f"I have {turn} books about {name}.", previous_response_id=ids[-1]))
        if turn == 9:
            talk.settled()
            for name, ids in chains.items():
                found = talk.session(ids[0])
                assert found is not None
                # The first turn of the one was read when the other began: it might have been over.
                assert (found["turns"], found["read_turns"]) == (9, 1 if name == "tea" else 0)
    for ids in chains.values():
        talk.until_read(ids[0], 10)
        found = talk.session(ids[-1])  # any response of a chain names its session
        assert found is not None
        assert (found["id"], found["turns"], found["read_turns"]) == (ids[0], 10, 10)


@pytest.mark.covers("B16")
@pytest.mark.covers("B16", "V32")
@pytest.mark.parametrize("stored", [False, None], ids=["store false", "store not said"])
def test_a_client_that_holds_what_was_said_is_in_one_session(talk: Talk, model: Upstream, stored: bool | None) -> None:
    held: list[dict[str, Any]] = []
    more = {} if stored is None else {"store": stored}
    for turn in range(1, 11):
        held.append({"role": "user", "content": f"I have {turn} books about tea."})
        last = talk.say(held, **more)
        held.append({"role": "assistant", "content": "I see."})
    talk.settled()
    mark = hashlib.sha256(f"{talk.user}:I have 1 books about tea.".encode()).hexdigest()
    found = talk.session(f"cc-{mark[:16]}")
    assert found is not None
    assert found["turns"] == (10 if stored is False else 9), (
        "who may go on from the first answer is not known to hold it"
    )
    if stored is None:
        assert (talk.session(last) or {})["id"] == found["id"]


@pytest.mark.covers("V32")
def test_the_conversation_of_the_models_server_is_a_session(talk: Talk, model: Upstream) -> None:
    if not model.responses:
        return  # it has none, and says so
    for conversation in ("conv_1", {"id": "conv_1"}, "conv_2"):
        talk.say("I live in Lisbon.", conversation=conversation)
    talk.settled()
    assert [(talk.session(name) or {})["turns"] for name in ("conv_1", "conv_2")] == [2, 1]


def test_item3_a_request_may_name_its_session(talk: Talk, model: Upstream) -> None:
    for _ in range(2):
        talk.say("I live in Lisbon.", headers={"x-session-id": "monday"})
    talk.settled()
    found = talk.session("monday")
    assert found is not None
    assert found["turns"] == 2


@pytest.mark.covers("K37")
def test_a_stream_is_kept_as_it_was_said(talk: Talk, model: Upstream) -> None:
    if not model.responses:
        model.chat(Reply.stream(chat_events(["One ", "answer."])))
    body = {"model": "m", "input": "I live in Lisbon.", "stream": True}
    with talk.gateway.client.stream("POST", PATH, json=body, headers=talk.headers) as found:
        found.read()
    assert talk.until_said(2) == [("user", "I live in Lisbon."), ("assistant", "One answer.")]


def test_item1_who_leaves_is_worked_for_no_longer_and_remembered(talk: Talk, model: Upstream) -> None:
    if model.responses:
        data = response_events(["Half ", "an answer "], response_id=f"resp_{talk.user}")
        model.play(PATH, Reply.stream(data[: data.index(b"event: response.output_text.done")], Play.HANG))
    else:
        data = chat_events(["Half ", "an answer "])
        model.chat(Reply.stream(data[: data.index(b'"finish_reason": "stop"') - 200], Play.HANG))
    body = {"model": "m", "input": "I live in Lisbon.", "stream": True}
    with talk.gateway.client.stream("POST", PATH, json=body, headers=talk.headers) as found:
        for line in found.iter_lines():
            if "Half" in line and "delta" in line:
                break
    assert model.until(lambda: model.gone == 1)
    said = talk.until_said(2)
    assert said[0] == ("user", "I live in Lisbon.")
    assert said[1][0] == "assistant"
    assert said[1][1].startswith("Half")


def test_item1_a_refused_request_is_not_remembered(talk: Talk, model: Upstream) -> None:
    model.play(PATH if model.responses else CHAT, Reply.error(429))
    body = {"model": "m", "input": "I live in Lisbon."}
    assert talk.gateway.client.post(PATH, json=body, headers=talk.headers).status_code == 429
    assert talk.said() == []


def test_item1_the_users_words_are_kept_once_however_often_tools_are_asked(talk: Talk, model: Upstream) -> None:
    if model.responses:
        first = talk.say("What is the weather where I live?")
    else:
        model.chat(Reply.of_json(completion(None, tool_calls=[tool_call("weather", {}, "c1")])))
        first = talk.say("What is the weather where I live?")
    result = {"type": "function_call_output", "call_id": "c1", "output": "sunny in Lisbon"}
    talk.say([result], previous_response_id=first)
    said = talk.said()
    assert [each for each in said if each[0] == "user"] == [("user", "What is the weather where I live?")]
    assert ("tool", "sunny in Lisbon") in said
    session = talk.session(first)
    assert session is not None and session["turns"] == 1, "what a tool said belongs to the turn that asked for it"
    talk.say("And tomorrow, over there?", previous_response_id=first)
    talk.settled()
    assert (talk.session(first) or {})["turns"] == 2


@pytest.mark.covers("V58")
def test_the_specs_own_example(talk: Talk, model: Upstream) -> None:
    user = {"memory_context": {"user_id": talk.user}, "memory_config": {"enabled": True, "auto_store": True}}
    client = talk.gateway.client
    first = client.post(PATH, json={"model": "qwen3", "input": "My budget for the trip is $10,000.", **user}).json()[
        "id"
    ]
    body = {"model": "qwen3", "input": "What's my budget for the trip?", "previous_response_id": first, **user}
    found = client.post(PATH, json=body)
    assert found.status_code == 200
    talk.settled()
    session = talk.session(first)
    assert session is not None
    assert session["turns"] == 2


def test_item5_what_is_forgotten_is_gone_from_chains_too(talk: Talk, model: Upstream) -> None:
    if not model.responses:  # an echo would say the budget again
        model.chat(*(Reply.of_json(completion(answer)) for answer in ("I see.", "It is warm.")))
    first = talk.say("My budget for the Hawaii trip is $10,000.")
    second = talk.say("What about the weather over there?", previous_response_id=first)
    assert talk.end(first).status_code == 200
    talk.settled()
    found = talk.gateway.client.get("/v1/memory?limit=100", headers=talk.headers).json()["memories"]
    for each in found:
        if "$10,000" in each["content"] and each["type"] == "semantic":
            talk.gateway.client.delete(f"/v1/memory/{each['id']}", headers=talk.headers)
    talk.say("And when is it warm there?", previous_response_id=second)
    if model.responses:
        return  # what the server's own chain holds is the server's
    assert "$10,000" not in model.last.body.decode()
    assert "What about the weather over there?" in model.last.body.decode()
    assert talk.gateway.client.get(f"{PATH}/{first}", headers=talk.headers).status_code == 404
