"""Forgetting takes along what was made of the forgotten, and what a merged memory was made of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory, MemoryStore
from perdure.domain.event import ErasureReport
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.engine.core.batch import Batch
from perdure.engine.core.kernel import Kernel
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open

pytestmark = pytest.mark.covers("U4", "V69", "V70")

ANA = {"user_id": "ana"}
HAWAII = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")


def kernel_of(memory: Memory) -> Kernel:
    return memory._memory._engine.kernel


def say(memory: Memory, text: str, **scope: Any) -> str:
    return memory.add(text, infer=False, **(scope or ANA)).results[0].id


def make_of(memory: Memory, text: str, ids: list[str], **scope: str) -> str:
    """A memory that was made of others, as summaries and insights are."""

    async def write() -> str:
        kernel, id = kernel_of(memory), new_id()
        moment = kernel.clock.tick()
        made_of = [item for each in ids if (item := memory_item(await kernel.store.get(kernel.collection, each)))]
        item = MemoryItem(
            id=id, memory=text, hash=text_hash(text), scope=Scope(**(scope or ANA)), created_at=moment,
            updated_at=moment, told_at=moment, type="reflective", derived_from=tuple(ids),
            sources=tuple(source for each in made_of for source in each.sources),
        )  # fmt: skip
        batch = Batch(kernel.clock)
        batch.add(item, None, actor="test", reason="made")
        async with kernel.lock(item.scope):
            await kernel.commit(batch.changes, batch.vectors)
        return id

    return PORTAL.call(write())


def memory_item(point: Any) -> MemoryItem | None:
    return None if point is None else MemoryItem.from_payload(point.payload)


def gone(report: ErasureReport) -> set[str]:
    return {item.id for item in report.results}


def holding(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def merged(memory: Memory, texts: tuple[str, ...] = HAWAII, **scope: Any) -> tuple[str, list[str]]:
    ids = [say(memory, text, **scope) for text in texts]
    return kernel_id(MemoryStore(memory).consolidate(ids).id), ids


def kernel_id(shown: str) -> str:
    from uuid import UUID

    return str(UUID(shown.removeprefix("mem_")))


@pytest.fixture(params=["sqlite", "memory"])
def both(request: pytest.FixtureRequest, open_memory: Open) -> Memory:
    return open_memory(embedder={"provider": "hashed"}, vector_store={"provider": request.param})


@pytest.mark.covers("U4")
def test_what_was_made_of_a_memory_goes_with_it_and_what_was_made_of_that(both: Memory) -> None:
    first, second, other = (say(both, f"User deployed service {name}") for name in ("one", "two", "three"))
    insight = make_of(both, "User frequently deploys", [first, second])
    summary = make_of(both, "A summary of insights", [insight])
    apart = make_of(both, "Of the third alone", [other])
    dry = both.forget(id=first, dry_run=True)
    assert gone(dry) == {first, insight, summary}
    assert both.get(insight) is not None
    report = both.forget(id=first)
    assert gone(report) == gone(dry)
    assert [place.count for place in report.places] == [place.count for place in dry.places]
    assert {item.id for item in both.get_all(**ANA).results} == {second, other, apart}
    assert both.history(insight)[0].erased


@pytest.mark.covers("U4")
def test_the_messages_of_the_others_stay(both: Memory) -> None:
    first, second = say(both, "User deployed the shop"), say(both, "User deployed the blog")
    insight = make_of(both, "User frequently deploys", [first, second])
    kept = both.get(second)
    assert kept is not None
    both.forget(id=first)
    assert both.get(insight) is None
    after = both.get(second)
    assert after is not None
    assert after.sources == kept.sources != ()


@pytest.mark.covers("U4", "V69")
def test_a_merged_memory_takes_its_originals_versions_history_and_bytes(quick: Memory, tmp_path: Path) -> None:
    id, originals = merged(quick)
    dry = quick.forget(id=id, dry_run=True)
    found = {place.place: place.count for place in dry.places}
    assert found["store"] == 1
    assert found["versions"] == 3
    assert found["history"] == 7, "three added, three removed, one merged"
    assert found["episodes"] == 3
    report = quick.forget(id=id)
    assert {place.place: place.count for place in report.places} == found
    for each in (id, *originals):
        assert all(record.erased for record in quick.history(each))
    assert quick.get_all(as_of="2999-01-01", include_past=True, **ANA).results == []
    quick.close()
    assert holding(tmp_path, "Hawaii") == []


@pytest.mark.covers("U4", "V69")
def test_merged_twice_all_of_it_goes(quick: Memory, tmp_path: Path) -> None:
    first, _ = merged(quick)
    last = say(quick, "Hawaii budget is $15,000")
    second = MemoryStore(quick).consolidate([first, last])
    assert second.content == "Hawaii budget is $15,000 (updated from initial $10,000)"
    quick.forget(id=second.id)
    quick.close()
    assert holding(tmp_path, "Hawaii") == []


@pytest.mark.covers("U4", "V69")
def test_an_original_takes_the_merged_one_and_leaves_the_other_to_undo(quick: Memory) -> None:
    id, (first, step, last) = merged(quick)
    report = quick.forget(id=first)
    assert gone(report) == {id}
    assert quick.get_all(**ANA).results == []
    for each in (step, last):
        quick.undo(quick.history(each)[-1].id)
    assert sorted(item.memory for item in quick.get_all(**ANA).results) == sorted(HAWAII[1:])


@pytest.mark.covers("U4", "V69")
def test_originals_that_were_brought_back_stay(quick: Memory) -> None:
    id, originals = merged(quick)
    for each in originals:
        quick.undo(quick.history(each)[-1].id)
    quick.forget(id=id)
    assert {item.id for item in quick.get_all(**ANA).results} == set(originals)


@pytest.mark.covers("U4")
def test_without_erasing_each_event_can_be_taken_back(both: Memory) -> None:
    first = say(both, "User deployed the shop")
    insight = make_of(both, "User frequently deploys", [first])
    report = both.forget(id=first, erase=False)
    assert gone(report) == {first, insight}
    last = both.history(insight)[-1]
    assert (last.event, last.actor, last.reason) == ("DELETE", "forget", "derived")
    for each in (first, insight):
        both.undo(both.history(each)[-1].id)
    assert {item.id for item in both.get_all(**ANA).results} == {first, insight}


@pytest.mark.covers("U4")
def test_by_query_and_by_scope_too(both: Memory) -> None:
    first = say(both, "User deployed the shop", user_id="ana", run_id="one")
    second = say(both, "User baked a cake", user_id="ana", run_id="two")
    insight = make_of(both, "Something of the first", [first])
    both.forget(query="User deployed the shop", threshold=0.9, **ANA)
    assert {item.id for item in both.get_all(**ANA).results} == {second}
    insight = make_of(both, "Something of the second", [second])
    dry = both.forget(user_id="ana", run_id="two", dry_run=True)
    assert gone(dry) == {second, insight}, "made of a run's memories, and kept as the user's"
    both.forget(user_id="ana", run_id="two")
    assert both.get_all(**ANA).results == []


@pytest.mark.covers("U4", "V51")
def test_by_type_too(quick: Memory) -> None:
    store = MemoryStore(quick)
    first = store.store("To deploy: run npm build", user_id="ana", type="procedural")
    second = store.store("User likes tea", user_id="ana")
    insight = make_of(quick, "Of both", [kernel_id(first.id), kernel_id(second.id)])
    report = store.forget_by_scope(user_id="ana", types=["procedural"])
    assert gone(report) == {kernel_id(first.id), insight}
    assert [memory.id for memory in store.list(user_id="ana").memories] == [second.id]


@pytest.mark.covers("U4")
def test_two_users_the_others_stay_and_walls_hold(both: Memory) -> None:
    ana, bob = say(both, "User deployed the shop"), say(both, "User deployed the shop", user_id="bob")
    of_ana, of_bob = make_of(both, "Of ana", [ana]), make_of(both, "Of bob", [bob], user_id="bob")
    of_both = make_of(both, "Of ana, kept for a run", [ana], run_id="shared")
    report = both.within(user_id="ana").forget(id=ana)
    assert gone(report) == {ana, of_ana}, "what stands outside of the walls is neither told of nor changed"
    assert both.get(of_both) is not None
    assert both.get(bob) is not None
    assert both.get(of_bob) is not None


@pytest.mark.covers("U4")
def test_an_insight_alone_leaves_what_it_was_made_of(both: Memory) -> None:
    first, second = say(both, "User deployed the shop"), say(both, "User deployed the blog")
    insight = make_of(both, "User frequently deploys", [first, second])
    report = both.forget(id=insight)
    assert gone(report) == {insight}
    left = both.get_all(**ANA).results
    assert {item.id for item in left} == {first, second}


@pytest.mark.covers("U4")
def test_a_memory_that_a_supersede_line_was_made_of(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, updates="supersede")
    id, _ = merged(memory)
    new = memory.update(id, "Hawaii budget is $20,000")
    insight = make_of(memory, "Of the budget", [new.id])
    assert gone(memory.forget(id=id)) == {new.id, insight}
    assert memory.get_all(include_past=True, **ANA).results == []


@pytest.mark.covers("U4")
def test_two_at_once_do_not_stand_in_each_others_way(quick: Memory) -> None:
    ids = [say(quick, f"User deployed service {number}") for number in range(4)]
    insights = [make_of(quick, f"Insight {number}", ids) for number in range(3)]

    async def both_of_them() -> None:
        memory = quick._memory
        await asyncio.gather(memory.forget(id=ids[0]), memory.forget(id=ids[1]))

    PORTAL.call(both_of_them())
    assert {item.id for item in quick.get_all(**ANA).results} == set(ids[2:])
    assert all(quick.get(id) is None for id in insights)
