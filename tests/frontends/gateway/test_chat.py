"""POST /v1/chat/completions over real HTTP: what goes up, what comes back, and what is remembered."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.frontends.gateway.chat import with_hits
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Play, Reply, completion, tool_call
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import JSON, Running

PATH = "/v1/chat/completions"


def ask(gateway: Running, *said: Any, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    """One chat: texts are the user's, all else are messages."""
    messages = [{"role": "user", "content": each} if isinstance(each, str) else each for each in said]
    return gateway.client.post(PATH, json={"model": "m", "messages": messages, **more}, headers=headers)


def settled(gateway: Running) -> None:
    """Wait until all is kept that answers did not wait for."""
    deadline = time.monotonic() + 30
    while gateway.app.state.gateway.under_way:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def episodes(gateway: Running, **scope: str) -> list[tuple[str, str]]:
    """What was kept of what was said in a scope, in order: roles and texts."""
    settled(gateway)

    async def read() -> list[tuple[str, str]]:
        found = await (await gateway.service.ledger()).recent_episodes(Scope(**scope), 100)
        return [(each.role, each.content) for each in found]

    return gateway.wait(read())


def store(gateway: Running, user: str, *facts: str, **more: Any) -> None:
    for fact in facts:
        answer = gateway.client.post("/v1/memory", json={"content": fact, "user_id": user, **more})
        assert answer.status_code == 200, answer.text


# ------------------------------------------------------------------ what goes up
@pytest.mark.covers("V29")
@pytest.mark.covers("V29")
def test_without_memories_the_bytes_go_up_as_they_are(gateway: Running, model: Upstream, who: str) -> None:
    body = b'{ "messages":[ {"role":"user","content":"\\u00e9 \xf0\x9f\x98\x80","x":1.50}],"t":1e-1,"\xc3\xa9":null}'
    answer = gateway.client.post(f"{PATH}?api-version=2&x=%2F", content=body, headers={**JSON, "x-authz-user-id": who})
    assert answer.headers["x-memory-status"] == "missing"
    assert model.last.body == body
    assert model.last.target == f"{PATH}?api-version=2&x=%2F"


@pytest.mark.covers("A7")
@pytest.mark.covers("A7")
def test_ours_is_taken_out_and_every_other_field_goes_up(gateway: Running, model: Upstream, who: str) -> None:
    theirs = {
        "temperature": 0.25, "max_tokens": 7, "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "auto", "response_format": {"type": "json_object"}, "stop": ["x"], "logit_bias": {"5": -100},
        "unknown": {"deep": [1, None, "é"]}, "user": who, "metadata": {"a": "b"},
    }  # fmt: skip
    ours = {
        "memory_id": "trip", "memory_top_k": 3, "memory_recency_weight": 0.1, "memory_score_threshold": 0.2,
        "memory_config": {"enabled": True}, "memory_context": {"user_id": who},
    }  # fmt: skip
    assert ask(gateway, "Where was I?", **theirs, **ours).status_code == 200
    assert model.last.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "Where was I?"}],
        **theirs,
    }


@pytest.mark.covers("A8")
@pytest.mark.covers("A8")
def test_every_shape_of_a_message_passes(gateway: Running, model: Upstream, who: str) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "narrator", "content": 5},
        {"role": "user", "content": None, "name": "ana"},
        {"role": "assistant", "content": None, "tool_calls": [tool_call("f", {})], "refusal": None},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "20 degrees"}]},
        {"role": "user", "content": [
            {"type": "text", "text": "And this picture?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ]},
    ]  # fmt: skip
    assert ask(gateway, *messages, user=who).status_code == 200
    assert model.last.messages == messages


@pytest.mark.covers("K7")
@pytest.mark.covers("K7")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff", b"[]", b"null", b"{}", b'{"messages":[]}', b'{"messages":"x"}', b'{"messages":[1]}',
        b'{"messages":[{"content":"x"}]}', b'{"messages":[{"role":5}]}', b"[" * 100_000,
        b'{"messages":[{"role":"user"}],"memory_top_k":"five"}', b'{"messages":[{"role":"user"}],"memory_top_k":1e999}',
        b'{"messages":[{"role":"user"}],"memory_config":{"enable":true}}',
        b'{"messages":[{"role":"user"}],"memory_id":7}', b'{"messages":[{"role":"user"}],"memory_score_threshold":2}',
    ],
    ids=lambda body: body[:60].decode("latin-1"),
)  # fmt: skip
def test_an_invalid_body_is_refused_in_both_shapes(gateway: Running, model: Upstream, body: bytes) -> None:
    answer = gateway.client.post(PATH, content=body, headers=JSON)
    assert answer.status_code == 400
    told = answer.json()
    assert {*told["error"]} == {"message", "type", "param", "code"}
    assert told["detail"] == told["error"]["message"]
    assert model.seen == []


@pytest.mark.covers("V57")
@pytest.mark.covers("V57")
@pytest.mark.parametrize("value", ["nan", "inf", "1.5", "101", "five"])
def test_a_header_that_is_no_number_is_refused_by_its_name(gateway: Running, model: Upstream, value: str) -> None:
    answer = ask(gateway, "Hello?", headers={"x-memory-top-k": value})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "x-memory-top-k")
    assert model.seen == []


# ------------------------------------------------------------------ what comes back
@pytest.mark.covers("A5")
def test_the_answer_is_as_it_came_with_the_memories_behind_it(gateway: Running, model: Upstream, who: str) -> None:
    said = completion("Tudo é possível \U0001f600", tool_calls=[tool_call("f", {"a": 1})], x_extra=[1.50, None])
    reply = Reply.of_json(said, headers=[("X-Far", "1"), ("X-Request-Id", "theirs"), ("OpenAI-Version", "2020")])
    model.chat(reply)
    answer = ask(gateway, "Hello?", user=who)
    assert reply.body is not None
    assert answer.content == reply.body[:-1].rstrip() + b',"memory_hits":[]}'
    assert (answer.headers["x-far"], answer.headers["openai-version"]) == ("1", "2020")
    assert answer.headers["x-upstream-request-id"] == "theirs"


@pytest.mark.covers("A5")
@pytest.mark.parametrize("data", [b"[]", b"no json", b'"x"', b"", b"{"], ids=repr)
def test_what_is_no_object_stays_as_it_is(data: bytes) -> None:
    assert with_hits(data, ()) is data


@pytest.mark.covers("A5")
def test_an_object_without_keys_takes_the_memories_too() -> None:
    assert json.loads(with_hits(b" { } \n", ())) == {"memory_hits": []}


@pytest.mark.covers("K35")
@pytest.mark.covers("A5", "V1")
def test_what_one_session_told_is_injected_in_another(gateway: Running, model: Upstream, who: str) -> None:
    store(gateway, who, "User's car is a Tesla Model 3")
    answer = ask(gateway, "Which car do I drive, my Tesla or not?", user=who)
    assert answer.headers["x-memory-status"] == "used"
    hit = answer.json()["memory_hits"][0]
    assert {*hit} == {"role", "content", "created_at", "score"}
    assert (hit["role"], hit["content"]) == ("memory", "User's car is a Tesla Model 3")
    asked = model.last.messages[-1]["content"]
    assert "[memory] User's car is a Tesla Model 3" in asked
    assert asked.endswith("Current message: Which car do I drive, my Tesla or not?")
    assert asked.index("[memory]") < asked.index("Current message:"), "K35"


@pytest.mark.covers("V2")
def test_another_user_never_gets_it(gateway: Running, model: Upstream, who: str) -> None:
    store(gateway, who, "User's locker is EMP-90210", "User works with Evelyn Zhao in Building 7")
    for headers, body in (
        ({"x-authz-user-id": f"{who}-2"}, {}),
        ({}, {"user": f"{who}-2"}),
        ({}, {"memory_context": {"user_id": f"{who}-2"}}),
        ({}, {"metadata": {"user_id": f"{who}-2"}}),
        ({"x-authz-user-id": f"{who}-2"}, {"user": who}),
    ):
        answer = ask(gateway, "What is my locker, and who is my colleague?", headers=headers, **body)
        assert answer.json()["memory_hits"] == []
        assert "EMP-90210" not in model.last.body.decode()
    assert ask(gateway, "What is my locker EMP?", user=who).json()["memory_hits"], "or nothing above proves anything"


@pytest.mark.covers("B24")
def test_memories_stand_beside_a_system_prompt_that_is_kept(gateway: Running, model: Upstream, who: str) -> None:
    store(gateway, who, "User's project code is Phoenix-2026")
    persona = {"role": "system", "content": "You are a pirate."}
    ask(gateway, persona, "What is my project code?", user=who)
    assert model.last.messages[0] == persona
    assert "Phoenix-2026" in model.last.messages[-1]["content"]


@pytest.mark.covers("A10")
@pytest.mark.covers("A10")
def test_only_the_users_last_message_is_touched_and_its_parts_stay(gateway: Running, model: Upstream, who: str) -> None:
    store(gateway, who, "User's dog is called Max")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    last = {"role": "user", "content": [{"type": "text", "text": "Is this my dog Max?"}, image]}
    before = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    ask(gateway, *before, last, {"role": "assistant", "content": "It"}, user=who)
    sent = model.last.messages
    assert [sent[0], sent[1], sent[3]] == [*before, {"role": "assistant", "content": "It"}]
    assert sent[2]["content"][1:] == last["content"]
    assert "User's dog is called Max" in sent[2]["content"][0]["text"]


@pytest.mark.covers("U14")
def test_a_picture_without_words_is_told_how_to_answer_too(gateway: Running, model: Upstream, who: str) -> None:
    told = {"messages": [{"role": "user", "content": "Always answer in German."}], "user_id": who}
    gateway.client.post("/v1/memories", json=told).raise_for_status()
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    answer = ask(gateway, {"role": "user", "content": [image]}, user=who)
    assert (answer.headers["x-memory-status"], answer.json()["memory_hits"]) == ("missing", [])
    block, picture = model.last.messages[-1]["content"]
    assert picture == image
    assert "answer in German" in block["text"]
    for odd in (5, None, {"text": "Hello"}):
        ask(gateway, {"role": "user", "content": odd}, user=who)
        assert model.last.messages[-1]["content"] == odd, "A7: what nobody knows goes up as it is"


# ------------------------------------------------------------------ what a request may say
@pytest.mark.covers("B15", "V54", "V55", "V56", "V57")
@pytest.mark.covers("B15", "V54", "V55", "V56", "V57")
@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"x-disable-router-memory": "true"}, {}, "policy_blocked"),
        ({"x-memory-enabled": "false"}, {}, "policy_blocked"),
        ({}, {"memory_config": {"enabled": False}}, "policy_blocked"),
        ({"x-memory-top-k": "0"}, {}, "policy_blocked"),
        ({}, {"memory_top_k": -1}, "policy_blocked"),
        ({}, {"memory_score_threshold": 1}, "used"),
        ({"x-memory-score-threshold": "1"}, {}, "used"),
        ({}, {"memory_config": {"similarity_threshold": 1.0}}, "used"),
        ({}, {"memory_config": {"memory_types": ["procedural"]}}, "missing"),
        ({"x-memory-types": "procedural, episodic"}, {}, "missing"),
        ({"x-memory-types": "procedural"}, {"memory_config": {"memory_types": ["semantic"]}}, "used"),
        ({"x-memory-project-id": "p"}, {}, "missing"),
        ({"x-memory-project-id": "p"}, {"memory_context": {"project_id": "q"}}, "missing"),
        ({}, {"tool_choice": "required"}, "ignored"),
        ({}, {"tools": [{"type": "function", "function": {"name": "f"}}]}, "used"),
        ({"x-memory-top-k": "1"}, {}, "used"),
    ],
    ids=str,
)
def test_overrides_and_opt_outs(
    gateway: Running, model: Upstream, who: str, headers: dict[str, str], body: dict[str, Any], status: str
) -> None:
    store(gateway, who, "User's cat is called Luna", "User's cat Luna is seven")
    answer = ask(gateway, "What is my cat Luna called?", headers={"x-authz-user-id": who, **headers}, **body)
    assert answer.headers["x-memory-status"] == status
    assert ("Luna is" in model.last.body.decode() or "called Luna" in model.last.body.decode()) == (status == "used")
    if status == "used":  # of the best, relevance is 1 (002); a threshold of 1 leaves it alone
        is_narrowed = "1" in str([headers, body])
        assert len(answer.json()["memory_hits"]) == (1 if is_narrowed else 2)


@pytest.mark.covers("A4", "V46", "V55")
@pytest.mark.covers("A4", "V46", "V55")
@pytest.mark.parametrize(
    ("headers", "body", "kept"),
    [
        ({}, {}, True),
        ({"x-memory-auto-store": "false"}, {}, False),
        ({}, {"memory_config": {"auto_store": False}}, False),
        ({"x-memory-auto-store": "false"}, {"memory_config": {"auto_store": True}}, True),
        ({"x-disable-router-memory": "true"}, {}, False),
        ({}, {"memory_config": {"enabled": False}}, False),
        ({}, {"memory_top_k": 0}, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_is_kept_is_the_requests_to_say(
    gateway: Running, who: str, headers: dict[str, str], body: dict[str, Any], kept: bool, stream: bool
) -> None:
    answer = ask(gateway, "I collect stamps", headers={"x-authz-user-id": who, **headers}, stream=stream, **body)
    assert answer.status_code == 200
    assert (episodes(gateway, user_id=who) != []) == kept


# ------------------------------------------------------------------ what is kept
@pytest.mark.covers("A33")
@pytest.mark.covers("A33", "K38")
def test_both_turns_are_kept_as_they_were_said_the_user_first(gateway: Running, model: Upstream, who: str) -> None:
    store(gateway, who, "User's lizard is called Iggy")
    model.chat(Reply.of_json(completion("Iggy it is")))
    ask(gateway, "What is my lizard Iggy called?", user=who)
    assert "[memory]" in model.last.messages[-1]["content"]
    assert episodes(gateway, user_id=who)[-2:] == [
        ("user", "What is my lizard Iggy called?"),
        ("assistant", "Iggy it is"),
    ]


def test_tool_rounds_keep_what_tools_said_and_the_user_once(gateway: Running, model: Upstream, who: str) -> None:
    call = [tool_call("weather", {"city": "Porto"})]
    model.chat(Reply.of_json(completion(None, tool_calls=call)), Reply.of_json(completion("It is 20 degrees")))
    asked = {"role": "user", "content": "What is the weather where I live, in Porto?"}
    ask(gateway, asked, user=who)
    calling = {"role": "assistant", "content": None, "tool_calls": call}
    ask(gateway, asked, calling, {"role": "tool", "tool_call_id": "call_1", "content": "20 degrees"}, user=who)
    assert episodes(gateway, user_id=who) == [
        ("user", asked["content"]),
        ("tool", "20 degrees"),
        ("assistant", "It is 20 degrees"),
    ]


@pytest.mark.covers("A6")
@pytest.mark.covers("A6")
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_of_the_model_comes_back_as_it_is_and_nothing_is_kept(
    gateway: Running, model: Upstream, who: str, status: int
) -> None:
    reply = Reply.error(status, retry_after="7")
    model.chat(reply)
    answer = ask(gateway, "I live in Porto", user=who)
    assert (answer.status_code, answer.content, answer.headers["retry-after"]) == (status, reply.body, "7")
    assert episodes(gateway, user_id=who) == []


def test_an_answer_that_breaks_off_before_it_began_is_502(gateway: Running, model: Upstream, who: str) -> None:
    model.chat(Reply(200, [("Content-Type", "application/json")], steps=[b'{"choices"', Play.BREAK_OFF]))
    answer = ask(gateway, "I live in Porto", user=who)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_error"
    assert episodes(gateway, user_id=who) == []


def test_who_leaves_before_the_answer_is_remembered_all_the_same(gateway: Running, model: Upstream, who: str) -> None:
    model.chat(Reply(200, [("Content-Type", "application/json")], steps=[b"{", Play.HANG]))
    body = {"messages": [{"role": "user", "content": "I live in Porto"}], "user": who}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{gateway.url}{PATH}", json=body, timeout=0.5)
    assert model.until(lambda: model.gone == 1), "the model works on for nobody"
    deadline = time.monotonic() + 30
    while not episodes(gateway, user_id=who) and time.monotonic() < deadline:
        time.sleep(0.01)  # the connection is closed before the turn is put under way
    assert episodes(gateway, user_id=who) == [("user", "I live in Porto")]


# ------------------------------------------------------------------ settings
@pytest.mark.covers("V89")
@pytest.mark.covers("V89")
def test_without_memory_requests_pass_untouched(tmp_path: Path, model: Upstream, who: str) -> None:
    with gateway_to(tmp_path / "memory", model.url, gateway={"enabled": False}) as gateway:
        store(gateway, who, "User's car is a Tesla")
        body = b'{ "messages": [{"role":"user","content":"What is my car Tesla?"}], "user": "%s" }' % who.encode()
        reply = Reply.of_json(completion("no idea"))
        model.chat(reply)
        answer = gateway.client.post(PATH, content=body, headers=JSON)
        assert (answer.content, model.last.body) == (reply.body, body)
        assert answer.headers["x-memory-status"] == "disabled"
        assert episodes(gateway, user_id=who) == []


@pytest.mark.covers("V30")
@pytest.mark.covers("V30")
def test_the_very_same_request_is_answered_once_more_before_memory(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path / "memory", model.url, gateway={"response_cache_seconds": 60}) as gateway:
        first = ask(gateway, "What is my name?", user="ana")
        again = ask(gateway, "What is my name?", user="ana")
        assert (again.content, again.status_code, len(model.seen)) == (first.content, 200, 1)
        assert (again.headers["x-memory-status"], again.headers["x-memory-reason"]) == ("ignored", "cache_hit")
        for more in ({"user": "bob"}, {"user": "ana", "seed": 1}):
            ask(gateway, "What is my name?", **more)
        ask(gateway, "What is my name?", user="ana", headers={"Authorization": "Bearer other"})
        ask(gateway, "What is my name?", user="ana", headers={"x-authz-user-id": "bob"})
        assert len(model.seen) == 5
        for _ in range(2):
            ask(gateway, "What is my name?", user="ana", stream=True)
        model.chat(Reply.error(500))
        assert [ask(gateway, "Again?").status_code for _ in range(2)] == [500, 200]
        assert len(model.seen) == 9
        counted = gateway.client.get("/metrics").text
        assert "llm_memory_cache_hits_total 1.0" in counted
        assert "llm_memory_index_bytes 0.0" not in counted, "a look into memory has made an index"


@pytest.mark.covers("V30")
@pytest.mark.covers("U4", "V30")
def test_no_answer_of_before_is_given_again_once_something_is_erased(tmp_path: Path, model: Upstream) -> None:
    with gateway_to(tmp_path / "memory", model.url, gateway={"response_cache_seconds": 60}) as gateway:
        store(gateway, "ana", "User's car is a Tesla")
        for told in ("Tesla", "no idea"):
            model.chat(Reply.of_json(completion(told)))
            for _ in range(2):
                assert told in ask(gateway, "Which car is mine?", user="ana").text
            assert gateway.client.delete("/v1/memory?user_id=ana").status_code == 200
        assert len(model.seen) == 2


@pytest.mark.covers("B21")
@pytest.mark.covers("B21")
def test_looks_into_memory_are_counted_without_a_users_name(gateway: Running, who: str) -> None:
    store(gateway, who, "User's boat is called Vega")
    ask(gateway, "What is my boat Vega called?", user=who)
    counted = gateway.client.get("/metrics").text
    assert 'llm_memory_retrieval_total{reason="injected",status="hit"}' in counted
    assert "llm_memory_retrieval_latency_seconds_bucket" in counted
    assert who not in counted


def test_memory_items_tell_what_a5_wants() -> None:
    assert {"role", "memory", "created_at", "score"} <= {*MemoryItem.__dataclass_fields__}
