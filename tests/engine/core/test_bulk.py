"""Many messages in one call: what is left in the journal, what a failing disk changes, and how much is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perdure import LedgerError, Memory, VectorStoreError
from perdure.backends.ledgers.base import JournalEntry
from perdure.domain.scope import Scope
from perdure.engine.core.kernel import BULK, Kernel
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open

ANA = {"user_id": "ana"}


def told(count: int, about: str = "boats") -> list[dict[str, str]]:
    return [{"role": "user", "content": f"note {number} says something about {about}"} for number in range(count)]


def kernel_of(memory: Memory) -> Kernel:
    return memory._memory._engine.kernel


def stats(memory: Memory) -> dict[str, int]:
    ledger = kernel_of(memory).ledger
    assert ledger is not None
    return PORTAL.call(ledger.stats())


def test_the_journal_keeps_nothing_of_a_bulk_call_and_of_what_came_before(quick: Memory) -> None:
    quick.add(told(2), **ANA, infer=False)
    assert stats(quick)["applied"] == 2
    result = quick.add(told(BULK, "tea"), **ANA, infer=False)
    assert len(result.results) == BULK
    assert (stats(quick)["applied"], stats(quick)["written"]) == (0, 0)
    assert [record.event for record in quick.history(result.results[7].id)] == ["ADD"]
    quick.add(told(1, "chess"), **ANA, infer=False)
    assert stats(quick)["applied"] == 1


def test_a_store_that_cannot_sync_leaves_the_entries_and_writes_the_history(
    quick: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    quick.add(told(1), **ANA, infer=False)

    async def fails() -> None:
        raise VectorStoreError("the disk does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(kernel_of(quick).store, "sync", fails)
        result = quick.add(told(BULK), **ANA, infer=False)
        assert stats(quick)["applied"] == BULK + 1, "until a later sync"
    assert not result.warnings
    assert "the disk does not answer" in caplog.text
    assert [record.event for record in quick.history(result.results[0].id)] == ["ADD"]


def test_a_bulk_call_whose_history_cannot_be_written_is_finished_later(
    quick: Memory, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick.add(told(1), **ANA, infer=False)

    async def fails(*_: Any) -> None:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(kernel_of(quick).ledger, "applied", fails)
        result = quick.add(told(BULK), **ANA, infer=False)
        assert any("the history is written later" in warning for warning in result.warnings)
        assert stats(quick)["written"] == BULK
    assert quick.add(told(1, "chess"), **ANA, infer=False).results, "its lock finds what was left"
    assert [record.event for record in quick.history(result.results[0].id)] == ["ADD"]
    assert stats(quick)["written"] == 0


@pytest.mark.parametrize("stored", [False, True], ids=["before the store had it", "after"])
def test_a_bulk_call_that_was_killed_is_applied_with_its_vectors(
    quick: Memory, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """Its entries have none: they are made again, or are those of the rows that the store has."""
    kernel = kernel_of(quick)
    quick.add(told(1), **ANA, infer=False)
    put_rows, embed_batch, made = kernel.put_rows, kernel.embedding.embedder.embed_batch, list[str]()

    async def killed(*rows: Any) -> None:
        if stored:
            await put_rows(*rows)
        raise RuntimeError("killed")

    async def counted(texts: Sequence[str]) -> Any:
        made.extend(texts)
        return await embed_batch(texts)

    with monkeypatch.context() as patch:
        patch.setattr(kernel, "put_rows", killed)
        with pytest.raises(RuntimeError, match="killed"):
            quick.add(told(BULK, "tea"), **ANA, infer=False)
    entries = PORTAL.call(_pending(kernel))
    assert [entry.vector for entry in entries] == [None] * BULK
    monkeypatch.setattr(kernel.embedding.embedder, "embed_batch", counted)
    quick.add(told(1, "chess"), **ANA, infer=False)
    assert (entries[5].change.item.memory in made) is not stored
    found = PORTAL.call(kernel.store.get_many(kernel.collection, [entry.change.item.id for entry in entries]))
    again = PORTAL.call(embed_batch([point.payload["memory"] for point in found]))
    assert len(found) == BULK
    assert all(np.allclose(point.vector, vector) for point, vector in zip(found, again, strict=True))
    assert stats(quick)["written"] == 0


async def _pending(kernel: Kernel) -> list[JournalEntry]:
    assert kernel.ledger is not None
    async with kernel.ledger.lock(Scope()):
        return await kernel.ledger.pending(kernel.identity)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process writes")
def test_bulk_writes_at_most_25_kilobytes_a_message(quick: Memory) -> None:
    """The figure of `benchmarks/bulk.py`, in small: log and file, for messages of some 50 characters with new words."""

    def written() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["wchar"])

    quick.add(told(250), **ANA, infer=False)
    before = written()
    for call in range(6):
        words = [f"word{call}x{number}" for number in range(250)]
        messages = [{"role": "user", "content": f"{word} is what I saw by the harbour today"} for word in words]
        quick.add(messages, **ANA, infer=False)
    assert (written() - before) / 1500 < 25_000
