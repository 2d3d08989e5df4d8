"""Whose key it is, and whose memory: the door of the gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perdure.engine.api_keys import PREFIX
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.test_chat import PATH, ask, episodes, store
from tests.frontends.gateway.upstream import KEY, Upstream
from tests.frontends.server.running import SECRET, Running, as_member, bearer, token

pytestmark = pytest.mark.covers("U6", "U25", "V53")

OURS = f"Bearer {KEY}"


@pytest.fixture(scope="module")
def keyed(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with keys, for which nobody is anybody without one."""
    folder = tmp_path_factory.mktemp("keyed")
    with gateway_to(folder, model.url, env={"PERDURE_JWT_SECRET": SECRET}) as found:
        found.key("first")
        yield found


# ------------------------------------------------------------------ an open gateway
@pytest.mark.covers("U25")
@pytest.mark.parametrize("headers", [{"Authorization": "Bearer sk-theirs"}, {"Authorization": "Basic abc"}], ids=str)
def test_a_foreign_authorization_goes_up_untouched_and_has_memory(
    gateway: Running, model: Upstream, who: str, headers: dict[str, str]
) -> None:
    store(gateway, who, "User's bird is called Kiwi")
    answer = ask(gateway, "What is my bird Kiwi called?", headers={**headers, "x-authz-user-id": who})
    assert answer.headers["x-memory-status"] == "used"
    assert model.last.header("authorization") == headers["Authorization"]
    assert model.last.header("x-authz-user-id") is None


def test_without_any_the_configured_key_goes_up(gateway: Running, model: Upstream) -> None:
    ask(gateway, "Hello")
    assert model.last.header("authorization") == OURS
    gateway.client.get("/v1/models", headers={"X-API-Key": "theirs"})
    assert (model.last.header("authorization"), model.last.header("x-api-key")) == (OURS, "theirs")


def test_a_key_of_our_form_never_goes_up(gateway: Running, keyed: Running, model: Upstream) -> None:
    for header in ({"Authorization": f"Bearer {PREFIX}gone"}, {"X-API-Key": f"{PREFIX}gone"}):
        assert ask(gateway, "Hello", headers=header).status_code == 200, "an open server knows no keys"
        for path in (PATH, "/v1/models", "/v1/embeddings"):
            body = {"messages": [{"role": "user", "content": "x"}]}
            assert keyed.client.post(path, headers=header, json=body).status_code == 401
    assert model.seen
    assert all(PREFIX not in str(seen.headers) for seen in model.seen)


# ------------------------------------------------------------------ a gateway with keys
@pytest.mark.covers("U25")
@pytest.mark.parametrize("form", ["bearer", "token", "x-api-key"])
def test_a_key_of_ours_is_consumed_and_replaced(keyed: Running, model: Upstream, form: str, who: str) -> None:
    secret = keyed.key(f"{form}-{who}", user_id=who)
    held = {"x-api-key": secret} if form == "x-api-key" else {"Authorization": f"{form.title()} {secret}"}
    answer = ask(keyed, "I live in Porto", headers=held)
    assert answer.headers["x-memory-status"] == "missing"
    assert (model.last.header("authorization"), model.last.header("x-api-key")) == (OURS, None)
    keyed.client.get("/v1/models", headers=held)
    assert (model.last.header("authorization"), model.last.header("x-api-key")) == (OURS, None)
    assert [role for role, _ in episodes(keyed, user_id=who)] == ["user", "assistant"]


@pytest.mark.covers("U25")
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer sk-theirs"}, {"X-API-Key": "theirs"}, {"Authorization": "Bearer a.b.c"}],
    ids=str,
)  # fmt: skip
def test_who_is_not_ours_passes_without_memory_and_without_our_key(
    keyed: Running, model: Upstream, who: str, headers: dict[str, str]
) -> None:
    store_as = keyed.key(f"store-{who}", user_id=who)
    keyed.client.post("/v1/memory", json={"content": "User's bird is Kiwi"}, headers=bearer(store_as))
    told = {**headers, "x-authz-user-id": who}
    answer = ask(keyed, "What is my bird Kiwi?", headers=told, user=who, memory_context={"user_id": who})
    assert answer.status_code == 200
    assert (answer.headers["x-memory-status"], answer.headers["x-memory-reason"]) == (
        "policy_blocked",
        "foreign_credentials",
    )
    assert "memory_hits" not in answer.text
    assert "Kiwi\\n" not in model.last.body.decode()
    assert KEY not in str(model.last.headers)
    assert model.last.header("authorization") == headers.get("Authorization")
    assert episodes(keyed, user_id=who) == []
    keyed.client.get("/v1/models", headers=headers)
    assert KEY not in str(model.last.headers)
    assert keyed.client.get("/v1/memory", headers=told).status_code == 401, "our own routes still need a key"


@pytest.mark.covers("V53")
def test_a_key_for_one_user_is_that_user_whatever_the_request_says(keyed: Running, model: Upstream, who: str) -> None:
    ana, bob = (keyed.key(f"{name}-{who}", user_id=f"{name}-{who}") for name in ("ana", "bob"))
    keyed.client.post("/v1/memory", json={"content": "User's bird is called Kiwi"}, headers=bearer(ana))
    question, named = (
        "What is my bird Kiwi called?",
        {"user": f"ana-{who}", "memory_context": {"user_id": f"ana-{who}"}},
    )
    assert ask(keyed, question, headers=bearer(ana)).json()["memory_hits"]
    assert ask(keyed, question, headers=bearer(bob), **named).json()["memory_hits"] == []
    assert "called Kiwi" not in model.last.messages[-1]["content"]
    refused = ask(keyed, question, headers={**bearer(bob), "x-authz-user-id": f"ana-{who}"})
    assert refused.status_code == 403
    assert refused.json()["error"]["type"] == "permission_error"


def test_a_key_for_a_project_stays_inside_whatever_users_it_names(keyed: Running, who: str) -> None:
    one, two = (keyed.key(f"{name}-{who}", project_id=f"{name}-{who}") for name in ("one", "two"))
    body = {"content": "User's bird is called Kiwi", "user_id": who}
    assert keyed.client.post("/v1/memory", json=body, headers=bearer(one)).status_code == 200
    question = "What is my bird Kiwi called?"
    assert ask(keyed, question, headers=bearer(one), user=who).json()["memory_hits"]
    assert ask(keyed, question, headers=bearer(two), user=who).json()["memory_hits"] == []
    answer = ask(keyed, question, headers=bearer(two), memory_context={"user_id": who, "project_id": f"one-{who}"})
    assert answer.status_code == 403


def test_a_reader_recalls_and_nothing_is_kept(keyed: Running, who: str) -> None:
    member = keyed.key(f"member-{who}", user_id=who)
    keyed.client.post("/v1/memory", json={"content": "User's bird is called Kiwi"}, headers=bearer(member))
    reader = keyed.key(f"reader-{who}", role="reader", user_id=who)
    assert ask(keyed, "What is my bird Kiwi called?", headers=bearer(reader)).json()["memory_hits"]
    assert episodes(keyed, user_id=who) == []


@pytest.mark.covers("U6")
def test_the_member_of_a_team_speaks_for_themselves(keyed: Running, model: Upstream, who: str) -> None:
    headers = {**as_member(f"team-{who}", who), "x-authz-user-id": "somebody-else"}
    assert ask(keyed, "I live in Porto", headers=headers, user="somebody-else").status_code == 200
    assert model.last.header("authorization") == OURS
    assert model.last.header("x-team-scope") is None
    assert [text for _, text in episodes(keyed, user_id=who)][:1] == ["I live in Porto"]
    assert episodes(keyed, user_id="somebody-else") == []
    stranger = {**bearer(token("eve", team="another")), "X-Team-Scope": f"team-{who}"}
    assert ask(keyed, "Hello", headers=stranger).status_code == 403
    assert ask(keyed, "Hello", headers={"X-Team-Scope": f"team-{who}"}).status_code == 401


@pytest.mark.covers("U6")
def test_where_clients_are_not_believed_nobody_is_anybody(tmp_path: object, model: Upstream, who: str) -> None:
    with gateway_to(tmp_path, model.url, settings={"trust_client_user_id": False}) as gateway:  # type: ignore[arg-type]
        for body in ({"user": who}, {"metadata": {"user_id": who}}, {"memory_context": {"user_id": who}}, {}):
            answer = ask(gateway, "I live in Porto", **body)
            assert (answer.headers["x-memory-status"], answer.headers["x-memory-reason"]) == (
                "missing",
                "user_id_missing",
            )
        assert ask(gateway, "I live in Porto", headers={"x-authz-user-id": who}).status_code == 200
        assert len(episodes(gateway, user_id=who)) == 2


@pytest.mark.covers("U7")
def test_a_conversation_without_a_user_is_its_own(gateway: Running, model: Upstream, who: str) -> None:
    ask(gateway, "I live in Porto", memory_id=who)
    assert len(episodes(gateway, run_id=who)) == 2
    ask(gateway, "I live in Rome", headers={"x-memory-id": f"{who}-2"})
    assert len(episodes(gateway, run_id=who)) == 2
