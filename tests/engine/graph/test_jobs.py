"""The graph follows through jobs: it may be down, refuse, or die half way, and no write is the worse for it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import AsyncMemory, Memory
from perdure.backends.llms.base import ToolAnswer
from perdure.domain.errors import GraphDownError, LLMError
from perdure.domain.graph import Statement
from perdure.domain.scope import Scope
from perdure.engine.graph import jobs as waiting
from perdure.engine.graph import sync as keeping
from perdure.engine.graph.sync import GraphSync
from perdure.engine.transfer.transfer import export_archive, import_archive
from perdure.frontends.library.portal import PORTAL
from tests.engine.graph.worlds import ANA, FaultyGraph, config, edges, remember

Open = Callable[..., Memory]

pytestmark = pytest.mark.usefixtures("mended")


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that a worker does in its own time."""
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come about")


def is_done(memory: Memory) -> bool:
    status = memory.graph.queue_status()
    return not (status.pending or status.processing or status.failed)


@pytest.mark.covers("X61", "X62")
def test_a_graph_that_is_down_fails_no_write_and_is_caught_up_when_it_is_back(
    open_memory: Open, tmp_path: Path
) -> None:
    memory = open_memory(**config(tmp_path / "m", faulty=True))
    FaultyGraph.is_down = True
    result = memory.add("Alice works at Initech", infer=False, metadata={"entities": [{"name": "Alice"}]}, **ANA)
    assert [event.event for event in result.results] == ["ADD"]
    assert result.warnings == []
    status = memory.graph.queue_status(**ANA)
    assert (status.pending + status.processing, status.by_kind) == (2, {"entities": 1, "temporal": 1})
    assert memory.search("Initech", **ANA).results[0].memory == "Alice works at Initech"
    with pytest.raises(GraphDownError):
        memory.graph.entities(**ANA)
    FaultyGraph.is_down = False
    until(lambda: is_done(memory))
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]


@pytest.mark.covers("X62")
def test_a_search_says_that_the_graph_was_not_asked(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(**config(tmp_path / "m", faulty=True))
    remember(memory, "Alice works at Initech")
    FaultyGraph.is_down = True
    result = memory.search("Where does Alice work?", **ANA)
    assert [item.memory for item in result.results] == ["Alice works at Initech"]
    assert any("the graph was not searched" in warning for warning in result.warnings)


@pytest.mark.covers("X63")
def test_a_model_that_is_down_leaves_the_job_waiting(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entities = [{"name": "Alice", "type": "person"}, {"name": "Initech", "type": "organization"}]
    relations = [{"source": "Alice", "relation": "works_at", "target": "Initech"}]
    rules = [
        _call('"entities": \\["', "extract_relations", {"relations": relations}),
        _call("Alice has been", "extract_entities", {"entities": entities}),
    ]
    memory = open_memory(**config(tmp_path / "m", llm={"provider": "scripted", "config": {"rules": rules}}))
    model = memory._memory._engine.kernel.llm
    assert model is not None
    genuine, failures = model.generate_with_tool_calls, [LLMError("the model is down", code="server")] * 7

    async def failing(*arguments: Any, **options: Any) -> ToolAnswer:
        if failures:
            raise failures.pop()
        return await genuine(*arguments, **options)

    monkeypatch.setattr(model, "generate_with_tool_calls", failing)
    remember(memory, "Alice has been with Initech for long")
    until(lambda: is_done(memory))
    assert failures == [], "more often than a job may fail"
    (edge,) = memory.graph.relations("Alice", **ANA)
    assert (edge.relation, edge.target) == ("works_at", "Initech")


def _call(match: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"match": match, "answer": {"tool_calls": [{"name": tool, "arguments": arguments}]}}


@pytest.mark.covers("X64")
def test_what_fails_is_tried_again_then_parked_and_revived(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FIRST_PAUSE", 0.001)
    memory = open_memory(**config(tmp_path / "m", faulty=True))
    FaultyGraph.refuses = True
    remember(memory, "Alice works at Initech")
    until(lambda: memory.graph.queue_status().failed == 1)
    status = memory.graph.queue_status()
    assert (status.pending, status.processing, status.oldest_pending_at) == (0, 0, None)
    assert status.by_kind == {"entities": 0, "temporal": 1}
    assert memory.graph.queue_status(user_id="bob").failed == 0, "another's scope does not tell"
    FaultyGraph.refuses = False
    assert memory.graph.revive() == 1
    until(lambda: is_done(memory))
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]


def test_a_job_that_fails_does_not_hold_up_the_others(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(**config(tmp_path / "m", faulty=True))

    async def refuse_one(statement: Statement) -> None:
        if any(relation.source == "Alice" for relation in statement.relations):
            raise RuntimeError("a fault of the graph's own")

    FaultyGraph.before_state = refuse_one
    remember(memory, "Alice works at Initech")
    remember(memory, "Bob works at Globex")
    assert edges(memory, "Bob") == [("Bob", "works_at", "Globex")]


def test_without_a_ledger_the_graph_follows_at_once(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "no-folder").write_text("a file")
    memory = open_memory(
        **config(tmp_path / "m", faulty=True), history={"db_path": str(tmp_path / "no-folder" / "history.db")}
    )
    id = remember(memory, "Alice works at Initech")
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]
    FaultyGraph.is_down = True
    result = memory.add("Bob works at Globex", infer=False, **ANA)
    assert any("graph" in warning for warning in result.warnings)
    FaultyGraph.is_down = False
    memory.delete(id)
    assert memory.graph.entities(**ANA) == []


def test_the_memory_store_has_a_graph_too(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(**config(tmp_path / "m"), vector_store={"provider": "memory"})
    remember(memory, "Alice works at Initech")
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]


def test_two_stores_of_one_ledger_leave_each_other_s_jobs_alone(open_memory: Open, tmp_path: Path) -> None:
    ledger = {"db_path": str(tmp_path / "history.db")}
    one, two = (open_memory(**config(tmp_path / name), history=ledger) for name in ("one", "two"))
    for memory, name in ((one, "Alice"), (two, "Bob")):
        for number in range(3):
            remember(memory, f"{name} works at Initech{number}")
    for memory, name in ((one, "Alice"), (two, "Bob")):
        assert {source for source, _, _ in edges(memory, name, include_past=True)} == {name}
        assert len(edges(memory, name, include_past=True)) == 3


# ------------------------------------------------------------------ processes
KILLED = """
import os, sys
from perdure.backends.ledgers.sqlite import SqliteLedger
from perdure.engine.graph.sync import GraphSync
from perdure import Memory
from pathlib import Path
from tests.engine.graph.worlds import config, remember
point = sys.argv[2]
if point == "before the job":
    GraphSync.wake = lambda self: None
elif point == "in the job":
    async def die(self, item): os._exit(9)
    from perdure.engine.graph.sync import Reconciliation
    Reconciliation._present = die
else:
    async def die(self, batch): os._exit(9)
    SqliteLedger.applied = die
memory = Memory(config(Path(sys.argv[1])))
remember(memory, "Alice works at Initech")
if point == "in the job":
    import time; time.sleep(30)
os._exit(9)
"""


@pytest.mark.covers("X62")
@pytest.mark.parametrize("point", ["before the job", "in the job", "before it is applied"])
def test_killed_between_write_and_job(open_memory: Open, tmp_path: Path, point: str) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "m"), point],
        cwd=root, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 9, done.stderr
    memory = open_memory(**config(tmp_path / "m"))
    assert edges(memory, "Alice") == [("Alice", "works_at", "Initech")]


def _write_many(path: str, name: str) -> None:
    with Memory(config(Path(path))) as memory:
        for number in range(10):
            remember(memory, f"{name} works with Colleague{number}")


def test_two_processes_share_a_queue_and_a_graph(open_memory: Open, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    path = str(tmp_path / "m")
    writers = [spawn.Process(target=_write_many, args=(path, name)) for name in ("Alice", "Bob")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    memory = open_memory(**config(tmp_path / "m"))
    for name in ("Alice", "Bob"):
        assert len(edges(memory, name)) == 10
    assert is_done(memory)


def test_a_fork_works_on_by_itself(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom perdure import Memory\n"
        "from tests.engine.graph.worlds import config, edges, remember\n"
        "memory = Memory(config(Path(sys.argv[1])))\nremember(memory, 'Alice works at Initech')\n"
        "child = os.fork()\n"
        'remember(memory, f\'{"Bob" if child else "Carl"} works at Initech\')\n'
        "found = len(edges(memory, 'Bob' if child else 'Carl'))\n"
        "memory.close()\n"
        "if not child: os._exit(0 if found == 1 else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), found)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m")], cwd=root, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("0 1\n", 0), done.stderr


def test_an_unclosed_memory_with_a_graph_does_not_hang_the_exit(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom perdure import Memory\n"
        "memory = Memory({'path': sys.argv[1], 'embedder': {'provider': 'hashed'},"
        " 'graph_store': {'provider': 'sqlite'}})\n"
        "memory.add('Alice works at Initech', user_id='ana', infer=False); print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_closing_stops_the_worker_and_leaves_the_rest_to_the_next_one(open_memory: Open, tmp_path: Path) -> None:
    with Memory(config(tmp_path / "m", faulty=True)) as memory:
        FaultyGraph.is_down = True
        remember(memory, "Alice works at Initech")
    FaultyGraph.is_down = False
    again = open_memory(**config(tmp_path / "m", faulty=True))
    again.get_all(**ANA)  # opening is enough: no write and no question to the graph is needed
    until(lambda: is_done(again))
    assert FaultyGraph.told


def test_without_a_graph_nothing_follows_and_nothing_joins_a_search(
    quick: Memory, open_memory: Open, tmp_path: Path
) -> None:
    engine = quick._memory._engine
    assert engine.kernel.change_observer is None
    assert engine.read._related is None
    remember(quick, "Alice works at Initech")
    assert quick.search("Alice", **ANA).warnings == []
    assert isinstance(open_memory(**config(tmp_path / "m"))._memory._engine.kernel.change_observer, GraphSync)


def test_one_memory_serves_event_loops_that_come_and_go(tmp_path: Path) -> None:
    memory = AsyncMemory(config(tmp_path / "m"))

    async def tell(name: str) -> int:
        await memory.add(f"{name} works at Initech", infer=False, **ANA)
        return len(await memory.graph.relations("Initech", **ANA))

    assert [asyncio.run(tell(name)) for name in ("Alice", "Bob")] == [1, 2]
    asyncio.run(memory.close())


def test_a_model_that_hangs_holds_up_only_its_own_scope(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [
        _call('"entities": \\["', "extract_relations", {"relations": []}),
        _call("works", "extract_entities", {"entities": [{"name": "Initech", "type": "organization"}]}),
    ]
    memory = open_memory(**config(tmp_path / "m", llm={"provider": "scripted", "config": {"rules": rules}}))
    model = memory._memory._engine.kernel.llm
    assert model is not None
    genuine, hanging = model.generate_with_tool_calls, threading.Event()

    async def slow(system: str, message: str, *arguments: Any, **options: Any) -> ToolAnswer:
        while "Alice" in message and not hanging.is_set():
            await asyncio.sleep(0.01)
        return await genuine(system, message, *arguments, **options)

    monkeypatch.setattr(model, "generate_with_tool_calls", slow)
    remember(memory, "Alice works at Initech")
    remember(memory, "Bob works at Initech", user_id="bob")
    until(lambda: memory.graph.queue_status(user_id="bob").by_kind["temporal"] == 0)
    assert memory.graph.queue_status(**ANA).processing == 1
    hanging.set()
    until(lambda: is_done(memory))


def test_an_import_reaches_the_graph(open_memory: Open, tmp_path: Path) -> None:
    first = open_memory(**config(tmp_path / "m"))
    remember(first, "Alice works at Initech")

    lines: list[str] = []
    PORTAL.call(export_archive(first._memory._engine, Scope(), lines.append))
    second = open_memory(**config(tmp_path / "n"))
    PORTAL.call(import_archive(second._memory._engine, lines))
    assert edges(second, "Alice") == [("Alice", "works_at", "Initech")]


def test_a_read_answers_though_a_model_hangs(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "SETTLE_SECONDS", 0.2)
    rules = [_call(".", "extract_entities", {"entities": []})]
    memory = open_memory(**config(tmp_path / "m", llm={"provider": "scripted", "config": {"rules": rules}}))
    model = memory._memory._engine.kernel.llm
    assert model is not None
    told = threading.Event()

    async def hang(*arguments: Any, **options: Any) -> ToolAnswer:
        told.set()
        return await asyncio.Future()

    monkeypatch.setattr(model, "generate_with_tool_calls", hang)
    remember(memory, "Alice works at Initech")
    assert told.wait(10)
    assert memory.graph.entities(**ANA) == []
    assert [item.memory for item in memory.search("Alice", **ANA).results] == ["Alice works at Initech"]
    memory.close()  # nor does it hold up closing, and the job is there for the next one
    with Memory(config(tmp_path / "m")) as again:
        assert edges(again, "Alice") == [("Alice", "works_at", "Initech")]


def test_a_search_waits_for_what_was_just_written_or_says_that_it_did_not(open_memory: Open, tmp_path: Path) -> None:
    memory = open_memory(**config(tmp_path / "m"))
    people = [
        "Alice's manager is Bob",
        *(f"Person{number} works at Initech" for number in range(60)),
        "Bob lives in Porto",
    ]
    memory.add_facts(people, **ANA)
    found = memory.search("Where does Alice's manager live?", limit=2, **ANA)
    behind = [each for each in found.warnings if "the graph is behind" in each]
    assert behind or [item.memory for item in found.results] == ["Alice's manager is Bob", "Bob lives in Porto"]
    until(lambda: is_done(memory))
    found = memory.search("Where does Alice's manager live?", limit=2, **ANA)
    assert [item.memory for item in found.results] == ["Alice's manager is Bob", "Bob lives in Porto"]
    assert found.warnings == []


def test_a_search_says_that_the_graph_is_behind(
    open_memory: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(**config(tmp_path / "m", faulty=True))
    remember(memory, "Alice's manager is Bob")
    until(lambda: is_done(memory))
    monkeypatch.setattr(keeping, "QUICK_SETTLE_SECONDS", 0.01)
    held = asyncio.Event()

    async def hold(_statement: Statement) -> None:
        await held.wait()

    FaultyGraph.before_state = hold
    memory.add_facts(["Bob lives in Porto"], **ANA)
    found = memory.search("Where does Alice's manager live?", **ANA)
    assert [each for each in found.warnings if "the graph is behind" in each]
    assert found.results[0].memory == "Alice's manager is Bob", "what is found directly is found all the same"
    FaultyGraph.before_state = None
    PORTAL.call(_set(held))
    until(lambda: is_done(memory))
    assert memory.search("Where does Alice's manager live?", **ANA).warnings == []


async def _set(event: asyncio.Event) -> None:
    event.set()
