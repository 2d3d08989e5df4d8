"""MemoryStore.consolidate: several memories become one, which nothing is lost by."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from perdure import (
    AsyncMemory,
    AsyncMemoryStore,
    ClosedError,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    Memory,
    MemoryStore,
    NotFoundError,
)
from perdure.domain.stored_memory import StoredMemory
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open

pytestmark = pytest.mark.covers("B12", "V47", "V69")

HAWAII = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")
MERGED = "Hawaii budget is $12,000 (updated from initial $10,000)"


@pytest.fixture
def store(quick: Memory) -> MemoryStore:
    return MemoryStore(quick)


def keep(store: MemoryStore, texts: tuple[str, ...] = HAWAII, user: str = "ana", **fields: Any) -> list[StoredMemory]:
    return [store.store(text, user_id=user, **fields) for text in texts]


def texts(store: MemoryStore, user: str = "ana") -> list[str]:
    return [memory.content for memory in store.list(user_id=user).memories]


@pytest.mark.covers("V69")
def test_three_hawaii_budgets_become_one(store: MemoryStore, quick: Memory) -> None:
    stored = keep(store)
    merged = store.consolidate([memory.id for memory in stored])
    assert merged.content == MERGED
    assert (merged.user_id, merged.type, merged.source) == ("ana", "semantic", "consolidation")
    assert texts(store) == [MERGED]
    for memory in stored:
        with pytest.raises(NotFoundError):
            store.get(memory.id)
    item = quick.get(merged.id)
    assert item is not None
    assert item.derived_from == tuple(quick.history(memory.id)[0].memory_id for memory in stored)


@pytest.mark.covers("V69")
def test_the_order_of_the_ids_plays_no_part(store: MemoryStore) -> None:
    stored = keep(store)
    assert store.consolidate([memory.id for memory in reversed(stored)]).content == MERGED


@pytest.mark.covers("B12", "V69")
def test_it_has_the_greatest_importance_the_first_creation_and_every_source(quick: Memory) -> None:
    store = MemoryStore(quick)
    ids = [quick.add(text, infer=False, user_id="ana").results[0].id for text in HAWAII]
    for id, importance in zip(ids, (0.2, 0.9, 0.4), strict=True):
        store.update(id, importance=importance)
    before = [item for id in ids if (item := quick.get(id)) is not None]
    merged = quick.get(store.consolidate(ids).id)
    assert merged is not None
    assert merged.importance == 0.9
    assert set(merged.sources) == {source for item in before for source in item.sources}
    assert len(merged.sources) == 3
    assert merged.created_at == min(item.created_at for item in before)
    assert merged.valid_from == min(item.valid_from or "" for item in before)


@pytest.mark.covers("V69")
def test_every_event_can_be_taken_back(store: MemoryStore, quick: Memory) -> None:
    stored = keep(store)
    merged = store.consolidate([memory.id for memory in stored])
    for memory in stored:
        last = quick.history(memory.id)[-1]
        assert (last.event, last.reason, last.actor) == ("DELETE", "consolidated", "consolidate")
        quick.undo(last.id)
    quick.undo(quick.history(merged.id)[-1].id)
    assert sorted(texts(store)) == sorted(HAWAII)


def merged_twice(store: MemoryStore) -> tuple[str, str]:
    """The ids of a merged memory, and of what it was merged into."""
    first = store.consolidate([memory.id for memory in keep(store, HAWAII[:2])])
    return first.id, store.consolidate([first.id, keep(store, HAWAII[2:])[0].id]).id


@pytest.mark.covers("V69")
@pytest.mark.parametrize("updates", ["in_place", "supersede"])
@pytest.mark.parametrize("provider", ["sqlite", "memory", "markdown"])
def test_one_undo_takes_back_a_merge_and_another_makes_it_again(open_memory: Open, provider: str, updates: str) -> None:
    memory = open_memory(embedder={"provider": "hashed"}, vector_store={"provider": provider}, updates=updates)
    store = MemoryStore(memory)
    stored = keep(store)
    merged = store.consolidate([each.id for each in stored])
    undone = memory.undo(memory.history(merged.id)[-1].id)
    assert [event.event for event in undone.results] == ["DELETE", "ADD", "ADD", "ADD"]
    assert sorted(texts(store)) == sorted(HAWAII)
    assert memory.undo(memory.history(merged.id)[0].id).results == [], "it is taken back already"
    for _ in range(2):
        memory.undo(memory.history(merged.id)[-1].id)
        assert texts(store) == [MERGED]
        memory.undo(memory.history(merged.id)[-1].id)
        assert sorted(texts(store)) == sorted(HAWAII)


@pytest.mark.covers("V69")
def test_what_became_of_an_original_since_stays_so(store: MemoryStore, quick: Memory) -> None:
    changed, deleted, untouched = keep(store)
    merged = store.consolidate([changed.id, deleted.id, untouched.id])
    for each in (changed, deleted):
        quick.undo(quick.history(each.id)[-1].id)
    store.update(changed.id, "Budget for Hawaii is $9,000")
    quick.delete(deleted.id)
    quick.undo(quick.history(merged.id)[-1].id)
    assert sorted(texts(store)) == ["Budget for Hawaii is $9,000", HAWAII[2]]
    store.update(untouched.id, "Final Hawaii budget is $13,000")
    quick.undo(quick.history(merged.id)[-1].id)
    assert sorted(texts(store)) == ["Budget for Hawaii is $9,000", "Final Hawaii budget is $13,000", MERGED]


@pytest.mark.covers("V69")
def test_a_merge_is_not_taken_back_if_nothing_would_be_left(store: MemoryStore, quick: Memory) -> None:
    stored = keep(store)
    merged = store.consolidate([memory.id for memory in stored])
    for memory in stored:
        quick.undo(quick.history(memory.id)[-1].id)
        quick.delete(memory.id)
    with pytest.raises(ConflictError, match="nothing would be left; delete memory"):
        quick.undo(quick.history(merged.id)[0].id)
    assert texts(store) == [MERGED]


@pytest.mark.covers("V69")
def test_of_two_merges_the_last_is_taken_back_first(store: MemoryStore, quick: Memory) -> None:
    first, second = merged_twice(store)
    with pytest.raises(ConflictError, match=f"event {quick.history(second)[0].id} merged the same memory"):
        quick.undo(quick.history(first)[0].id)
    quick.undo(quick.history(second)[0].id)
    assert len(texts(store)) == 2
    quick.undo(quick.history(first)[0].id)
    assert sorted(texts(store)) == sorted(HAWAII)


@pytest.mark.covers("V69")
def test_a_changed_merged_memory_is_not_undone_before_its_change(store: MemoryStore, quick: Memory) -> None:
    merged = store.consolidate([memory.id for memory in keep(store)])
    store.update(merged.id, "Hawaii budget is $14,000")
    with pytest.raises(ConflictError, match="undo that one first"):
        quick.undo(quick.history(merged.id)[0].id)
    assert texts(store) == ["Hawaii budget is $14,000"]


@pytest.mark.covers("V69")
def test_where_an_original_was_erased_the_merged_one_is_not_taken_away(store: MemoryStore, quick: Memory) -> None:
    stored = keep(store)
    merged = store.consolidate([memory.id for memory in stored])
    ledger = quick._memory._engine.kernel.ledger
    assert ledger is not None
    PORTAL.call(ledger.erase([quick.history(stored[0].id)[0].memory_id], [], None))
    with pytest.raises(ConflictError, match="undo the deletion of each of the others"):
        quick.undo(quick.history(merged.id)[0].id)
    assert texts(store) == [MERGED]
    quick.undo(quick.history(stored[1].id)[-1].id)
    assert sorted(texts(store)) == sorted([HAWAII[1], MERGED])


@pytest.mark.covers("V69")
def test_distinct_statements_are_joined_and_contained_ones_go(store: MemoryStore) -> None:
    stored = keep(store, ("User likes tea", "User likes tea and coffee", "User does not like milk"))
    merged = store.consolidate([memory.id for memory in stored])
    assert merged.content == "User likes tea and coffee. User does not like milk."


@pytest.mark.covers("V69")
def test_refused_and_nothing_changed(store: MemoryStore) -> None:
    first, second, _ = keep(store)
    other_user = keep(store, HAWAII[:1], "bob")[0]
    other_project = keep(store, HAWAII[:1], project_id="p")[0]
    other_type = keep(store, HAWAII[:1], type="procedural")[0]
    before = sorted(texts(store))
    for ids in ([], [first.id], [first.id, first.id]):
        with pytest.raises(InvalidInputError, match="at least 2"):
            store.consolidate(ids)
    for other, word in ((other_user, "user_id"), (other_project, "project_id"), (other_type, "type")):
        with pytest.raises(InvalidInputError, match=word) as caught:
            store.consolidate([first.id, other.id])
        assert caught.value.field == "memory_ids"
    for unknown in (str(uuid4()), f"mem_{uuid4().hex}"):
        with pytest.raises(NotFoundError):
            store.consolidate([first.id, second.id, unknown])
    with pytest.raises(InvalidInputError):
        store.consolidate("no list")
    assert sorted(texts(store)) == before
    assert texts(store, "bob") == [HAWAII[0]]
    store.close()
    with pytest.raises(ClosedError):
        store.consolidate([first.id, second.id])


@pytest.mark.covers("V69")
def test_one_that_expires_and_one_that_stays_are_not_merged(quick: Memory) -> None:
    stays = quick.add(HAWAII[0], infer=False, user_id="ana").results[0].id
    ends = [
        quick.add(text, infer=False, user_id="ana", expires_at=f"{year}-01-01").results[0].id
        for text, year in zip(HAWAII[1:], (2998, 2999), strict=True)
    ]
    store = MemoryStore(quick)
    with pytest.raises(InvalidInputError, match="expire"):
        store.consolidate([stays, *ends])
    merged = quick.get(store.consolidate(ends).id)
    assert merged is not None
    assert str(merged.expires_at).startswith("2999")


@pytest.mark.covers("V69")
def test_behind_walls_others_memories_are_not_there(quick: Memory) -> None:
    store = MemoryStore(quick)
    ana, bob = keep(store, HAWAII[:2]), keep(store, HAWAII[:2], "bob")
    walled = MemoryStore(quick.within(user_id="ana"))
    for ids in ([bob[0].id, bob[1].id], [ana[0].id, bob[0].id]):
        with pytest.raises((NotFoundError, ForbiddenError)):
            walled.consolidate(ids)
    assert len(texts(store, "bob")) == 2
    assert walled.consolidate([memory.id for memory in ana]).user_id == "ana"


@pytest.mark.covers("V69")
def test_awaited(tmp_path: Path) -> None:
    async def merge() -> str:
        async with AsyncMemory({"path": str(tmp_path / "own"), "embedder": {"provider": "hashed"}}) as memory:
            store = AsyncMemoryStore(memory)
            stored = [await store.store(text, user_id="ana") for text in HAWAII]
            return (await store.consolidate([each.id for each in stored])).content

    assert asyncio.run(merge()) == MERGED


# ------------------------------------------------------------------ by a model
def scripted(open_memory: Open, *answers: Any) -> Memory:
    llm = {"provider": "scripted", "config": {"answers": list(answers)}}
    return open_memory(embedder={"provider": "hashed"}, llm=llm, curator="llm")


@pytest.mark.covers("V69")
def test_with_the_llm_curator_the_model_writes_it(open_memory: Open) -> None:
    text = "Hawaii trip budget: $12,000 (updated from initial $10,000)"
    store = MemoryStore(scripted(open_memory, {"memory": text}))
    assert store.consolidate([memory.id for memory in keep(store)]).content == text


@pytest.mark.covers("V69")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": "server"},
        {"memory": "  "},
        "no JSON at all",
        {"memory": "Hawaii trip budget: $13,000"},
        {"memory": "Hawaii budget is $12,000. " + "It is a very good budget. " * 20},
    ],
    ids=["fails", "says_nothing", "unreadable", "invents_a_number", "writes_too_much"],
)
def test_a_model_that_fails_or_invents_is_not_believed(open_memory: Open, answer: Any) -> None:
    store = MemoryStore(scripted(open_memory, answer))
    assert store.consolidate([memory.id for memory in keep(store)]).content == MERGED
