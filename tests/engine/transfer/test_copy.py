"""Copying between stores: every row whole, history too where the ledger is another, and nothing newer overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.domain.errors import ConfigError, EmbeddingError, PerdureError
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine
from perdure.engine.transfer.copy import CopyReport, copy_memories
from tests.engine.transfer.transfers import export, records, rifts, run, say

HASHED: dict[str, Any] = {"provider": "hashed"}
SHORT: dict[str, Any] = {"provider": "hashed", "config": {"dimensions": 64}}


def beside(lived: Path) -> dict[str, Any]:
    """Another store with the same ledger."""
    config = {"path": str(lived.parent / "other.db")}
    return {
        "path": lived,
        "embedder": HASHED,
        "episodes": "notes",
        "vector_store": {"provider": "sqlite", "config": config},
        "history": {"db_path": lived / "history.db"},
    }


def elsewhere(lived: Path, embedder: dict[str, Any] = HASHED) -> dict[str, Any]:
    """Another store with another ledger."""
    return {"path": lived.parent / "elsewhere", "embedder": embedder, "episodes": "notes"}


def copied(
    lived: Path, config: dict[str, Any], before: Callable[[Engine, Engine], Awaitable[None]] | None = None
) -> CopyReport:
    async def go() -> CopyReport:
        source = build(read_config({"path": lived, "embedder": HASHED, "episodes": "notes"}))
        target = build(read_config(config))
        try:
            if before is not None:
                await before(source, target)
            return await copy_memories(source, target)
        finally:
            await target.close()
            await source.close()

    return asyncio.run(go())


def rows_of(config: dict[str, Any]) -> dict[str, Any]:
    """Payload and vector of every row."""
    found: dict[str, Any] = {}

    async def read(engine: Engine) -> None:
        await engine.kernel.ready()
        async for points in engine.kernel.store.stream(engine.kernel.collection, with_vectors=True):
            found.update((point.id, (point.payload, list(point.vector))) for point in points)

    run(config["path"], read, **{name: value for name, value in config.items() if name != "path"})
    return found


def test_into_another_store_with_the_same_ledger(lived: Path) -> None:
    report = copied(lived, beside(lived))
    source = rows_of({"path": lived, "embedder": HASHED})
    assert rows_of(beside(lived)) == source
    assert report.copied == report.rows == len(source)
    assert (report.embedded, report.history, report.episodes, report.kept) == (0, 0, 0, 0)
    config = {name: value for name, value in beside(lived).items() if name != "path"}
    assert rifts(lived, **config) == []
    run(lived, lambda engine: say(engine, "I play the cello."), **config)


def test_into_another_memory_with_its_own_ledger(lived: Path) -> None:
    report = copied(lived, elsewhere(lived))
    here, there = export(lived), export(lived.parent / "elsewhere")
    for kind in ("memory", "history", "episode"):
        assert records(there, kind) == records(here, kind)
    assert report.history == len(records(here, "history"))
    assert report.episodes == len(records(here, "episode"))
    assert rifts(lived.parent / "elsewhere") == []


def test_for_another_embedder_texts_are_embedded_anew(lived: Path) -> None:
    report = copied(lived, elsewhere(lived, SHORT))
    assert report.embedded == report.rows
    rows = rows_of(elsewhere(lived, SHORT))
    assert {len(vector) for _, vector in rows.values()} == {64}
    assert {id: payload for id, (payload, _) in rows.items()} == {
        id: payload for id, (payload, _) in rows_of({"path": lived, "embedder": HASHED}).items()
    }


def test_a_second_copy_writes_nothing(lived: Path) -> None:
    copied(lived, elsewhere(lived))
    again = copied(lived, elsewhere(lived))
    assert (again.copied, again.kept, again.history, again.episodes) == (0, 0, 0, 0)
    assert again.rows > 5


def test_what_was_changed_there_later_stays(lived: Path) -> None:
    copied(lived, elsewhere(lived))

    async def change(source: Engine, target: Engine) -> None:
        found = await say(source, "It stands in both.", infer=False)
        await copy_memories(source, target)
        await target.revise.update(found[0].id, "It was changed there.", {})
        await source.revise.update((await say(source, "It is new.", infer=False))[0].id, "It is newer.", {})

    report = copied(lived, elsewhere(lived), change)
    assert report.kept == 1
    texts = {payload["memory"] for payload, _ in rows_of(elsewhere(lived)).values() if payload["state"] == "live"}
    assert {"It was changed there.", "It is newer."} <= texts
    assert "It stands in both." not in texts


def test_what_is_written_meanwhile_comes_too(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.engine.transfer.copy.FEW", 1)
    plain = HashedEmbedder.embed_batch
    said = False

    async def go() -> None:
        nonlocal said
        source = build(read_config({"path": lived, "embedder": HASHED, "episodes": "notes"}))
        target = build(read_config(elsewhere(lived, SHORT)))

        async def slow(self: HashedEmbedder, texts: Any) -> Any:
            nonlocal said
            if self.dimension == 64 and not said:
                said = True
                await say(source, "It came meanwhile.", infer=False)
            return await plain(self, texts)

        monkeypatch.setattr(HashedEmbedder, "embed_batch", slow)
        await copy_memories(source, target)
        await target.close()
        await source.close()

    asyncio.run(go())
    assert "It came meanwhile." in {payload["memory"] for payload, _ in rows_of(elsewhere(lived, SHORT)).values()}


def test_an_embedder_that_fails_costs_no_work(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.engine.transfer.copy.BATCH", 3)
    plain, batches = HashedEmbedder.embed_batch, 0

    async def failing(self: HashedEmbedder, texts: Any) -> Any:
        nonlocal batches
        batches += 1
        if batches > 2:
            raise EmbeddingError("the service is down", code="connection")
        return await plain(self, texts)

    monkeypatch.setattr(HashedEmbedder, "embed_batch", failing)
    with pytest.raises(EmbeddingError, match=r"down.*perdure copy"):
        copied(lived, elsewhere(lived, SHORT))
    monkeypatch.setattr(HashedEmbedder, "embed_batch", plain)
    report = copied(lived, elsewhere(lived, SHORT))
    assert report.embedded == report.rows - 6


def test_a_target_that_loses_rows_is_found_out(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose(source: Engine, target: Engine) -> None:
        await target.kernel.ready()
        plain = target.kernel.store.apply

        async def half(collection: str, puts: Any, deletes: Any = ()) -> None:
            await plain(collection, list(puts)[::2], deletes)

        monkeypatch.setattr("perdure.engine.transfer.copy.FEW", 10_000)
        monkeypatch.setattr(target.kernel.store, "apply", half)

    with pytest.raises(PerdureError, match="did not come back"):
        copied(lived, elsewhere(lived), lose)


@pytest.mark.covers("U21")
def test_a_target_without_its_weights_takes_the_texts(lived: Path, tmp_path: Path) -> None:
    """They are found by their words until the embedder is there."""
    missing = {"provider": "minilm", "config": {"path": str(tmp_path / "nowhere")}}
    report = copied(lived, elsewhere(lived, missing))
    assert report.embedded == 0
    assert report.copied == report.rows > 5
    assert copied(lived, elsewhere(lived, missing)).copied == 0


def test_a_text_that_stayed_is_not_embedded_again(lived: Path) -> None:
    first = copied(lived, elsewhere(lived, SHORT))

    async def touch(source: Engine, target: Engine) -> None:
        await source.kernel.ready()
        for point in (await source.kernel.store.list(source.kernel.collection)).points[:3]:
            payload = {**point.payload, "access_count": 7}
            await source.kernel.store.update(source.kernel.collection, point.id, payload=payload)

    again = copied(lived, elsewhere(lived, SHORT), touch)
    assert first.embedded == first.rows
    assert (again.copied, again.embedded) == (3, 0)


def test_what_makes_no_sense_is_refused(lived: Path) -> None:
    before = export(lived)
    with pytest.raises(ConfigError, match="same collection"):
        copied(lived, {"path": lived, "embedder": HASHED})
    with pytest.raises(ConfigError, match="keeps nothing"):
        copied(lived, {**elsewhere(lived), "vector_store": {"provider": "memory"}})
    assert export(lived)[1:] == before[1:]
