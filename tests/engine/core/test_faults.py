"""Faults: kills, a full disk, a locked database, a clock set back; nothing lost, nothing half done."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import LedgerError, Memory, PerdureError, VectorStoreError
from perdure.backends import registry
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.maintenance.doctor import examine
from tests.conftest import Open

ANA = {"user_id": "ana"}
ROOT = Path(__file__).parents[3]


def texts(memory: Memory) -> list[str]:
    return [item.memory for item in memory.get_all(**ANA).results]


def disagreements(folder: Path) -> list[str]:
    engine = build(read_config({"path": str(folder), "embedder": {"provider": "hashed"}}))

    async def look() -> list[str]:
        diagnosis = await examine(engine)
        await engine.close()
        return [finding.sentence for finding in diagnosis.findings]

    return asyncio.run(look())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases that wait a fifth of a second for a lock instead of ten."""
    real = registry.build

    def build_impatiently(family: str, name: str, config: Any) -> Any:
        waits = family in ("vector_stores", "ledgers") and name == "sqlite"
        return real(family, name, {**config, "busy_timeout": 0.2} if waits else config)

    monkeypatch.setattr(registry, "build", build_impatiently)


def test_killed_at_random_instants() -> None:
    """The benchmark, in small: SIGKILL under concurrent adds, updates, deletes and forgets."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "crash.py"), "--kills", "12", "--seed", "5", "--json"],
        capture_output=True,
        text=True,
        timeout=280,
    )
    figures = json.loads(done.stdout)
    assert figures["kills"] == 12 and figures["acknowledged"] > 5, "it must have worked before it was killed"
    assert (figures["lost"], figures["disagreements"], figures["readable"]) == ([], [], [])
    assert done.returncode == 0


def test_killed_together_with_the_model() -> None:
    """The other benchmark, in small: the llm curator over HTTP, and SIGKILL for the model's server as well."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "crash_model.py"), "--kills", "4", "--seed", "3", "--json"],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode in (0, 1), done.stderr
    figures = json.loads(done.stdout)
    assert figures["acknowledged"] > 5 and figures["outages"] > 0, "it must have worked before it was killed"
    for what in ("lost", "twice", "never_read", "disagreements", "readable"):
        assert figures[what] == [], what


@pytest.mark.parametrize(("file", "error"), [("history.db", LedgerError), ("memories.db", VectorStoreError)])
def test_locked_database_is_a_clear_error(
    impatient: None, open_memory: Open, folder: Path, file: str, error: type[PerdureError]
) -> None:
    memory = open_memory(embedder={"provider": "hashed"})
    id = memory.add("before", infer=False, **ANA).results[0].id
    blocker = sqlite3.connect(folder / file, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    for attempt in (
        lambda: memory.add("during", infer=False, **ANA),
        lambda: memory.update(id, "changed"),
        lambda: memory.delete(id),
    ):
        with pytest.raises(error, match="lock|busy"):
            attempt()
    blocker.execute("ROLLBACK")
    blocker.close()
    assert texts(memory) == ["before"]
    assert [record.event for record in memory.history(id)] == ["ADD"]
    memory.add("after", infer=False, **ANA)
    memory.close()
    assert disagreements(folder) == []


FULL_DISK = """
import resource, signal, sys
from perdure import Memory, PerdureError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
memory = Memory({"path": sys.argv[1], "embedder": {"provider": "hashed"}})
memory.add("before", user_id="ana", infer=False)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
kept, refused = [], []
for number in range(40):
    text = f"note {number} " + "x" * 20_000
    try:
        memory.add(text, user_id="ana", infer=False)
        kept.append(number)
    except PerdureError as error:
        refused.append(str(error))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
stored = [item.memory.split()[1] for item in memory.get_all(user_id="ana").results if item.memory != "before"]
assert stored == [str(number) for number in kept], (stored, kept)
memory.add("after", user_id="ana", infer=False)
memory.close()
print(len(kept), len(refused), refused[0] if refused else "")
"""


@pytest.mark.parametrize("limit", [300_000, 900_000, 2_000_000])
def test_full_disk_is_a_clear_error(folder: Path, limit: int) -> None:
    """No file may grow beyond the limit, which SQLite reports as it reports a full disk."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder), str(limit)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    kept, refused, message = done.stdout.strip().split(" ", 2)
    assert int(refused) > 0 and int(kept) + int(refused) == 40
    assert any(word in message for word in ("full", "I/O", "disk")), message
    assert disagreements(folder) == []


def test_a_clock_that_goes_back_keeps_the_order(folder: Path) -> None:
    moments = [datetime(2026, 5, 1, 12, tzinfo=UTC) - timedelta(hours=step) for step in range(100)]
    engine = build(
        read_config({"path": str(folder), "embedder": {"provider": "hashed"}}),
        clock=lambda: moments.pop(0) if len(moments) > 1 else moments[0],
    )

    async def run() -> list[str]:
        item = (await engine.write.add_facts(["one"], read_scope(), {})).results[0]
        await engine.revise.update(item.id, "two", {})
        await engine.revise.update(item.id, "three", {})
        records = await engine.read.history(item.id)
        await engine.close()
        assert [record.timestamp for record in records] == sorted(record.timestamp for record in records)
        return [record.new_value or "" for record in records]

    assert asyncio.run(run()) == ["one", "two", "three"]


def read_scope() -> Any:
    from perdure import Scope

    return Scope(user_id="ana")


def test_a_change_that_was_only_journaled_is_applied_on_first_use(open_memory: Open, folder: Path) -> None:
    """A process that died between the journal and the store: the next one finishes it, history included."""
    code = (
        "import os, sys; from perdure import Memory;"
        "from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore as Store;"
        "memory = Memory({'path': sys.argv[1], 'embedder': {'provider': 'hashed'}});"
        "memory.add('first', user_id='ana', infer=False);"
        "Store.apply = lambda *args, **kwargs: os._exit(9);"
        "memory.add('second', user_id='ana', infer=False)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, timeout=60)
    assert done.returncode == 9
    memory = open_memory(embedder={"provider": "hashed"})
    assert texts(memory) == ["first", "second"]
    for item in memory.get_all(**ANA).results:
        assert [record.event for record in memory.history(item.id)] == ["ADD"]
    memory.close()
    assert disagreements(folder) == []


def test_a_refused_change_leaves_no_trace(open_memory: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore

    memory = open_memory(embedder={"provider": "hashed"})
    memory.add("first", infer=False, **ANA)

    async def refuse(*args: Any, **kwargs: Any) -> None:
        raise VectorStoreError("the store says no")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteVectorStore, "apply", refuse)
        with pytest.raises(VectorStoreError, match="says no"):
            memory.add("second", infer=False, **ANA)
    memory.close()
    again = open_memory(embedder={"provider": "hashed"})
    assert texts(again) == ["first"]
    again.close()
    assert disagreements(folder) == []


def test_two_processes_change_one_folder(open_memory: Open, folder: Path) -> None:
    code = (
        "import sys; from perdure import Memory;"
        "memory = Memory({'path': sys.argv[1], 'embedder': {'provider': 'hashed'}});"
        "[memory.add_facts([f'User owns {sys.argv[2]} {n}'], user_id='ana') for n in range(15)]; memory.close()"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(folder), name], stderr=subprocess.PIPE)
        for name in ("kettle", "lantern", "saddle")
    ]
    for worker in workers:
        _, error = worker.communicate(timeout=120)
        assert worker.returncode == 0, error
    assert disagreements(folder) == []
    memory = open_memory(embedder={"provider": "hashed"})
    for item in memory.get_all(**ANA).results:
        assert memory.history(item.id)[-1].new_value == item.memory
