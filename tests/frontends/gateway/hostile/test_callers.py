"""Who may what through the gateway: readers, teams, users of one key, and answers that were given before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.talks import Numbered
from tests.frontends.gateway.test_chat import episodes, settled, store
from tests.frontends.gateway.upstream import KEY, Upstream
from tests.frontends.server.running import SECRET, Running, as_member, bearer
from tests.frontends.server.teams import Team

pytestmark = pytest.mark.covers("V2", "V53")

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
QUESTION = "What is my bird Kiwi called?"
both = pytest.mark.parametrize("path", [CHAT, RESPONSES], ids=["chat", "responses"])


@pytest.fixture(scope="module")
def keyed(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway_to(tmp_path_factory.mktemp("callers"), model.url, env={"PERDURE_JWT_SECRET": SECRET}) as found:
        found.key("first", role="admin")
        yield found


@pytest.fixture(autouse=True)
def _numbered(model: Upstream, _forgetful: None) -> None:
    model.always(RESPONSES, Numbered())


def ask(gateway: Running, path: str, text: str, headers: dict[str, str], **more: Any) -> httpx.Response:
    said: dict[str, Any] = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {"input": text}
    found = gateway.client.post(path, json={"model": "m", **said, **more}, headers=headers)
    assert found.status_code == 200, found.text
    return found


# ------------------------------------------------------------------ readers
@both
def test_a_reader_cannot_make_change_or_end_anything(keyed: Running, model: Upstream, who: str, path: str) -> None:
    member, reader = (bearer(keyed.key(f"{role}-{who}", role=role, user_id=who)) for role in ("member", "reader"))  # type: ignore[arg-type]
    id = keyed.client.post("/v1/memory", json={"content": "User's bird is called Kiwi"}, headers=member).json()["id"]
    ask(keyed, path, "I live in Porto", {**member, "x-session-id": "sitting"})
    first = ask(keyed, RESPONSES, "I live in Porto", member).json()["id"]
    settled(keyed)

    def everything() -> Any:
        listed = keyed.client.get("/v1/memory?limit=100", headers=member).json()["memories"]
        told = [{name: value for name, value in each.items() if name != "access_count"} for each in listed]
        return told, episodes(keyed, user_id=who), session()

    def session(name: str = "sitting") -> dict[str, Any]:
        found: dict[str, Any] = keyed.client.get(f"/v1/sessions/{name}", headers=member).json()
        return found

    for name in ("sitting", first):
        assert keyed.client.post(f"/v1/sessions/{name}/end", headers=member).json()["is_read"], "all is read by now"
    before = everything()
    assert before[0] and before[1]
    goes_on = {} if path == CHAT else {"previous_response_id": first}
    for more in ({}, {"memory_config": {"auto_store": True}}, goes_on, {"stream": True}):
        told = {**reader, "x-memory-auto-store": "true", "x-session-id": "sitting"}
        ask(keyed, path, "I live in Rome now, remember that my cat is Luna", told, **more)
    for method, refused in (
        ("POST", "/v1/sessions/sitting/end"), ("POST", f"/v1/memories/{id}/feedback"), ("POST", "/v1/memory"),
        ("POST", f"/v1/memories/{id}/trust"), ("POST", f"/v1/memories/{id}/distrust"), ("DELETE", f"/v1/memory/{id}"),
        ("PUT", f"/v1/memory/{id}"), ("POST", "/v1/memories"), ("POST", "/v1/sessions//sitting/end/"),
    ):  # fmt: skip
        answer = keyed.client.request(method, refused, headers=reader, json={"feedback": "POSITIVE"})
        assert answer.status_code == 403, (refused, answer.text)
    assert everything() == before


# ------------------------------------------------------------------ teams
@pytest.mark.covers("X56")
@both
def test_a_token_of_one_team_never_gets_anothers_canonical_facts(keyed: Running, model: Upstream, path: str) -> None:
    red, blue = Team(keyed), Team(keyed)
    for team, word in ((red, "Redfinch"), (blue, "Bluefinch")):
        team.promote(team.stored(f"The release bird is the {word}", project_scope=None), "VALIDATED", "CANONICAL")
        team.stored(f"The draft bird is the Draft{word}", project_scope=None, source="x:2")
    question = "What is the release bird, and the draft bird?"
    for headers in (
        red.headers("ana"), red.headers("ana", projects=["fundraising"]), red.headers("alice"),
        red.headers("ana", teams=[red.name], memory_context="x"), {**red.headers("ana"), "x-authz-user-id": "alice"},
    ):  # fmt: skip
        ask(keyed, path, question, headers)
        sent = model.last.body.decode()
        assert "the Redfinch" in sent
        assert "Bluefinch" not in sent and "DraftRedfinch" not in sent
    for headers in (
        {**red.headers("ana"), "X-Team-Scope": blue.name}, {**bearer("x"), "X-Team-Scope": blue.name},
        {"X-Team-Scope": blue.name}, {**as_member("other", "ana"), "X-Team-Scope": blue.name},
    ):  # fmt: skip
        count = len(model.seen)
        body = {"model": "m", "messages": [{"role": "user", "content": question}], "input": question}
        assert keyed.client.post(path, json=body, headers=headers).status_code in (401, 403)
        assert len(model.seen) == count, "and it does not pass without memory either"


# ------------------------------------------------------------------ what is told of memories
@pytest.mark.covers("A5")
def test_memory_hits_and_prompts_never_show_what_is_quarantined_or_anothers(
    gateway: Running, model: Upstream, who: str
) -> None:
    headers = {"x-authz-user-id": who}
    store(gateway, who, "User's bird is called Kiwi", "User's bird Kiwi was renamed Mango")
    store(gateway, f"{who}-2", "User's bird is called Kiwi Papaya")
    ids = {each["content"]: each["id"] for each in gateway.client.get("/v1/memory", headers=headers).json()["memories"]}
    bad = ids["User's bird Kiwi was renamed Mango"]
    found = ask(gateway, CHAT, QUESTION, headers, memory_score_threshold=0)
    assert {hit["content"] for hit in found.json()["memory_hits"]} == {*ids}
    quiet = gateway.client.post(f"/v1/memories/{bad}/distrust", headers=headers)
    assert quiet.status_code == 200, quiet.text
    for path in (CHAT, RESPONSES):
        answer = ask(gateway, path, QUESTION, headers, memory_config={"similarity_threshold": 0, "retrieval_limit": 99})
        assert "Mango" not in answer.text and "Papaya" not in answer.text
        assert "Mango" not in model.last.body.decode() and "Papaya" not in model.last.body.decode()
        assert "called Kiwi" in model.last.body.decode()


# ------------------------------------------------------------------ answers given before
@pytest.mark.covers("V30")
@pytest.mark.covers("V30")
def test_an_answer_is_given_again_to_the_same_caller_and_user_alone(tmp_path: Path, model: Upstream, who: str) -> None:
    with gateway_to(tmp_path / "cached", model.url, gateway={"response_cache_seconds": 60}) as gateway:
        asked: list[tuple[dict[str, str], dict[str, Any]]] = [
            ({}, {}), ({}, {"user": who}), ({}, {"user": f"{who}-2"}), ({}, {"memory_id": who}),
            ({"x-authz-user-id": who}, {}), ({"x-authz-user-id": f"{who}-2"}, {}), ({"x-memory-id": who}, {}),
            (bearer("sk-one"), {}), (bearer("sk-two"), {}), ({"Authorization": "Basic c2s="}, {}),
            ({"X-API-Key": "one"}, {}), ({"X-API-Key": "two"}, {}), ({"api-key": "one"}, {}), ({"Cookie": "k=1"}, {}),
            ({"Cookie": "k=2"}, {}), ({"OpenAI-Organization": "one"}, {}), ({"OpenAI-Project": "one"}, {}),
            ({}, {"memory_context": {"user_id": who}}), ({}, {"memory_context": {"project_id": who}}),
            ({"x-disable-router-memory": "true"}, {}),
        ]  # fmt: skip
        for number, (headers, more) in enumerate(asked):
            model.chat(Reply.of_json(completion(f"answer {number}")))
            assert f"answer {number}" in ask(gateway, CHAT, "Hello there", headers, **more).text, (headers, more)
        assert len(model.seen) == len(asked)
        for number, (headers, more) in enumerate(asked):
            assert f"answer {number}" in ask(gateway, CHAT, "Hello there", headers, **more).text, (headers, more)
        assert len(model.seen) == len(asked), "each has its own"
        secret = gateway.key("late", user_id=who)
        for headers in ({}, bearer("sk-one"), bearer(secret), {"X-API-Key": secret}):
            count = len(model.seen)
            ask(gateway, CHAT, "Hello there", headers)
            assert len(model.seen) == count + 1, "what an open server gave anybody is nobody's once there are keys"
        assert [KEY in str(each.headers) for each in model.seen[-4:]] == [False, False, True, True]


# ------------------------------------------------------------------ bodies
@pytest.mark.parametrize("path", [CHAT, RESPONSES, "/v1/files", "/v1/memory", "/v1/sessions/s/end"])
def test_a_body_in_pieces_is_bounded_too_and_never_goes_up_for_whole(
    tmp_path: Path, model: Upstream, path: str
) -> None:
    with gateway_to(tmp_path / "bounded", model.url, settings={"max_body_bytes": 2000}) as gateway:

        def pieces() -> Iterator[bytes]:
            yield b'{"messages": [{"role": "user", "content": "Hello"}], "input": "Hello", "content": "x", "more": "'
            for _ in range(6):
                yield b"x" * 500
            yield b'"}'

        answer = gateway.client.post(path, content=pieces(), headers={"content-type": "application/json"})
        assert answer.status_code == 413, answer.text
        assert model.until(lambda: all(not each.body for each in model.seen))
        assert gateway.client.get("/v1/models").status_code == 200
    assert all(b"Hello" not in each.body for each in model.seen)
