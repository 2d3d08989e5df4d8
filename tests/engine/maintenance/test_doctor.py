"""The doctor: finds what store, ledger and messages disagree on, changes nothing by looking, and mends what can be."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.vector_stores.base import Point
from perdure.domain.event import Episode
from perdure.domain.memory import LIVE
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.maintenance import consistency, doctor
from perdure.engine.maintenance.doctor import Diagnosis, examine, repair
from perdure.engine.requests import Addition, ForgetRequest
from tests.engine.transfer.test_transfer import ANA, export, live_a_little, run, say

Work = Callable[[Engine], Awaitable[Any]]


def kinds(diagnosis: Diagnosis) -> dict[str, int]:
    return dict(diagnosis.kinds())


async def mend(engine: Engine) -> tuple[Diagnosis, doctor.Repair, Diagnosis]:
    before = await examine(engine)
    done = await repair(engine, before)
    return before, done, await examine(engine)


async def the_row(engine: Engine, words: str) -> Point:
    await engine.kernel.ready()
    async for points in engine.kernel.store.stream(engine.kernel.collection):
        for point in points:
            if point.payload["state"] == LIVE and words in point.payload["memory"]:
                whole = await engine.kernel.store.get("memories", point.id)
                assert whole is not None
                return whole
    raise AssertionError(f"no row says {words!r}")


@pytest.fixture
def lived(tmp_path: Path) -> Path:
    run(tmp_path, live_a_little)
    return tmp_path


def test_a_sound_memory_is_healthy_and_counted(lived: Path) -> None:
    diagnosis = run(lived, examine)
    assert diagnosis.findings == []
    assert diagnosis.healthy
    rows = run(lived, all_rows).values()
    live = sum(row["state"] == LIVE for row in rows)
    told = sum('"record":"history"' in line for line in export(lived))
    assert min(live, len(rows) - live, told) > 3
    assert diagnosis.counted == {"memories": live, "versions": len(rows) - live, "messages": 0, "history": told}
    assert diagnosis.model_dump() == {"healthy": True, "findings": [], "counted": diagnosis.counted}


def test_an_empty_memory_is_healthy(tmp_path: Path) -> None:
    assert run(tmp_path, examine).healthy


def test_looking_changes_nothing(lived: Path) -> None:
    def state() -> tuple[str, list[str]]:
        store = hashlib.sha256((lived / "memories.db").read_bytes()).hexdigest()
        return store, export(lived)[1:]

    state()  # the first opening after a use folds logs into the files
    before = state()
    for harm in (put_a_row_of_nowhere, lose_a_row):
        run(lived, harm)
        run(lived, examine)
    harmed = state()
    run(lived, examine)
    assert state() == harmed != before


@pytest.mark.parametrize("updates", ["in_place", "supersede"])
@pytest.mark.parametrize("episodes", ["keep", "search", "off"])
def test_every_way_of_keeping_is_healthy(tmp_path: Path, updates: str, episodes: str) -> None:
    async def work(engine: Engine) -> Diagnosis:
        await live_a_little(engine)
        await engine.forget(ForgetRequest(scope=Scope(user_id="ben")))
        await say(engine, "Forget that I am allergic to peanuts.")
        return await examine(engine)

    assert run(tmp_path, work, updates=updates, episodes=episodes).findings == []


# ------------------------------------------------------------------ store against history


async def lose_a_row(engine: Engine) -> None:
    await engine.kernel.store.apply("memories", (), [(await the_row(engine, "peanuts")).id])


async def change_a_text(engine: Engine) -> None:
    point = await the_row(engine, "peanuts")
    payload = {**point.payload, "memory": "User is allergic to nothing"}
    await engine.kernel.store.update("memories", point.id, payload=payload)


async def bring_a_row_back(engine: Engine) -> None:
    point = await the_row(engine, "peanuts")
    await engine.revise.delete(point.id)
    await engine.kernel.store.apply("memories", [point])


async def put_a_row_of_nowhere(engine: Engine) -> None:
    point = await the_row(engine, "peanuts")
    id = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"
    await engine.kernel.store.apply("memories", [Point(id, point.vector, {**point.payload, "id": id})])


async def put_a_version_of_nowhere(engine: Engine) -> None:
    point = await the_row(engine, "peanuts")
    id, other = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10", "8b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"
    payload = {**point.payload, "id": id, "state": "version", "version_of": other}
    await engine.kernel.store.apply("memories", [Point(id, point.vector, payload)])


@pytest.mark.parametrize(
    ("harm", "kind", "events"),
    [
        (change_a_text, "text", ["ADD", "UPDATE"]),
        (bring_a_row_back, "revived", ["ADD", "DELETE", "ADD"]),
        (put_a_row_of_nowhere, "unrecorded", ["ADD"]),
        (put_a_version_of_nowhere, "version", ["ADD", "DELETE"]),
    ],
)
def test_a_rift_is_found_and_mended_from_the_store(lived: Path, harm: Work, kind: str, events: list[str]) -> None:
    run(lived, harm)
    rows = run(lived, all_rows)
    found = run(lived, examine)
    assert kinds(found) == {kind: 1}
    assert not found.healthy
    assert found.findings[0].repairable
    assert found.findings[0].id in found.findings[0].sentence

    before, done, after = run(lived, mend)
    assert before == found
    assert len(done.done) == 1
    assert done.failed == []
    assert after.findings == []
    assert run(lived, all_rows) == rows
    history = run(lived, lambda engine: engine.read.history(found.findings[0].id))
    assert [record.event for record in history] == events
    assert history[-1].actor == "repair"


def test_a_row_that_is_lost_is_rebuilt_and_its_history_stays(lived: Path) -> None:
    rows, past = run(lived, all_rows), export(lived)
    run(lived, lose_a_row)
    before, done, after = run(lived, mend)
    assert kinds(before) == {"lost": 1}
    assert before.findings[0].repairable
    assert done.done == ["rebuilt 1 memories from what the ledger has kept of them"]
    assert done.failed == after.findings == []
    assert run(lived, all_rows) == rows
    assert export(lived)[1:] == past[1:]


async def all_rows(engine: Engine) -> dict[str, Any]:
    await engine.kernel.ready()
    return {
        point.id: point.payload
        async for points in engine.kernel.store.stream(engine.kernel.collection)
        for point in points
    }


def test_a_lost_ledger_is_written_again_from_the_store(lived: Path) -> None:
    texts = {id: row["memory"] for id, row in run(lived, all_rows).items()}
    for file in lived.glob("history.db*"):
        if file.is_file():
            file.unlink()
    before, done, after = run(lived, mend)
    live = before.counted["memories"]
    assert kinds(before) == {"unrecorded": live, "version": 1, "source": live + 1}
    assert done.failed == []
    assert after.findings == []
    assert {id: row["memory"] for id, row in run(lived, all_rows).items()} == texts

    async def past(engine: Engine) -> list[tuple[str, str | None]]:
        home = await the_row(engine, "Porto")
        return [(record.event, record.new_value) for record in await engine.read.history(home.id)]

    assert run(lived, past) == [("ADD", "User lives in Lisbon"), ("UPDATE", "User moved to Porto")]


def test_mending_twice_is_mending_once(lived: Path) -> None:
    async def work(engine: Engine) -> tuple[doctor.Repair, doctor.Repair]:
        await engine.kernel.ready()
        await change_a_text(engine)
        before = await examine(engine)
        return await repair(engine, before), await repair(engine, before)

    first, second = run(lived, work)
    assert first.done
    assert second.done == second.failed == []


def test_what_another_collection_holds_is_not_lost(lived: Path) -> None:
    run(lived, lambda engine: say(engine, "I have a parrot."), vector_store={"collection_name": "others"})
    assert run(lived, examine).findings == []


def test_what_others_write_meanwhile_is_no_disagreement(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "PAGE", 2)

    async def work(engine: Engine) -> Diagnosis:
        stop = asyncio.Event()

        async def write() -> None:
            while not stop.is_set():
                added = await say(engine, "kept as it was said", infer=False)
                await engine.revise.update(added[0].id, "and changed", {})
                await engine.revise.delete(added[0].id)

        writer = asyncio.create_task(write())
        diagnosis = await examine(engine)
        stop.set()
        await writer
        return diagnosis

    diagnosis = run(lived, work)
    assert [finding.sentence for finding in diagnosis.findings if finding.kind != "journal"] == []
    assert diagnosis.healthy


# ------------------------------------------------------------------ messages


def test_sources_that_are_gone_are_named_and_dropped(lived: Path) -> None:
    async def harm(engine: Engine) -> None:
        row = await the_row(engine, "peanuts")
        await engine.kernel.ledger.erase([], row.payload["sources"])  # type: ignore[union-attr]  # it is open

    run(lived, harm)
    before, done, after = run(lived, mend)
    assert set(kinds(before)) == {"source"}
    assert done.failed == []
    assert after.findings == []
    assert "sources" not in run(lived, lambda engine: the_row(engine, "peanuts")).payload


def test_searched_messages_that_the_ledger_lacks_are_taken_out(tmp_path: Path) -> None:
    async def work(engine: Engine) -> tuple[Diagnosis, doctor.Repair, Diagnosis]:
        await say(engine, "I have a cat called Miso.")
        assert engine.kernel.ledger is not None
        episodes = (await engine.kernel.ledger.list_episodes(Scope())).episodes
        await engine.kernel.ledger.erase([], [episode.id for episode in episodes])
        return await mend(engine)

    before, done, after = run(tmp_path, work, episodes="search")
    assert kinds(before) == {"episode": 1, "source": 1}
    assert done.failed == []
    assert after.findings == []


def waiting(id: str, add_id: str, position: int, content: str) -> Episode:
    return Episode(
        id=id, add_id=add_id, position=position, role="user", content=content, scope={"user_id": "ana"},
        told_at="2025-01-02T03:04:05.000000+00:00", created_at="2025-01-02T03:04:05.000000+00:00", pending=True,
    )  # fmt: skip


def test_messages_that_wait_are_read(tmp_path: Path) -> None:
    async def work(engine: Engine) -> tuple[Any, ...]:
        await engine.kernel.ready()
        assert engine.kernel.ledger is not None
        await engine.kernel.ledger.insert_episodes(
            [waiting("e1", "a1", 0, "I have a cat called Miso."), waiting("e2", "a1", 1, "I live in Lisbon."),
             waiting("e3", "a2", 0, "I moved to Porto.")]
        )  # fmt: skip
        seen = await mend(engine)
        page = await engine.read.get_all(ANA, limit=9, filters=None, cursor=None, as_of=None, include_past=False)
        return *seen, page.results

    before, done, after, items = run(tmp_path, work)
    assert kinds(before) == {"pending": 3}
    assert {finding.id for finding in before.findings} == {"e1", "e2", "e3"}
    assert done.failed == []
    assert after.findings == []
    texts = {item.memory: item for item in items}
    assert set(texts) == {"User has a cat called Miso", "User moved to Porto"}
    assert texts["User moved to Porto"].told_at == "2025-01-02T03:04:05.000000+00:00"
    assert set(texts["User has a cat called Miso"].sources) == {"e1"}


def test_messages_that_still_cannot_be_read_go_on_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(engine: Engine) -> tuple[Diagnosis, doctor.Repair, Diagnosis]:
        await engine.kernel.ready()
        assert engine.kernel.ledger is not None
        await engine.kernel.ledger.insert_episodes([waiting("e1", "a1", 0, "I have a cat called Miso.")])

        async def unread(*_: Any, **__: Any) -> Any:
            from perdure.engine.write.curator import Reading

            return Reading([], unread=True, warnings=["no model answered"])

        monkeypatch.setattr(engine.kernel.curator, "read", unread)
        return await mend(engine)

    before, done, after = run(tmp_path, work)
    assert done.done == []
    assert done.failed == ["no model answered"]
    assert after.findings == before.findings


# ------------------------------------------------------------------ vectors, store, ledger


def test_an_absent_embedder_is_worth_a_notice(tmp_path: Path) -> None:
    nowhere = {"provider": "minilm", "config": {"path": str(tmp_path / "nowhere")}}

    async def work(engine: Engine) -> Diagnosis:
        await say(engine, "I have a cat called Miso.")
        return await examine(engine)

    diagnosis = run(tmp_path, work, embedder=nowhere)
    assert kinds(diagnosis) == {"embedder": 1, "unembedded": 1}
    assert diagnosis.healthy
    assert "nowhere" in diagnosis.findings[0].sentence


def test_rows_without_a_vector_are_embedded(lived: Path) -> None:
    async def work(engine: Engine) -> tuple[Any, ...]:
        await engine.kernel.ready()
        point = await the_row(engine, "peanuts")
        await engine.kernel.store.apply("memories", [Point(point.id, None, point.payload)])
        seen = await mend(engine)
        return *seen, point.vector, (await engine.kernel.store.get("memories", point.id)).vector  # type: ignore[union-attr]  # it is there

    before, done, after, old, new = run(lived, work)
    assert kinds(before) == {"unembedded": 1}
    assert done.done == ["embedded 1 rows"]
    assert after.findings == []
    assert new.tolist() == old.tolist()


def test_a_spoilt_text_index_is_rebuilt(lived: Path) -> None:
    with sqlite3.connect(lived / "memories.db") as connection:
        connection.execute("INSERT INTO text_1 (text_1) VALUES ('delete-all')")
    connection.close()
    before, done, after = run(lived, mend)
    assert kinds(before) == {"store": 1}
    assert "full-text" in before.findings[0].sentence
    assert done.failed == []
    assert after.findings == []


def test_a_ledger_that_cannot_be_opened_is_a_finding(lived: Path) -> None:
    for file in lived.glob("history.db*"):
        if file.is_file():
            file.unlink()
    (lived / "history.db").mkdir()
    diagnosis = run(lived, examine)
    assert kinds(diagnosis) == {"ledger": 1}
    assert not diagnosis.healthy
    assert run(lived, lambda engine: repair(engine, diagnosis)).done == []


def test_large_stores_are_read_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    async def work(engine: Engine) -> Diagnosis:
        messages = [Message("user", f"note number {n}") for n in range(1300)]
        await engine.write.add(Addition(messages=messages, scope=ANA, infer=False))
        point = await the_row(engine, "number 777")
        await engine.kernel.store.apply("memories", (), [point.id])
        return await examine(engine, told.append)

    diagnosis = run(tmp_path, work)
    assert kinds(diagnosis) == {"lost": 1}
    assert diagnosis.counted["memories"] == 1299
    assert told == [500, 1000, 1300, 1800, 2300, 2599]
