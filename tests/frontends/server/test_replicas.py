"""Several servers on one PostgreSQL ledger and store: what one acknowledged all have, and no two write over each other.

Three replicas with folders of their own, as on three machines; one of them has two workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contracts.ledgers.ledger_postgres import Server, postgres_server
from tests.frontends.cli.runs import folder, perdure
from tests.frontends.server.running import SECRET, as_member, bearer
from tests.frontends.server.served import Served, served

__all__ = ["postgres_server"]
pytestmark = pytest.mark.xdist_group("replicas")

CONFIG = """
[embedder]
provider = "hashed"
[vector_store]
provider = "pgvector"
[history]
provider = "postgres"
[graph_store]
provider = "none"
"""


@dataclass(frozen=True)
class Replicas:
    servers: list[Served]
    places: list[Path]
    env: dict[str, str]
    key: dict[str, str]
    """Headers with a key that was made at the first one."""

    def ask(self, number: int, method: str, path: str, *, who: dict[str, str] | None = None, **more: Any) -> Any:
        """What a replica answers, over a connection of its own, so that each worker is asked in time."""
        url = f"{self.servers[number % len(self.servers)].client.base_url}".rstrip("/")
        answer = httpx.request(method, url + path, headers=who or self.key, timeout=60, **more)
        assert answer.status_code in (200, 201), (number, method, path, answer.text)
        return answer.json()

    def add(self, number: int, text: str, user: str, **more: Any) -> str:
        body = {"messages": text, "user_id": user, "infer": False, **more}
        id: str = self.ask(number, "POST", "/v1/memories", json=body)["results"][0]["id"]
        return id

    def texts(self, number: int, user: str) -> list[str]:
        found = self.ask(number, "GET", "/v1/memories", params={"user_id": user, "limit": 1000})["results"]
        return sorted(each["memory"] for each in found)

    def status(self, number: int, method: str, path: str, who: dict[str, str]) -> int:
        return self.servers[number].client.request(method, path, headers=who).status_code


def replica(parent: Path, name: str) -> Path:
    place = folder(parent / name).path
    (place / "perdure.toml").write_text(CONFIG)
    return place


@pytest.fixture(scope="module")
def replicas(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    postgres_server.run("CREATE DATABASE replicas")
    parent = tmp_path_factory.mktemp("replicas")
    env = {**os.environ, "DATABASE_URL": postgres_server.url("replicas"), "PERDURE_JWT_SECRET": SECRET}
    places = [replica(parent, name) for name in ("one", "two", "three")]
    with ExitStack() as running, ThreadPoolExecutor(3) as pool:
        options: list[list[str]] = [[], [], ["--workers", "2"]]
        # All at once over an empty database: they make the tables together.
        entering = [
            pool.submit(running.enter_context, served(place, *more, env=env))
            for place, more in zip(places, options, strict=True)
        ]
        servers = [each.result(120) for each in entering]
        for server in servers:
            assert server.client.get("/v1/ping").status_code == 200, "no key was made yet"
        made = perdure("keys", "create", "app", "--role", "admin", "--path", str(places[0]), env=env)
        assert made.status == 0, made.err
        yield Replicas(servers, places, env, bearer(made.out.strip()))
        for server in servers:
            assert server.stop() == 0, server.log.read_text()


def test_a_key_made_at_one_holds_at_all_and_so_does_its_end(replicas: Replicas) -> None:
    made = perdure("keys", "create", "guest", "--path", str(replicas.places[1]), env=replicas.env)
    guest = bearer(made.out.strip())
    for number in range(3):
        assert replicas.status(number, "GET", "/v1/ping", {}) == 401, "since there is a key everybody needs one"
        assert replicas.status(number, "GET", "/v1/ping", guest) == 200
    ended = perdure("keys", "revoke", "guest", "--path", str(replicas.places[2]), env=replicas.env)
    assert ended.status == 0, ended.err
    assert [replicas.status(number, "GET", "/v1/ping", guest) for number in range(3)] == [401, 401, 401]


def test_what_one_acknowledged_the_others_have(replicas: Replicas) -> None:
    for turn in range(9):
        id = replicas.add(turn, f"fact number {turn}", "turns")
        for other in (turn + 1, turn + 2):
            assert replicas.ask(other, "GET", f"/v1/memories/{id}")["memory"] == f"fact number {turn}"
            assert f"fact number {turn}" in replicas.texts(other, "turns")
            query = {"user_id": "turns", "q": f"fact number {turn}", "limit": 1}
            (found,) = replicas.ask(other, "GET", "/v1/memories/search", params=query)["results"]
            assert found["id"] == id
        replicas.ask(turn + 1, "PUT", f"/v1/memories/{id}", json={"text": f"changed {turn}"})
        assert replicas.ask(turn + 2, "GET", f"/v1/memories/{id}")["memory"] == f"changed {turn}"
        if turn % 2:
            replicas.ask(turn + 2, "DELETE", f"/v1/memories/{id}")
            assert replicas.status(turn % 3, "GET", f"/v1/memories/{id}", replicas.key) == 404
        events = [each["event"] for each in replicas.ask(turn, "GET", f"/v1/memories/{id}/history")]
        assert events == ["ADD", "UPDATE", *(["DELETE"] if turn % 2 else [])]
    assert {tuple(replicas.texts(number, "turns")) for number in range(3)} == {
        tuple(f"changed {turn}" for turn in range(0, 9, 2))
    }


def test_one_source_told_to_all_at_once_is_one_item(replicas: Replicas) -> None:
    headers = as_member("excalibur", "alice")

    def upsert(number: int) -> str:
        item = {
            "content": f"The Q2 target is {number}M€", "team_scope": "excalibur", "project_scope": None,
            "visibility": "team", "confidence": 0.9, "truth_level": "WORKING", "source": "librechat:conv_1",
            "validation_status": "pending",
        }  # fmt: skip
        id: str = replicas.ask(number, "POST", "/v1/memory/upsert", json={"item": item}, who=headers)["id"]
        return id

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(upsert, range(18)))) == 1
    seen = []
    for number in range(3):
        found = replicas.ask(number, "GET", "/v1/memory/search?q=target", who=headers)
        seen += [(each["id"], each["content"]) for each in found]
    assert len(seen) == 3 and len(set(seen)) == 1


def test_all_may_write_for_one_user_at_once(replicas: Replicas) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: replicas.add(number, f"fact {number}", "crowd"), range(24)))
        again = {"messages": "I keep bees", "user_id": "bees"}
        told = list(pool.map(lambda number: replicas.ask(number, "POST", "/v1/memories", json=again), range(6)))
    assert replicas.texts(1, "crowd") == sorted(f"fact {number}" for number in range(24))
    assert sorted(each["event"] for answer in told for each in answer["results"]).count("ADD") == 1
    assert [replicas.texts(number, "bees") for number in range(3)] == [["User keeps bees"]] * 3


def test_a_replica_that_is_killed_leaves_nothing_half_done(replicas: Replicas) -> None:
    place = replica(replicas.places[0].parent, "four")
    kept: list[str] = []
    with served(place, env=replicas.env) as doomed, ThreadPoolExecutor(4) as pool:

        def write(first: int) -> None:
            for number in range(first, 10_000, 4):
                body = {"messages": f"fact {number}", "user_id": "doom", "infer": False}
                try:
                    answer = httpx.post(
                        f"{doomed.client.base_url}/v1/memories", json=body, headers=replicas.key, timeout=60
                    )
                except httpx.TransportError:
                    return
                assert answer.status_code == 200, answer.text
                kept.append(f"fact {number}")

        working = [pool.submit(write, first) for first in range(4)]
        while len(kept) < 30:
            assert not any(each.done() for each in working)
        doomed.kill()
        for each in working:
            each.result(60)
    replicas.add(0, "fact afterwards", "doom")  # whoever writes next finishes what was begun
    found = replicas.texts(1, "doom")
    assert {*kept, "fact afterwards"} <= {*found}
    assert len(found) == len(set(found)) and len(found) <= len(kept) + 5
    listed = replicas.ask(2, "GET", "/v1/memories", params={"user_id": "doom", "limit": 1000})["results"]
    for each in listed[-6:]:
        assert [one["event"] for one in replicas.ask(2, "GET", f"/v1/memories/{each['id']}/history")] == ["ADD"]
