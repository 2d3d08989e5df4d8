"""A large file is not written anew for every erasure, but once, by the next close of any process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from tests.backends.vector_stores.test_sqlite_file import SECRET, build, point, run, traces

__all__ = ["run"]


@pytest.mark.parametrize("closed_by", ["the one that was asked", "another"])
def test_a_scrub_of_a_large_file_waits_for_a_close(run: Any, tmp_path: Path, closed_by: str) -> None:
    path = tmp_path / "memories.db"
    store = build(path, scrub_mb=0)
    run(store.open())
    run(store.create_collection("c", 4))
    run(store.apply("c", [point("a"), point("b", f"User hides {SECRET}")]))
    run(store.apply("c", [], ["b"]))
    assert run(store.scrub()) is False
    assert [row.id for row in run(store.list("c")).points] == ["a"], "it is gone from every read at once"
    if closed_by == "another":
        other: SqliteVectorStore = build(path)
        run(other.open())
        run(other.close())
    else:
        run(store.close())
    assert traces(path, SECRET.encode()) == []
    assert path.stat().st_size > 0
    run(store.close())
