"""Stopping: what is under way is finished, what was acknowledged is kept, and the status is 0."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.frontends.cli.runs import folder
from tests.frontends.server.probes import probes
from tests.frontends.server.running import running
from tests.frontends.server.served import Served, served


def test_a_request_under_way_is_finished_and_a_new_one_is_not_taken(tmp_path: Path) -> None:
    answers: list[httpx.Response] = []
    with running(tmp_path, routes=probes()) as server:
        arrived = threading.Event()

        def ask() -> None:
            with httpx.Client(base_url=server.url, timeout=60, verify=False) as client:
                client.get("/healthz")
                arrived.set()
                answers.append(client.post("/probe/slow", params={"seconds": 0.5}))

        thread = threading.Thread(target=ask)
        thread.start()
        arrived.wait(30)
        while "in_flight 2.0" not in server.client.get("/metrics").text:
            pass
    thread.join(30)
    assert [answer.json() for answer in answers] == [{"status": "done"}]
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.url}/healthz", timeout=60)


def write(server: Served, number: int) -> str | None:
    """Store one memory; its text if the server said that it has it."""
    text = f"fact number {number}"
    try:
        answer = httpx.post(
            f"{server.client.base_url}/v1/memories/",
            json={"messages": [{"role": "user", "content": text}], "user_id": "ana", "infer": False},
            timeout=60,
        )
    except httpx.TransportError:
        return None
    return text if answer.status_code == 200 else None


def texts(server: Served) -> set[str]:
    answer = server.client.get("/v1/memories", params={"user_id": "ana", "limit": 1000})
    assert answer.status_code == 200, answer.text
    return {item["memory"] for item in answer.json()["results"]}


@pytest.mark.parametrize("how", ["terminated", "killed", "terminated-workers", "killed-worker"])
def test_stopping_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path, how: str) -> None:
    place = folder(tmp_path / "memory").path
    options = ["--workers", "2"] if "worker" in how else []
    kept: list[str] = []
    with served(place, *options) as server, ThreadPoolExecutor(4) as pool:
        enough, over = threading.Event(), threading.Event()

        def load(first: int) -> None:
            for number in range(first, 10_000, 4):
                if over.is_set():
                    return
                said = write(server, number)
                if said is None and how != "killed-worker":
                    return
                if said is not None:
                    kept.append(said)
                if len(kept) >= 40:
                    enough.set()

        working = [pool.submit(load, first) for first in range(4)]
        assert enough.wait(60)
        if how == "killed":
            server.kill()
        elif how == "killed-worker":
            _kill_one_worker(server)
        else:
            assert server.stop() == 0, server.log.read_text()
        over.set()
        for each in working:
            each.result(60)
    with served(place) as again:
        assert {*kept} <= texts(again)


def _kill_one_worker(server: Served) -> None:
    started = [line for line in server.lines if line["message"].startswith("Started server process")]
    assert len(started) == 2
    os.kill(int(started[0]["message"].split("[")[1].rstrip("]")), signal.SIGKILL)
