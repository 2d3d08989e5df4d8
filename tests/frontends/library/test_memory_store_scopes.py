"""MemoryStore: recalling, walls, forgetting and counting, over real engines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perdure import (
    ForbiddenError,
    InvalidInputError,
    Memory,
    MemoryStore,
    NotFoundError,
)
from tests.conftest import Open

pytestmark = pytest.mark.covers("V25", "V26", "V27", "V49", "V50", "V51", "V52", "V53", "V72")


def holding(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


# ------------------------------------------------------------------ retrieve: V25 to V27
@pytest.mark.covers("V25", "V27")
def test_retrieve_has_the_defaults_of_the_spec(memory: Memory) -> None:
    store = MemoryStore(memory)
    for number in range(8):
        store.store(f"User's budget for Hawaii trip {number} is ${number},000", user_id="ana")
    store.store("User plays the oboe", user_id="ana")
    found = store.retrieve("What is my budget for the Hawaii trip?", user_id="ana")
    assert len(found) == 5
    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)
    assert all(result.score >= 0.6 for result in found)
    assert {*found[0].model_dump()} == {"memory", "score"}
    assert store.retrieve("How deep is the Mariana trench?", user_id="ana", threshold=0.9) == []


@pytest.mark.covers("V26")
def test_types_and_projects_both_hold(store: MemoryStore) -> None:
    for kind in ("semantic", "procedural"):
        for project in ("P", "Q", None):
            store.store(f"deploy {kind} {project}", user_id="ana", type=kind, project_id=project)

    def found(**given: object) -> set[str]:
        return {
            result.memory.content for result in store.retrieve("deploy", user_id="ana", threshold=0, limit=10, **given)
        }

    assert found(types=["procedural"]) == {"deploy procedural P", "deploy procedural Q", "deploy procedural None"}
    assert found(project_id="P") == {"deploy semantic P", "deploy procedural P"}
    assert found(types=["procedural"], project_id="P") == {"deploy procedural P"}
    assert len(found()) == 6
    listed = store.list(user_id="ana", types=["procedural"], project_id="P")
    assert [memory.content for memory in listed.memories] == ["deploy procedural P"]


@pytest.mark.covers("B19")
def test_list_is_newest_first_and_counts_all(store: MemoryStore) -> None:
    for number in range(23):
        store.store(f"fact {number}", user_id="ana")
    listing = store.list(user_id="ana")
    assert [memory.content for memory in listing.memories] == [f"fact {number}" for number in range(22, 2, -1)]
    assert (listing.total, listing.limit) == (23, 20)
    assert (store.list(user_id="ana", limit=500).limit, len(store.list(user_id="ana", limit=500).memories)) == (100, 23)
    for wrong in (0, -1, True, "5"):
        with pytest.raises(InvalidInputError):
            store.list(user_id="ana", limit=wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------ users and walls: V53
@pytest.mark.covers("V53")
def test_users_and_views_are_walls(quick: Memory) -> None:
    store = MemoryStore(quick)
    ana = store.store("secret of Ana", user_id="ana")
    store.store("secret of Bo", user_id="bo")
    assert [each.memory.user_id for each in store.retrieve("secret", user_id="bo", threshold=0)] == ["bo"]
    view = MemoryStore(quick.within(user_id="bo"))
    for act in (view.get, view.forget, lambda id: view.update(id, "mine")):
        with pytest.raises(NotFoundError):
            act(ana.id)
    with pytest.raises(ForbiddenError):
        view.list(user_id="ana")
    assert [memory.user_id for memory in view.list().memories] == ["bo"]
    view.forget_by_scope()
    assert store.get(ana.id).content == "secret of Ana"


@pytest.mark.covers("V53")
def test_a_memory_of_no_user_is_none(quick: Memory) -> None:
    id = quick.add("agent note", infer=False, agent_id="robot").results[0].id
    store = MemoryStore(quick)
    for act in (store.get, store.forget, lambda id: store.update(id, "other")):
        with pytest.raises(NotFoundError):
            act(id)
    assert quick.get(id) is not None


# ------------------------------------------------------------------ forgetting: V49 to V52
@pytest.mark.covers("V49", "V52")
def test_a_forgotten_memory_is_nowhere(folder: Path, store: MemoryStore) -> None:
    gone = store.store("User's wifi password is Xylophone-77", user_id="ana")
    store.update(gone.id, "User's wifi password is Xylophone-78")
    kept = store.store("User likes tea", user_id="ana")
    report = store.forget(gone.id)
    assert not report.pending
    with pytest.raises(NotFoundError):
        store.get(gone.id)
    with pytest.raises(NotFoundError):
        store.forget(gone.id)
    assert [each.memory.id for each in store.retrieve("wifi password", user_id="ana", threshold=0)] == [kept.id]
    assert holding(folder, "Xylophone") == []


@pytest.mark.covers("U4")
def test_forget_keeps_history_where_asked(quick: Memory) -> None:
    store = MemoryStore(quick)
    stored = store.store("User likes tea", user_id="ana")
    store.forget(stored.id, erase=False)
    assert store.list(user_id="ana").total == 0
    quick.undo(quick.history(stored.id)[-1].id)
    assert store.get(stored.id).content == "User likes tea"


@pytest.mark.covers("V50", "V51")
def test_scopes_go_alone(folder: Path, store: MemoryStore) -> None:
    for user in ("ana", "bo"):
        for project in ("P", "Q", None):
            store.store(f"Quokka of {user} in {project}", user_id=user, project_id=project)

    def left(user: str) -> set[str]:
        return {memory.content for memory in store.list(user_id=user).memories}

    report = store.forget_by_scope(user_id="ana", project_id="P")
    assert [item.memory for item in report.results] == ["Quokka of ana in P"]
    assert left("ana") == {"Quokka of ana in Q", "Quokka of ana in None"}
    assert holding(folder, "Quokka of ana in P") == []
    store.forget_by_scope(user_id="ana")
    assert left("ana") == set()
    assert left("bo") == {"Quokka of bo in P", "Quokka of bo in Q", "Quokka of bo in None"}
    assert holding(folder, "Quokka of ana") == []


@pytest.mark.covers("B19")
def test_types_of_a_scope_go_alone(folder: Path, store: MemoryStore) -> None:
    for user in ("ana", "bo"):
        for kind in ("semantic", "procedural", "episodic"):
            store.store(f"Quokka {kind} of {user}", user_id=user, type=kind)
    turned = store.store("Quokka that was semantic", user_id="ana")
    store.update(turned.id, type="reflective")
    gone = store.store("Quokka that was deleted", user_id="ana")
    store.forget(gone.id, erase=False)
    report = store.forget_by_scope(user_id="ana", types=["semantic", "episodic"])
    assert {item.memory for item in report.results} == {"Quokka semantic of ana", "Quokka episodic of ana"}
    assert {memory.type for memory in store.list(user_id="ana").memories} == {"procedural", "reflective"}
    assert store.list(user_id="bo").total == 3
    assert holding(folder, "Quokka semantic of ana") == holding(folder, "Quokka that was deleted") == []


def test_an_empty_list_of_types_erases_nothing(store: MemoryStore) -> None:
    store.store("Quokka of ana", user_id="ana")
    with pytest.raises(InvalidInputError, match="types is empty") as refused:
        store.forget_by_scope(user_id="ana", types=[])
    assert (refused.value.field, refused.value.value) == ("types", [])
    assert store.list(user_id="ana").total == 1


# ------------------------------------------------------------------ counting: V48, V72
@pytest.mark.covers("V72")
def test_accesses_are_counted_and_outlive_the_process(folder: Path, open_memory: Open) -> None:
    def opened() -> MemoryStore:
        return MemoryStore(open_memory(embedder={"provider": "hashed"}))

    before = open_memory(embedder={"provider": "hashed"})
    store = MemoryStore(before)
    tea = store.store("User likes tea", user_id="ana")
    oboe = store.store("User plays the oboe", user_id="ana")
    for _ in range(3):
        store.retrieve("likes tea", user_id="ana", limit=1, threshold=0)
    assert (store.get(tea.id).access_count, store.get(oboe.id).access_count) == (3, 0)
    store.update(tea.id, "User likes green tea")
    assert store.get(tea.id).access_count == 3
    before.close()
    again = opened()
    assert (again.get(tea.id).access_count, again.get(oboe.id).access_count) == (3, 0)
    assert again.get(tea.id).content == "User likes green tea"


@pytest.mark.covers("V72")
def test_counts_are_written_without_being_asked_for(quick: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.engine.read.access_counts.PAUSE", 0.01)
    store = MemoryStore(quick)
    stored = store.store("User likes tea", user_id="ana")
    store.retrieve("likes tea", user_id="ana", threshold=0)
    accesses = quick._memory._engine.access_counts
    while accesses.waiting:
        time.sleep(0.01)
    item = quick.get(stored.id)
    assert item is not None
    assert item.access_count == store.get(stored.id).access_count == 1
    assert item.last_accessed_at is not None
    assert item.updated_at == stored.updated_at, "a recall is no update"
    assert len(quick.history(stored.id)) == 1


@pytest.mark.covers("V72")
def test_a_forgotten_memory_is_not_brought_back_by_its_count(quick: Memory) -> None:
    store = MemoryStore(quick)
    stored = store.store("User likes tea", user_id="ana")
    store.retrieve("likes tea", user_id="ana", threshold=0)
    store.forget(stored.id)
    quick.close()
    again = Memory(quick.config)
    try:
        assert again.get(stored.id) is None
        assert again.get_all(user_id="ana", as_of="2999-01-01").results == []
    finally:
        again.close()
