"""Health, readiness and the document, over a real port."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.domain.errors import LedgerError, VectorStoreError
from tests.frontends.server.running import Running, running


@pytest.mark.covers("X68")
@pytest.mark.parametrize("path", ["/healthz", "/v1/healthz", "/healthz/", "/v1/healthz/"])
def test_health_answers_without_credentials(server: Running, path: str) -> None:
    server.key("first")
    answer = server.client.get(path)
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"


def test_ready_says_which_part_is_down_and_that_it_came_back(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = {"status": "ready", "ledger": "ok", "vector_store": "ok"}
    answer = server.client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, ready)
    kernel = server.service.engine.kernel

    async def broken(*_: object) -> None:
        raise VectorStoreError("at https://user:secret@host: refused")

    with monkeypatch.context() as patch:
        patch.setattr(kernel.store, "get_collection_info", broken)
        answer = server.client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {**ready, "status": "unready", "vector_store": "down"})
        assert server.client.get("/healthz").status_code == 200, "it lives"
    with monkeypatch.context() as patch:
        patch.setattr(type(kernel.ledger.keys), "any", failing)  # type: ignore[union-attr]
        answer = server.client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {**ready, "status": "unready", "ledger": "down"})
        assert server.client.get("/metrics").status_code == 503, "nobody can be made sure of"
    assert server.client.get("/readyz").status_code == 200


@pytest.mark.parametrize("provider", ["sqlite", "markdown"])
def test_a_folder_that_is_gone_is_not_ready_and_is_again_when_it_is_back(tmp_path: Path, provider: str) -> None:
    folder, aside = tmp_path / "h1", tmp_path / "h1x"
    store = {"provider": provider, "config": {"path": str(folder), "git": False} if provider == "markdown" else {}}
    with running(folder, vector_store=store) as server:
        told = {"messages": "I live in Leeds.", "user_id": "ana"}
        server.client.post("/v1/memories", json=told).raise_for_status()
        folder.rename(aside)
        answer = server.client.get("/readyz")
        down = {"status": "unready", "ledger": "down", "vector_store": "down"}
        assert (answer.status_code, answer.json()) == (503, down)
        assert server.client.post("/v1/memories", json=told).status_code == 503
        assert server.client.get("/healthz").status_code == 200
        aside.rename(folder)
        assert server.client.get("/readyz").json()["status"] == "ready"
        server.client.post("/v1/memories", json=told).raise_for_status()


def test_a_ledger_in_whose_place_another_file_lies_is_not_ready(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        (tmp_path / "history.db").rename(tmp_path / "old.db")
        (tmp_path / "history.db").write_bytes((tmp_path / "old.db").read_bytes())
        answer = server.client.get("/readyz")
        assert (answer.status_code, answer.json()["ledger"], answer.json()["vector_store"]) == (503, "down", "ok")


def test_ready_says_that_nothing_can_be_changed_in_a_read_only_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as server:
        server.client.post("/v1/memories", json={"messages": "I live in Leeds.", "user_id": "ana"}).raise_for_status()
    for module in ("perdure.backends.sqlite_file", "perdure.backends.ledgers.sqlite"):
        monkeypatch.setattr(f"{module}.may_be_written", lambda path: False)
    with running(tmp_path) as server:
        answer = server.client.get("/readyz")
        told = {"status": "read_only", "ledger": "read_only", "vector_store": "read_only"}
        assert (answer.status_code, answer.json()) == (200, told)
        refused = server.client.post("/v1/memories", json={"messages": "I live in York.", "user_id": "ana"})
        assert (refused.status_code, refused.json()["code"]) == (403, "read_only")


async def failing(*_: object) -> bool:
    raise LedgerError("database is locked")


def test_a_ledger_that_cannot_be_opened_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(b"this is no database, and longer than a header of one would have to be" * 20)
    with running(tmp_path) as server:
        assert server.client.get("/healthz").status_code == 200
        assert server.client.get("/readyz").json()["ledger"] == "down"
        assert server.client.get("/metrics").status_code == 503


def test_a_store_that_cannot_be_opened_does_not_keep_the_server_from_living(tmp_path: Path) -> None:
    (tmp_path / "memories.db").mkdir()
    with running(tmp_path) as server:
        assert server.client.get("/healthz").status_code == 200
        answer = server.client.get("/readyz")
        assert (answer.status_code, answer.json()["vector_store"]) == (503, "down")
        (tmp_path / "memories.db").rmdir()
        assert server.client.get("/readyz").status_code == 200, "it is tried again"


# ------------------------------------------------------------------ the document


def test_the_document_has_schemes_and_examples_and_says_what_may_go_wrong(server: Running) -> None:
    found = server.client.get("/openapi.json").json()
    assert found["info"]["title"] == "perdure"
    assert {*found["components"]["securitySchemes"]} == {"bearer", "token", "key"}
    for path, item in found["paths"].items():
        assert path == "/" or not path.endswith("/"), path
        for method, operation in item.items():
            assert operation.get("summary"), (method, path)
            if path in ("/healthz", "/readyz", "/v1/healthz"):
                continue
            assert operation["security"], (method, path)
            assert {"401", "403", "413", "429", "503"} <= {*operation["responses"]}, (method, path)


def test_every_operation_has_an_id_of_its_own(server: Running) -> None:
    found = server.client.get("/openapi.json").json()
    ids = [operation["operationId"] for item in found["paths"].values() for operation in item.values()]
    assert len(ids) == len({*ids})
