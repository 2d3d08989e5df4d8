"""Embedding anew: nothing is lost or mixed, whatever happens meanwhile, and embedders are told apart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError, InvalidInputError
from perdure.domain.filter import eq
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.core.collections import generations
from perdure.engine.engine import Engine
from perdure.engine.maintenance.reindex import ReindexReport, reindex
from tests.engine.transfer.transfers import export, records, rifts, run, say

pytestmark = pytest.mark.covers("V60")

NEW: dict[str, Any] = {"embedder": {"provider": "hashed", "config": {"dimensions": 128}}}
OTHER: dict[str, Any] = {"embedder": {"provider": "hashed", "config": {"dimensions": 64}}}


def reindexed(path: Path, config: dict[str, Any] = NEW, **more: Any) -> ReindexReport:
    async def go() -> ReindexReport:
        engine = build(read_config({"path": path, **config}), any_embedder=True)
        try:
            return await reindex(engine, **more)
        finally:
            await engine.close()

    return asyncio.run(go())


async def collections(engine: Engine) -> list[int]:
    await engine.kernel.open_backends()
    return await generations(engine.kernel.store, "memories")


# ------------------------------------------------------------------ which embedder it was


@pytest.mark.covers("V60")
def test_another_dimension_is_told_at_construction(lived: Path) -> None:
    with pytest.raises(ConfigError, match="perdure reindex") as caught:
        Memory({"path": lived, **NEW})
    assert caught.value.field == "embedder"


@pytest.mark.covers("V60")
@pytest.mark.parametrize("provider", ["sqlite", "faiss", "qdrant", "markdown"])
def test_another_model_of_the_same_dimension_is_told_at_construction(tmp_path: Path, provider: str) -> None:
    place = tmp_path / ("memories.db" if provider == "sqlite" else "store")
    told: dict[str, Any] = {
        "path": tmp_path,
        "vector_store": {"provider": provider, "config": {"path": place}},
        "embedder": {"provider": "hashed"},
    }
    with Memory(told) as memory:
        memory.add("I play the cello.", user_id="ana")
        assert memory.embedder.dimension == 384
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigError, match=r"the model 'hashed-384'.*'minilm'.*perdure reindex") as caught:
        Memory({**told, "embedder": {"provider": "minilm"}})
    assert (caught.value.field, caught.value.value) == ("embedder", "minilm")
    assert sorted(tmp_path.rglob("*")) == files
    with Memory(told) as memory:
        assert memory.search("cello", user_id="ana").results[0].memory == "User plays the cello"


@pytest.mark.covers("V60")
def test_another_model_is_told_while_others_have_the_store_open(lived: Path) -> None:
    told: dict[str, Any] = {"path": lived, "embedder": {"provider": "hashed"}}
    with Memory(told) as memory:
        memory.add("I play the cello.", user_id="ana")
        with pytest.raises(ConfigError, match="perdure reindex"):
            Memory({**told, "embedder": {"provider": "minilm"}})


@pytest.mark.covers("V60")
def test_after_a_reindex_the_new_model_is_what_is_compared(lived: Path) -> None:
    reindexed(lived)
    Memory({"path": lived, **NEW}).close()
    with pytest.raises(ConfigError, match="'memories--2'.*perdure reindex"):
        Memory({"path": lived, "embedder": {"provider": "hashed"}})


@pytest.mark.covers("V60")
def test_a_store_that_cannot_be_asked_before_is_told_at_open(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory({"path": lived, "embedder": {"provider": "hashed"}})
    monkeypatch.setattr(HashedEmbedder, "label", "hashed-of-another-kind")  # as if reindexed after the look
    with memory, pytest.raises(ConfigError, match=r"hashed-.*perdure reindex"):
        memory.search("cello", user_id="ana")


@pytest.mark.covers("V62")
@pytest.mark.covers("V62")
def test_what_was_embedded_anew_stays_after_a_restart(lived: Path) -> None:
    before = export(lived)
    report = reindexed(lived)
    assert report.switched
    assert report.rows == report.embedded > 5
    assert (report.collection, report.old_model) != ("memories", report.new_model)
    after = export(lived, **NEW)
    assert records(after, "memory") == records(before, "memory")
    assert records(after, "history") == records(before, "history")
    assert rifts(lived, **NEW) == []
    assert run(lived, collections, **NEW) == [2]
    with Memory({"path": lived, **NEW}) as memory:
        assert memory.search("where does Ana live? Porto", user_id="ana").results[0].memory == "User moved to Porto"
        assert memory.embedder.dimension == 128
    with pytest.raises(ConfigError, match="'memories--2'"):
        run(lived, lambda engine: say(engine, "I play the cello."))


# ------------------------------------------------------------------ runs


def test_a_second_run_has_nothing_to_do(lived: Path) -> None:
    reindexed(lived)
    again = reindexed(lived)
    assert (again.switched, again.embedded) == (False, 0)
    assert "configured embedder" in again.reason
    third = reindexed(lived, OTHER)
    assert third.switched
    assert third.collection == "memories--3"


def test_without_the_switch_the_old_one_stays_and_the_work_too(lived: Path) -> None:
    first = reindexed(lived, switch=False)
    assert not first.switched
    assert first.collection == "memories"
    assert run(lived, collections) == [1, 2]
    run(lived, lambda engine: say(engine, "I play the cello."))
    second = reindexed(lived)
    assert second.switched
    assert second.embedded == 1
    assert run(lived, collections, **NEW) == [2]
    assert any("cello" in line["memory"] for line in records(export(lived, **NEW), "memory"))


def test_what_was_begun_for_another_embedder_is_thrown_away(lived: Path) -> None:
    reindexed(lived, OTHER, switch=False)
    report = reindexed(lived)
    assert report.embedded == report.rows
    reindexed(lived, OTHER, switch=False)
    assert not reindexed(lived).switched
    assert run(lived, collections, **NEW) == [2]


def test_what_others_change_meanwhile_is_carried_over(lived: Path) -> None:
    """Another process adds, updates and deletes while the embedder is at work; nothing acknowledged is lost."""
    calls = 0

    async def go() -> None:
        other = build(read_config({"path": lived, "embedder": {"provider": "hashed"}}))
        engine = build(read_config({"path": lived, **NEW}), any_embedder=True)
        embedder = engine.kernel.embedding.embedder
        plain = embedder.embed_batch
        stored = await say(other, "It stands first.", infer=False)

        async def slow(texts: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                await other.revise.update(stored[0].id, "It stands changed.", {})
                await other.revise.delete((await say(other, "It comes and goes.", infer=False))[0].id)
                await say(other, "It comes.", infer=False)
            return await plain(texts)

        embedder.embed_batch = slow  # type: ignore[method-assign]
        report = await reindex(engine)
        assert report.switched
        with pytest.raises(ConfigError, match="another process has embedded"):
            await say(other, "It comes too late.", infer=False)
        with pytest.raises(ConfigError, match="another process has embedded"):
            await other.read.get(stored[0].id)
        await other.close()
        await engine.close()

    asyncio.run(go())
    texts = [line["memory"] for line in records(export(lived, **NEW), "memory") if line["state"] == "live"]
    assert "It stands changed." in texts
    assert "It comes." in texts
    assert not {"It stands first.", "It comes and goes.", "It comes too late."} & set(texts)
    assert rifts(lived, **NEW) == []


def test_an_embedder_that_fails_half_way_is_gone_on_with(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = HashedEmbedder.embed_batch
    monkeypatch.setattr("perdure.engine.transfer.copy.BATCH", 3)
    batches = 0

    async def failing(self: HashedEmbedder, texts: Any) -> Any:
        nonlocal batches
        batches += 1
        if batches > 2:
            raise EmbeddingError("the service is down", code="connection")
        return await plain(self, texts)

    monkeypatch.setattr(HashedEmbedder, "embed_batch", failing)
    with pytest.raises(EmbeddingError, match=r"down.*perdure reindex"):
        reindexed(lived)
    monkeypatch.setattr(HashedEmbedder, "embed_batch", plain)
    assert run(lived, collections) == [1, 2]
    report = reindexed(lived)
    assert report.switched
    assert report.embedded == report.rows - 6
    assert rifts(lived, **NEW) == []


def test_without_weights_nothing_is_begun(lived: Path, tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="anew: minilm finds no"):
        reindexed(lived, {"embedder": {"provider": "minilm", "config": {"path": str(tmp_path / "nowhere")}}})
    assert run(lived, collections) == [1]


# ------------------------------------------------------------------ agreement


def test_agreement_is_measured_inside_scopes_and_can_be_asked_for(tmp_path: Path) -> None:
    async def fill(engine: Engine) -> None:
        animals = ["cat", "dog", "owl", "bee", "fox", "ant", "elk", "cow"]
        for n in range(40):
            await say(engine, f"A {animals[n % 8]} sleeps near the {animals[n // 5]} number {n}.", infer=False)

    run(tmp_path, fill)
    low = reindexed(tmp_path, min_agreement=1.0)
    assert low.compared == 40
    assert low.agreement is not None
    assert 0 < low.agreement < 1
    assert not low.switched
    assert "asked for" in low.reason
    assert reindexed(tmp_path, min_agreement=0.01).switched


def test_few_memories_have_no_neighbours_to_compare(lived: Path) -> None:
    report = reindexed(lived, min_agreement=1.0)
    assert report.agreement is None
    assert report.compared == 0
    assert report.switched


def test_names_that_only_look_like_generations_are_others(lived: Path) -> None:
    async def clutter(engine: Engine) -> None:
        await engine.kernel.ready()
        for name in ("memories--x", "memories--02", "memoriesX", "memories--2--3"):
            await engine.kernel.store.create_collection(name, 3)
        assert await generations(engine.kernel.store, "memories") == [1]
        assert await engine.kernel.store.count("memories", eq("user_id", "ana")) > 0

    run(lived, clutter)


def test_a_memory_that_is_empty_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to embed"):
        reindexed(tmp_path)
