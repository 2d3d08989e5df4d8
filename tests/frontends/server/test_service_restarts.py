"""The real program under load: ended, killed and started again, and on a full disk; nothing acknowledged is lost.

The short form of benchmarks/service_load.py.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path

import httpx

from tests.frontends.cli.runs import folder
from tests.frontends.server.served import served

CLIENTS = 20
ENOUGH = 60
"""Acknowledged writes between two restarts."""


class Load:
    """Clients that write on and on, each for a user of its own, whether somebody listens or not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.kept: dict[str, list[str]] = {f"user-{number}": [] for number in range(CLIENTS)}
        self.wrong: list[str] = []
        self.is_over = False

    @property
    def count(self) -> int:
        return sum(map(len, self.kept.values()))

    async def run(self) -> None:
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=self.url, timeout=60, limits=limits) as client:
            await asyncio.gather(*(self._client(client, user) for user in self.kept))

    async def _client(self, client: httpx.AsyncClient, user: str) -> None:
        turn = 0
        while not self.is_over:
            turn += 1
            text = f"fact {turn} of {user}"
            try:
                body = {"messages": text, "user_id": user, "infer": False}
                answer = await client.post("/v1/memories", json=body)
            except httpx.TransportError:
                await asyncio.sleep(0.1)
                continue
            if answer.status_code == 200:
                self.kept[user].append(text)
            elif answer.status_code != 503:
                self.wrong.append(answer.text)

    async def more(self, count: int) -> None:
        """Until so many more were acknowledged."""
        until = self.count + count
        while self.count < until:
            await asyncio.sleep(0.02)


def test_restarts_under_load_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Of a server with two workers; with one it is in test_shutdown.py."""
    place = folder(tmp_path / "memory").path
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    load = Load(f"http://127.0.0.1:{port}")

    async def drive() -> None:
        task = asyncio.create_task(load.run())
        for how in ("terminated", "killed", "last"):
            serving = served(place, "--port", port, "--workers", "2")
            server = await asyncio.to_thread(serving.__enter__)
            try:
                await load.more(ENOUGH)
                if how == "terminated":
                    assert await asyncio.to_thread(server.stop) == 0, server.log.read_text()
                elif how == "killed":
                    await asyncio.to_thread(server.kill)
                    await until_free(int(port))  # workers see that they are alone, and end
                else:
                    load.is_over = True
                    await task
                    check(server.client, load)
            finally:
                await asyncio.to_thread(serving.__exit__, None, None, None)

    asyncio.run(asyncio.wait_for(drive(), 200))


async def until_free(port: int) -> None:
    """Until nobody listens on a port any more."""
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                await asyncio.sleep(0.05)
        except OSError:
            return


def check(client: httpx.Client, load: Load) -> None:
    """Every acknowledged write is there once, with its history; of the others each is there or not."""
    assert not load.wrong
    for user, kept in load.kept.items():
        found = client.get("/v1/memories", params={"user_id": user, "limit": 1000}).json()["results"]
        texts = [each["memory"] for each in found]
        assert {*kept} <= {*texts}
        assert len(texts) == len({*texts})
        last = client.get(f"/v1/memories/{found[-1]['id']}/history").json()
        assert [each["event"] for each in last] == ["ADD"]


def test_a_full_disk_is_503_and_room_is_enough_to_go_on(tmp_path: Path) -> None:
    """No file of the server's may grow, which SQLite reports as it reports a full disk; reads go on."""
    place = folder(tmp_path / "memory").path
    with served(place, env={**os.environ}) as server:
        kept: list[str] = []

        def write(number: int) -> httpx.Response:
            text = f"note {number} " + "x" * 20_000
            answer = server.client.post("/v1/memories", json={"messages": text, "user_id": "ana", "infer": False})
            if answer.status_code == 200:
                kept.append(text)
            return answer

        def texts() -> list[str]:
            found = server.client.get("/v1/memories", params={"user_id": "ana", "limit": 1000})
            assert found.status_code == 200, found.text
            return sorted(each["memory"] for each in found.json()["results"])

        assert write(0).status_code == 200
        _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (600_000, most))
        answers = [write(number) for number in range(1, 40)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert refused and {answer.status_code for answer in refused} == {503}
        assert {answer.json()["code"] for answer in refused} <= {"ledger_error", "vector_store_error"}
        assert texts() == sorted(kept), "what was acknowledged is there, and what was refused is not"
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
        assert write(100).status_code == 200
        assert server.client.get("/readyz").status_code == 200
        assert texts() == sorted(kept)
        assert server.stop() == 0
    with served(place) as again:
        found = again.client.get("/v1/memories", params={"user_id": "ana", "limit": 1000}).json()["results"]
        assert sorted(each["memory"] for each in found) == sorted(kept)
