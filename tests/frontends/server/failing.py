"""Parts of a memory that fail on command: the real ones, behind a switch."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from perdure.backends.vector_stores.base import VectorStore
from perdure.backends.vector_stores.sqlite.store import SqliteVectorStore
from perdure.domain.errors import VectorStoreError

STORE = "tests.frontends.server.failing:FailingStore"
CALLS = (
    *("open", "apply", "search", "keyword_search", "get_many", "payloads", "list", "count"),
    *("get_collection_info", "list_collections", "create_collection", "update", "reset"),
)


class FailingStore(SqliteVectorStore):
    """The embedded store, which cannot be reached while `is_down`."""

    name: ClassVar[str] = "failing"
    is_down: ClassVar[bool] = False


def _behind_a_switch(name: str) -> Any:
    real = getattr(SqliteVectorStore, name)

    async def call(self: VectorStore, *arguments: Any, **named: Any) -> Any:
        if FailingStore.is_down:
            raise VectorStoreError("the store at db.internal:5432 cannot be reached")
        return await real(self, *arguments, **named)

    return call


for _name in CALLS:
    setattr(FailingStore, _name, _behind_a_switch(_name))


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process writes to a database, and does not come to an end."""
    assert sqlite3.threadsafety and file.exists()
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(30)
