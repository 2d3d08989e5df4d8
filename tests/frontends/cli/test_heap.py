"""What serves has one heap for all of its threads, unless whoever runs it says otherwise."""

from __future__ import annotations

import os
import platform
from itertools import pairwise
from pathlib import Path

import pytest

from tests.frontends.server.served import served

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps are the GNU C library's")

HEAP = 64 * 2**20
"""Bytes of addresses that each heap of a thread takes, at a multiple of as many; what is not in use of it is closed."""


def thread_heaps(process: int) -> int:
    """How many heaps a process has beside the one that it began with."""
    lines = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
    found = 0
    for (place, rights, *_), (behind, closed, *_) in pairwise(lines):
        start, end = (int(at, 16) for at in place.split("-"))
        last, after = (int(at, 16) for at in behind.split("-"))
        is_whole = start % HEAP == 0 and end == last and after - start == HEAP
        found += is_whole and rights.startswith("rw") and closed.startswith("---")
    return found


def heaps_of_a_server(folder: Path, *options: str, **variables: str) -> list[int]:
    """The heaps of each of its processes once it has remembered something, which is its threads' work."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    with served(folder, *options, env={**kept, **variables, "PERDURE_EMBEDDER__PROVIDER": "hashed"}) as server:
        told = {"messages": "I live in Lisbon.", "user_id": "ana"}
        for _ in range(8):
            assert server.client.post("/v1/memories", json=told).status_code == 200
        first = server.process.pid
        others = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [thread_heaps(process) for process in (first, *map(int, others))]


def test_threads_of_a_server_share_one_heap(tmp_path: Path) -> None:
    assert heaps_of_a_server(tmp_path / "memory") == [0]


def test_who_runs_it_has_the_last_word(tmp_path: Path) -> None:
    (heaps,) = heaps_of_a_server(tmp_path / "memory", MALLOC_ARENA_MAX="3")
    assert heaps == 2


def test_threads_of_each_worker_share_one_heap(tmp_path: Path) -> None:
    heaps = heaps_of_a_server(tmp_path / "memory", "--workers", "2")
    assert len(heaps) >= 3
    assert not any(heaps)
