"""The indexes that searches work on: kept up to date by the ledger, checked against the store, walled like the rest."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.backends.ledgers.base import Touched
from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import ConfigError
from perdure.domain.event import Episode
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.rows import episode_item
from perdure.engine.read import fused
from perdure.engine.read.fused import ScopeIndexes
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.transfer.test_reindex import reindexed

TEA, HOME, CAT = "User likes green tea", "User lives in Lisbon", "User has a cat called Miso"


def kernel_of(memory: Memory) -> Kernel:
    return memory._memory._engine.kernel


def indexes_of(memory: Memory) -> ScopeIndexes:
    return memory._memory._engine.read._fused.indexes


def found(memory: Memory, query: str, **more: Any) -> list[str]:
    """What has something of the question, best first."""
    more = {"threshold": 0.01, **more}
    return [item.memory for item in memory.search(query, **{**ANA, **more}).results]


def drown(memory: Memory) -> None:
    """So many memories of espresso that no search looks up what hardly answers it."""
    memory.add([{"role": "user", "content": f"espresso {number}"} for number in range(150)], infer=False, **ANA)


@pytest.fixture
def pair(open_memory: Open) -> tuple[Memory, Memory]:
    """Two engines on one folder, as two processes are; the second has searched already."""
    one, other = (open_memory(embedder=HASHED) for _ in range(2))
    one.add_facts([TEA, HOME, CAT], **ANA)
    assert found(other, "tea")[0] == TEA
    return one, other


def count_calls(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the store was asked for more than single rows."""
    calls: Counter[str] = Counter()

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **more: (calls.update([name]), method(*args, **more))[1]

    for name in ("list", "stream", "count", "search", "keyword_search", "unembedded"):
        monkeypatch.setattr(kernel.store, name, counted(name, getattr(kernel.store, name)))
    return calls


# ------------------------------------------------------------------ another process's changes


def test_what_another_engine_adds_is_found(pair: tuple[Memory, Memory]) -> None:
    one, other = pair
    one.add_facts(["User plays the theremin"], **ANA)
    assert found(other, "theremin")[0] == "User plays the theremin"
    one.add("I study basalt columns.", infer=False, **ANA)
    assert found(other, "basalt")[0] == "I study basalt columns."


def test_what_another_engine_updates_is_found_by_its_new_words_alone(pair: tuple[Memory, Memory]) -> None:
    one, other = pair
    id = other.search("tea", **ANA).results[0].id
    one.update(id, "User likes espresso")
    result = other.search("espresso", **ANA).results[0]
    assert (result.id, result.memory) == (id, "User likes espresso")
    assert TEA not in found(other, TEA)


def test_what_another_engine_deletes_is_gone_and_comes_back_when_undone(pair: tuple[Memory, Memory]) -> None:
    one, other = pair
    id = other.search("tea", **ANA).results[0].id
    one.delete(id)
    assert found(other, "zebra") == [] and id not in indexes_of(other)._held[Scope(user_id="ana")].index
    assert TEA not in found(other, TEA)
    one.undo(one.history(id)[-1].id)
    assert found(other, "tea")[0] == TEA


def test_what_another_engine_forgets_is_gone_for_good(pair: tuple[Memory, Memory]) -> None:
    one, other = pair
    id = other.search("tea", **ANA).results[0].id
    one.forget(id=id)
    assert TEA not in found(other, TEA)
    one.add_facts(["User plays the theremin"], **ANA)
    assert TEA not in found(other, TEA, include_past=True)


def test_what_another_process_forgets_is_gone_for_good(pair: tuple[Memory, Memory], tmp_path: Path) -> None:
    _, other = pair
    code = (
        "import sys; from perdure import Memory;"
        "memory = Memory({'path': sys.argv[1], 'embedder': {'provider': 'hashed'}});"
        "memory.forget(user_id='ana', query='green tea', threshold=.5); memory.close()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code, str(tmp_path / "memory")], check=True, timeout=60)
    assert TEA not in found(other, TEA)
    assert HOME in found(other, HOME)


def test_what_this_engine_forgets_it_no_longer_holds(pair: tuple[Memory, Memory]) -> None:
    one, _ = pair
    assert found(one, TEA)[0] == TEA
    assert "green" in indexes_of(one)._held[Scope(user_id="ana")].index.words.texts
    one.forget(query="green tea", threshold=0.5, **ANA)
    assert not indexes_of(one)._held
    assert indexes_of(one)._table is None
    assert not indexes_of(one)._asked
    assert not indexes_of(one)._kernel.embedding.words_given
    assert TEA not in found(one, TEA)
    assert "green" not in indexes_of(one)._held[Scope(user_id="ana")].index.words.texts


def test_rollback_and_delete_all_are_seen(pair: tuple[Memory, Memory]) -> None:
    one, other = pair
    moment = one.get_all(**ANA).results[-1].created_at
    one.add_facts(["User plays the theremin"], **ANA)
    assert "User plays the theremin" in found(other, "theremin tea")
    one.rollback(to=moment, **ANA)
    assert found(other, "theremin tea") == [TEA]
    one.delete_all(**ANA)
    assert found(other, TEA) == []


def test_a_memory_that_was_cleared_is_empty_and_begins_anew(pair: tuple[Memory, Memory]) -> None:
    one, other = pair
    one.reset()
    one.add_facts(["User plays the theremin"], **ANA)
    assert found(other, "theremin") == ["User plays the theremin"]


def test_updates_that_supersede_leave_the_old_memory(open_memory: Open) -> None:
    one, other = (open_memory(embedder=HASHED, updates="supersede") for _ in range(2))
    one.add("I live in Lisbon.", **ANA)
    assert found(other, "lisbon")[0] == "User lives in Lisbon"
    one.add("I moved to Porto.", **ANA)
    assert found(other, "Lisbon Porto") == ["User moved to Porto"]


def test_a_row_changed_behind_the_ledgers_back_is_never_answered_with_its_old_text(
    pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    ledger = kernel_of(other).ledger
    assert ledger is not None

    async def silent(scope: Scope, since: Any = None) -> Touched:
        return Touched(since, (), ())

    id = other.search("tea", **ANA).results[0].id
    gone = other.search("cat", **ANA).results[0].id
    monkeypatch.setattr(ledger, "touched", silent)
    one.update(id, "User likes espresso")
    one.delete(gone)
    result = other.search("green tea espresso cat miso", **ANA)
    assert "User likes espresso" in [item.memory for item in result.results]
    assert {TEA, CAT}.isdisjoint(item.memory for item in result.results)
    assert result.results[0].id == id


def test_rows_that_never_stand_still_are_taken_as_they_stand(
    pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other = pair
    store = kernel_of(other).store
    get_many, ticks = store.get_many, itertools.count()

    async def ever_newer(collection: str, ids: Any) -> list[Point]:
        points = await get_many(collection, ids)
        return [Point(each.id, each.vector, {**each.payload, "updated_at": str(next(ticks))}) for each in points]

    monkeypatch.setattr(store, "get_many", ever_newer)
    assert found(other, "tea")[0] == TEA


def test_a_row_that_the_store_gets_later_than_the_ledger_tells_of_it_is_found(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add_facts([TEA], **ANA)
    assert found(memory, "tea") == [TEA]
    kernel = kernel_of(memory)
    assert kernel.ledger is not None
    late = Episode(
        id=new_id(),
        add_id="a",
        position=0,
        role="user",
        content="I play the theremin",
        told_at="2026-01-01T00:00:00.000000+00:00",
        created_at="2026-01-01T00:00:00.000000+00:00",
        scope=ANA,
    )
    PORTAL.call(kernel.ledger.insert_episodes([late]))
    assert "I play the theremin" not in found(memory, "theremin")
    vector = PORTAL.call(kernel.embedding.query(late.content))
    PORTAL.call(kernel.store.apply(kernel.collection, [Point(late.id, vector, episode_item(late).to_payload())]))
    assert found(memory, "theremin")[0] == "I play the theremin"


@pytest.mark.parametrize("provider", ["sqlite", "memory"])
def test_a_search_between_a_write_and_its_history_hides_nothing_from_the_next(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    memory = open_memory(embedder=HASHED, vector_store={"provider": provider})
    memory.add_facts([TEA, HOME, CAT], **ANA)
    drown(memory)
    id = memory.search("green tea", **ANA).results[0].id
    store = kernel_of(memory).store
    apply = store.apply

    async def with_a_search_before(*args: Any, **more: Any) -> None:
        await memory._memory.search("tea", **ANA)
        await apply(*args, **more)

    monkeypatch.setattr(store, "apply", with_a_search_before)
    memory.update(id, "User gets espresso from Trieste")
    assert found(memory, "espresso from Trieste")[0] == "User gets espresso from Trieste"


@pytest.mark.covers("V60")
def test_a_collection_that_was_embedded_anew_is_no_longer_answered_from(
    pair: tuple[Memory, Memory], tmp_path: Path
) -> None:
    one, other = pair
    one.close()
    reindexed(tmp_path / "memory")
    with pytest.raises(ConfigError, match="embedded the memories of 'memories' anew"):
        found(other, "tea")


# ------------------------------------------------------------------ what a warm search costs


def test_a_warm_search_reads_no_whole_scope(pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair
    calls = count_calls(kernel_of(other), monkeypatch)
    found(other, "tea")
    found(other, "what has four legs?")
    one.add_facts(["User plays the theremin"], **ANA)
    other.add_facts(["User reads maps"], **ANA)
    calls.clear()
    assert found(other, "theremin")[0] == "User plays the theremin"
    assert found(other, "maps")[0] == "User reads maps"
    one.update(other.search("tea", **ANA).results[0].id, "User likes espresso")
    assert found(other, "espresso")[0] == "User likes espresso"
    assert calls == Counter()


def test_words_are_embedded_once(pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch) -> None:
    _, other = pair
    embedder = kernel_of(other).embedding.embedder
    embed, asked = embedder.embed_batch, Counter[str]()

    async def counted(texts: Any) -> Any:
        asked.update(texts)
        return await embed(texts)

    monkeypatch.setattr(embedder, "embed_batch", counted)
    found(other, "green zebra")
    found(other, "green zebra miso")
    assert asked["zebra"] == 1
    assert asked["green"] == asked["miso"] == 0, "the scope's own words were embedded by the first search"


def test_a_scope_too_large_for_memory_is_searched_by_the_stores_own_arms(
    pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    monkeypatch.setattr(fused, "MOST_MEMORIES", 2)
    assert found(one, "tea")[0] == TEA
    assert found(one, "Lisbon")[0] == HOME
    assert not indexes_of(one)._held
    one.add_facts(["User plays the theremin"], **ANA)
    assert found(one, "theremin")[0] == "User plays the theremin"


# ------------------------------------------------------------------ walls


def test_no_search_brings_what_stands_behind_another_wall(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    axes: dict[str, tuple[str | None, ...]] = {
        "user_id": ("ana", "ben", None),
        "agent_id": ("cook", None),
        "run_id": ("r1", "r2", None),
    }
    scopes = [
        {name: value for name, value in zip(axes, values, strict=True) if value is not None}
        for values in itertools.product(*axes.values())
    ]
    scopes = [scope for scope in scopes if scope]
    told: dict[str, dict[str, str]] = {}
    for number, scope in enumerate(scopes):
        told[f"secret tea number {number}"] = scope
        memory.add(f"secret tea number {number}", infer=False, **scope)
    for _ in range(2):  # cold, then warm
        for asked in scopes:
            seen = [item.memory for item in memory.search("secret tea number", **asked).results]
            expected = [text for text, scope in told.items() if asked.items() <= scope.items()]
            assert sorted(seen) == sorted(expected)


def test_neighbours_of_another_wall_lend_no_words(open_memory: Open) -> None:
    """Turns lend each other words inside one talk; what another agent heard must not show in a score."""
    memory = open_memory(embedder=HASHED)
    for agent in ("cook", "driver"):
        memory.add("the theremin" if agent == "cook" else "yes", infer=False, agent_id=agent, **ANA)
    result = memory.search("theremin", explain=True, **ANA).results
    shares = {item.memory: (item.explanation or {})["shares"] for item in result}
    assert "lexical" in shares["the theremin"]
    assert "lexical" not in shares.get("yes", {})


# ------------------------------------------------------------------ all at once


def test_searches_and_writes_of_many_threads(pair: tuple[Memory, Memory]) -> None:
    one, other = pair

    def work(number: int) -> None:
        writer, reader = (one, other) if number % 2 else (other, one)
        id = writer.add(f"note{number} of tea", infer=False, **ANA).results[0].id
        assert f"note{number} of tea" in found(reader, f"note{number} tea")
        writer.update(id, f"paper{number} of tea")
        assert f"paper{number} of tea" in found(reader, f"paper{number} tea")
        if number % 3 == 0:
            writer.delete(id)
            assert f"paper{number} of tea" not in found(reader, f"paper{number} tea")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(24)))
    left = {TEA} | {f"paper{number} of tea" for number in range(24) if number % 3}
    assert set(found(one, "tea")) == set(found(other, "tea")) == left


def test_a_slow_search_does_not_put_an_older_text_back(
    pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    drown(one)
    id = other.search("green tea", **ANA).results[0].id
    get_many, slow = kernel_of(other).store.get_many, [True]

    async def race() -> None:
        read, go_on = asyncio.Event(), asyncio.Event()

        async def held_up(*args: Any) -> list[Point]:
            points = await get_many(*args)
            if slow and slow.pop():
                read.set()
                await go_on.wait()
            return points

        monkeypatch.setattr(kernel_of(other).store, "get_many", held_up)
        await one._memory.update(id, "User likes cocoa")
        first = asyncio.create_task(other._memory.search("zebra", limit=1, **ANA))
        await read.wait()
        await one._memory.update(id, "User gets espresso from Trieste")
        await other._memory.search("zebra", limit=1, **ANA)
        go_on.set()
        await first

    PORTAL.call(race())
    assert found(other, "espresso from Trieste")[0] == "User gets espresso from Trieste"
