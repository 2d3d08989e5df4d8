"""Erasure reaches the graph and its jobs, says so, and waits for a graph that is down; the doctor sees what differs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import Memory
from perdure.domain.event import ErasedPlace, ErasureReport
from perdure.domain.graph import Mention, Statement
from perdure.domain.scope import Scope
from perdure.engine.graph import jobs as waiting
from perdure.engine.maintenance.doctor import Diagnosis, examine, repair
from perdure.frontends.library.portal import PORTAL
from tests.engine.graph.worlds import ANA, FaultyGraph, config, edges, remember

Open = Callable[..., Memory]

NOW = "2026-05-01T00:00:00.000000+00:00"

pytestmark = pytest.mark.usefixtures("mended")


@pytest.fixture
def memory(open_memory: Open, tmp_path: Path) -> Memory:
    return open_memory(**config(tmp_path / "m", faulty=True))


def place(report: ErasureReport, name: str = "graph") -> ErasedPlace:
    return next(each for each in report.places if each.place == name)


def bytes_of(tmp_path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in (tmp_path / "m").iterdir() if file.is_file())


def until_done(memory: Memory) -> None:
    for _ in range(500):
        status = memory.graph.queue_status()
        if not (status.pending or status.processing or status.failed):
            return
        time.sleep(0.02)
    raise AssertionError("the queue does not empty")


@pytest.mark.parametrize("whole", [False, True])
def test_forgetting_reaches_nodes_edges_and_jobs(memory: Memory, tmp_path: Path, whole: bool) -> None:
    id = remember(memory, "Zaphira works at Initech", metadata={"entities": [{"name": "Quuxly"}]})
    kept = remember(memory, "Alice works at Initech", user_id="bob" if whole else "ana")
    assert edges(memory, "Zaphira")
    asked = ANA if whole else {"id": id}
    dry = memory.forget(**asked, dry_run=True)
    assert place(dry).status == "found" and place(dry).count > 0
    assert edges(memory, "Zaphira"), "a dry run changes nothing"
    report = memory.forget(**asked)
    assert (place(report).status, place(report).count) == ("erased", place(dry).count)
    assert not report.pending
    scope = {"user_id": "bob"} if whole else ANA
    assert {entity.name for entity in memory.graph.entities(**scope)} == {"Alice", "Initech"}
    assert memory.get(kept) is not None
    memory.close()
    found = bytes_of(tmp_path)
    assert b"Zaphira" not in found and b"Quuxly" not in found and b"Alice" in found


def test_erasing_by_delete_and_from_a_deleted_memory(memory: Memory) -> None:
    first, second = remember(memory, "Alice works at Initech"), remember(memory, "Bob works at Globex")
    memory.delete(first, erase=True)
    memory.delete(second)
    report = memory.forget(id=second)
    assert place(report).status == "erased"
    store = PORTAL.call(memory._memory._engine.kernel.change_observer.store())  # type: ignore[union-attr]
    assert PORTAL.call(store.count([first, second])) == 0


def test_a_graph_that_is_down_is_erased_when_it_is_back(memory: Memory, tmp_path: Path) -> None:
    id = remember(memory, "Zaphira works at Initech")
    assert edges(memory, "Zaphira")
    FaultyGraph.is_down = True
    report = memory.forget(id=id)
    assert place(report).status == "pending" and report.pending
    assert memory.graph.queue_status().by_kind["erase"] == 1
    memory.close()
    assert b"Zaphira" not in (tmp_path / "m" / "history.db").read_bytes(), "the job carries no text"
    FaultyGraph.is_down = False
    with Memory(config(tmp_path / "m", faulty=True)) as again:
        again.get_all(**ANA)
        until_done(again)
        assert again.graph.entities(**ANA) == []
    assert b"Zaphira" not in bytes_of(tmp_path)


def test_a_job_under_way_does_not_bring_back_what_is_forgotten_meanwhile(memory: Memory) -> None:
    forgotten: list[str] = []

    async def forget_first(statement: Statement) -> None:
        if not forgotten:
            forgotten.append(statement.memory_id)
            await memory._memory.forget(id=statement.memory_id)

    FaultyGraph.before_state = forget_first
    id = remember(memory, "Zaphira works at Initech")
    until_done(memory)
    assert forgotten == [id]
    assert memory.graph.entities(**ANA) == []
    store = PORTAL.call(memory._memory._engine.kernel.change_observer.store())  # type: ignore[union-attr]
    assert PORTAL.call(store.count([id])) == 0


@pytest.mark.parametrize("is_down", [False, True])
def test_a_reset_clears_the_graph(memory: Memory, is_down: bool) -> None:
    remember(memory, "Alice works at Initech")
    assert edges(memory, "Alice")
    FaultyGraph.is_down = is_down
    memory.reset()
    remember(memory, "Bob works at Globex")
    FaultyGraph.is_down = False
    until_done(memory)
    assert {entity.name for entity in memory.graph.entities(**ANA)} == {"Bob", "Globex"}


# ------------------------------------------------------------------ the doctor
def diagnosis(memory: Memory) -> Diagnosis:
    return PORTAL.call(examine(memory._memory._engine))


def mend(memory: Memory) -> list[str]:
    return PORTAL.call(repair(memory._memory._engine, diagnosis(memory))).failed


def test_the_doctor_finds_what_the_graph_does_not_hold_or_holds_too_much(memory: Memory) -> None:
    first, second = remember(memory, "Alice works at Initech"), remember(memory, "Bob works at Globex")
    until_done(memory)
    assert diagnosis(memory).healthy
    store = PORTAL.call(memory._memory._engine.kernel.change_observer.store())  # type: ignore[union-attr]
    PORTAL.call(store.erase([first]))
    ghost = Statement(
        memory_id="no-such-memory", by="temporal", scope=Scope(**ANA), told_at=NOW, mentions=(Mention(name="Ghost"),)
    )
    PORTAL.call(store.state(ghost, NOW))
    found = diagnosis(memory)
    assert not found.healthy
    assert {finding.id for finding in found.findings if finding.kind == "graph"} == {first, "no-such-memory"}
    assert mend(memory) == []
    assert diagnosis(memory).healthy
    assert {entity.name for entity in memory.graph.entities(**ANA)} == {"Alice", "Initech", "Bob", "Globex"}
    assert memory.get(second) is not None


def test_the_doctor_tells_of_parked_jobs_and_of_a_graph_that_is_down(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FIRST_PAUSE", 0.001)
    FaultyGraph.refuses = True
    remember(memory, "Alice works at Initech")
    for _ in range(500):
        if memory.graph.queue_status().failed:
            break
        time.sleep(0.02)
    FaultyGraph.is_down = True
    assert any("cannot be asked" in finding.sentence for finding in diagnosis(memory).findings)
    FaultyGraph.mend()
    assert any("failed too often" in finding.sentence for finding in diagnosis(memory).findings)
    assert mend(memory) == []
    assert edges(memory, "Alice")
    assert diagnosis(memory).healthy
