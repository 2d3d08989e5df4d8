"""Whose key it is while the memory is down: the door of the gateway fails open for the request alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.ledgers.sql.ledger import SqlKeys
from perdure.domain.errors import LedgerError
from perdure.engine.api_keys import PREFIX
from perdure.frontends.server.auth import api_keys
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.test_chat import PATH, ask, episodes
from tests.frontends.gateway.upstream import KEY, Upstream, upstream
from tests.frontends.server.failing import STORE, FailingStore
from tests.frontends.server.running import bearer

pytestmark = pytest.mark.covers("U25")

OURS = f"Bearer {KEY}"
NEVER_SEEN = {"X-API-Key": f"{PREFIX}{'0' * 64}"}
PERSONAL = (
    ("GET", "/v1/memories?user_id=ana"), ("POST", "/v1/memory"), ("GET", "/v1/memory?user_id=ana"), ("GET", "/metrics"),
    ("GET", "/v1/sessions/s"), ("POST", "/search"), ("GET", "/openapi.json"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def well() -> Iterator[None]:
    yield
    FailingStore.is_down = False


def told(answer: Any) -> tuple[str, str]:
    return answer.headers["x-memory-status"], answer.headers["x-memory-reason"]


UNAVAILABLE = ("unavailable", "store_unavailable")
FOREIGN = ("policy_blocked", "foreign_credentials")


# ------------------------------------------------------------------ nobody could look yet
@pytest.fixture
def no_ledger(tmp_path: Path) -> dict[str, Any]:
    """A ledger that cannot be opened: a folder lies where its file is wanted."""
    (tmp_path / "history.db").mkdir()
    return {"history": {"provider": "sqlite", "config": {"path": str(tmp_path / "history.db")}}}


@pytest.mark.covers("V3")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_on_loopback_a_ledger_that_never_opened_costs_memory_and_no_request(
    tmp_path: Path, model: Upstream, no_ledger: dict[str, Any], stream: bool
) -> None:
    with gateway_to(tmp_path / "memory", model.url, **no_ledger) as gateway:
        for headers in ({}, NEVER_SEEN, {"x-authz-user-id": "ana"}):
            answer = ask(gateway, "I live in Porto", headers=headers, user="ana", stream=stream)
            assert (answer.status_code, told(answer)) == (200, UNAVAILABLE)
            assert "memory_hits" not in answer.text
            assert model.last.header("authorization") == OURS, "only this machine can ask"
            assert model.last.header("x-api-key") is None
        ask(gateway, "Hello", headers=bearer("sk-theirs"), stream=stream)
        assert model.last.header("authorization") == "Bearer sk-theirs"
        assert gateway.client.get("/v1/models").status_code == 200
        for method, path in PERSONAL:
            assert gateway.client.request(method, path, json={}).status_code == 503, (method, path)
        (tmp_path / "history.db").rmdir()
        assert gateway.client.get("/readyz").status_code == 200
        assert told(ask(gateway, "I live in Porto", user="ana"))[0] == "missing"
        assert [text for _, text in episodes(gateway, user_id="ana")][:1] == ["I live in Porto"], "once, by now"


@pytest.mark.covers("U25")
def test_on_another_address_our_upstream_key_is_nobodys_while_keys_may_exist(
    tmp_path: Path, model: Upstream, no_ledger: dict[str, Any]
) -> None:
    there = {"settings": {"host": "0.0.0.0", "open": True}}
    with gateway_to(tmp_path / "memory", model.url, **there, **no_ledger) as gateway:
        for headers in ({}, bearer("sk-theirs"), {"x-authz-user-id": "ana"}):
            answer = ask(gateway, "I live in Porto", headers=headers, user="ana")
            assert (answer.status_code, told(answer)) == (200, UNAVAILABLE)
            assert gateway.client.get("/v1/models", headers=headers).status_code == 200
            assert model.last.header("authorization") == headers.get("Authorization")
        for path in (PATH, "/v1/models", "/v1/responses"):
            count = len(model.seen)
            body = {"messages": [{"role": "user", "content": "x"}], "input": "x"}
            assert gateway.client.post(path, headers=NEVER_SEEN, json=body).status_code == 503
            assert len(model.seen) == count
        for method, path in PERSONAL:
            assert gateway.client.request(method, path, json={}).status_code == 503, (method, path)
    assert model.seen and all(KEY not in str(seen.headers) for seen in model.seen)


# ------------------------------------------------------------------ only the vector store is down
@pytest.mark.covers("V3")
def test_with_the_vector_store_down_the_door_still_knows_its_keys(tmp_path: Path, model: Upstream) -> None:
    config = {"vector_store": {"provider": STORE, "config": {"path": str(tmp_path / "memories.db")}}}
    with gateway_to(tmp_path / "memory", model.url, **config) as gateway:
        ana, reader = gateway.key("ana", user_id="ana"), gateway.key("watcher", role="reader", user_id="ana")
        operator = gateway.key("operator")
    FailingStore.is_down = True
    with gateway_to(tmp_path / "memory", model.url, **config) as gateway:
        for secret in (ana, reader):
            answer = ask(gateway, "I live in Porto", headers=bearer(secret))
            assert (answer.status_code, told(answer)) == (200, UNAVAILABLE)
            assert model.last.header("authorization") == OURS
            assert model.last.messages == [{"role": "user", "content": "I live in Porto"}]
            assert gateway.client.get("/v1/models", headers=bearer(secret)).status_code == 200
        for headers in ({}, bearer("sk-theirs")):
            answer = ask(gateway, "I live in Porto", headers=headers)
            assert (answer.status_code, told(answer)) == (200, FOREIGN)
            assert model.last.header("authorization") == headers.get("Authorization")
        assert ask(gateway, "I live in Porto", headers=NEVER_SEEN).status_code == 401
        assert gateway.client.get("/v1/memories", headers=bearer(ana)).status_code == 503
        assert gateway.client.get("/v1/memories").status_code == 401
        assert gateway.client.get("/metrics", headers=bearer(ana)).status_code == 403
        assert gateway.client.get("/metrics", headers=bearer(operator)).status_code == 200


@pytest.mark.covers("V90")
def test_with_the_vector_store_down_a_chain_goes_on_in_the_ledger(tmp_path: Path) -> None:
    FailingStore.is_down = True
    config = {"vector_store": {"provider": STORE, "config": {"path": str(tmp_path / "memories.db")}}}
    with upstream(responses=False) as model, gateway_to(tmp_path / "memory", model.url, **config) as gateway:
        assert gateway.client.get("/readyz").json() == {
            "status": "unready", "ledger": "ok", "vector_store": "down",
        }  # fmt: skip
        more: dict[str, Any] = {}
        for text in ("My cat is Luna", "And my bird is Kiwi", "Who are they?"):
            answer = gateway.client.post("/v1/responses", json={"input": text, "user": "ana", **more})
            assert (answer.status_code, told(answer)) == (200, UNAVAILABLE)
            more = {"previous_response_id": answer.json()["id"]}
        said = [each["content"] for each in model.last.messages if each["role"] == "user"]
        assert said == ["My cat is Luna", "And my bird is Kiwi", "Who are they?"]
        theirs = gateway.client.post("/v1/responses", json={"input": "Who?", "user": "bob", **more})
        assert theirs.status_code == 400


# ------------------------------------------------------------------ the ledger fails after it was read
@pytest.mark.parametrize("way", ["fails", "hangs"])
def test_a_key_that_was_good_keeps_its_model_while_the_ledger_is_down(
    tmp_path: Path, model: Upstream, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with gateway_to(tmp_path / "memory", model.url) as gateway:
        ana, unused, gone = (gateway.key(name, user_id="ana") for name in ("ana", "unused", "gone"))
        while told(ask(gateway, "I live in Porto", headers=bearer(ana)))[0] == "unavailable":
            pass  # what is asked first opens the memory, for which a busy machine may take longer than a request waits
        for secret in (ana, gone):
            assert told(ask(gateway, "I live in Porto", headers=bearer(secret)))[0] in ("missing", "used")
        gateway.revoke("gone")
        assert ask(gateway, "I live in Porto", headers=bearer(gone)).status_code == 401
        said = episodes(gateway, user_id="ana")

        async def broken(_: object, __: str) -> None:
            if way == "hangs":
                await asyncio.sleep(3600)
            raise LedgerError("the ledger at db.internal cannot be read")

        monkeypatch.setattr(api_keys, "LOOKUP_SECONDS", 0.2)
        monkeypatch.setattr(SqlKeys, "find", broken)
        answer = ask(gateway, "I live in Rome", headers=bearer(ana))
        assert (answer.status_code, told(answer)) == (200, UNAVAILABLE)
        assert model.last.header("authorization") == OURS
        for secret in (unused, gone):
            count = len(model.seen)
            refused = ask(gateway, "I live in Rome", headers=bearer(secret))
            assert (refused.status_code, len(model.seen)) == (503, count), "nobody knows whose it is"
            assert "db.internal" not in refused.text
        assert told(ask(gateway, "I live in Rome", headers=bearer("sk-theirs"))) == FOREIGN
        assert model.last.header("authorization") == "Bearer sk-theirs"
        assert episodes(gateway, user_id="ana") == said, "nothing is kept of whom nobody could make sure of"
        monkeypatch.undo()
        assert told(ask(gateway, "I live in Rome", headers=bearer(ana)))[0] != "unavailable"
        assert len(episodes(gateway, user_id="ana")) == len(said) + 2
