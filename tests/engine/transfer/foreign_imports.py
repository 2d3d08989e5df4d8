"""What the tests of other tools' exports share: imports into a folder, and what stands there then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine
from perdure.engine.maintenance.doctor import examine
from perdure.engine.transfer.foreign import ImportOptions, Part, import_parts
from perdure.engine.transfer.report import ImportReport

T = TypeVar("T")
EVERYBODY = Scope()
ANA = ImportOptions(default=Scope(user_id="ana"))


def run(path: Path, work: Callable[[Engine], Awaitable[T]], **config: Any) -> T:
    async def go() -> T:
        engine = build(read_config({"path": path, "embedder": {"provider": "hashed"}, **config}))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(go())


def part(value: Any, name: str = "export.json") -> Part:
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    return Part(name, lambda: iter([data[start : start + 4096] for start in range(0, len(data), 4096)]))


def load(path: Path, parts: Sequence[Any], wish: ImportOptions = ANA, **config: Any) -> ImportReport:
    given = [each if isinstance(each, Part) else part(each, f"file-{n}.json") for n, each in enumerate(parts)]
    return run(path, lambda engine: import_parts(engine, given, wish), **config)


def memories(path: Path, scope: Scope = EVERYBODY, past: bool = False, **config: Any) -> list[MemoryItem]:
    async def look(engine: Engine) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        cursor = None
        while True:
            page = await engine.read.get_all(
                scope, limit=1000, filters=None, cursor=cursor, as_of=None, include_past=past
            )
            found += page.results
            cursor = page.next_cursor
            if cursor is None:
                return found

    return run(path, look, **config)


def messages(path: Path, **config: Any) -> list[tuple[str, str, str]]:
    async def look(engine: Engine) -> list[tuple[str, str, str]]:
        await engine.kernel.ready()
        assert engine.kernel.ledger is not None
        page = await engine.kernel.ledger.list_episodes(Scope(), 100_000, include_hidden=True)
        return [(each.role, each.content, each.told_at) for each in page.episodes]

    return run(path, look, **config)


def is_sound(path: Path) -> bool:
    return not run(path, examine).findings
