"""What the tests of export and import share: a short life, and ways to carry it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine
from perdure.engine.maintenance.doctor import examine
from perdure.engine.requests import Addition
from perdure.engine.transfer.report import ImportReport
from perdure.engine.transfer.transfer import export_archive, import_archive

T = TypeVar("T")
ANA = Scope(user_id="ana")
BEN = Scope(user_id="ben", run_id="r1")


def run(path: Path, work: Callable[[Engine], Awaitable[T]], **config: Any) -> T:
    """Open an engine over a folder, do something, close it."""

    async def go() -> T:
        engine = build(read_config({"path": path, "embedder": {"provider": "hashed"}, "episodes": "notes", **config}))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(go())


async def say(engine: Engine, text: str, scope: Scope = ANA, **more: Any) -> list[Any]:
    result = await engine.write.add(Addition(messages=[Message("user", text)], scope=scope, **more))
    return result.results


async def live_a_little(engine: Engine) -> None:
    """Additions, a correction, a deletion, a spoken forgetting that is undone, messages as said, in two scopes."""
    await say(engine, "I live in Lisbon. I am allergic to peanuts.")
    await say(engine, "Actually I moved to Porto.")
    odd = {"tag": "ünï", "n": 1.5, "deep": {"a": [1, None]}}
    await say(engine, "Zoë 🎈 我喜欢喝茶 \u2028 \x00", metadata=odd, infer=False)
    await say(engine, "I have a cat called Miso.", BEN)
    stored = await say(engine, "kept word for word", infer=False, type="note")
    await engine.revise.update(stored[0].id, "kept word for word, and changed", {"edited": True})
    gone = await say(engine, "said and deleted", infer=False)
    await engine.revise.delete(gone[0].id)
    back = await say(engine, "deleted and brought back", infer=False)
    await engine.revise.delete(back[0].id)
    events = await engine.read.history(back[0].id)
    await engine.revise.undo(events[-1].id)


def export(path: Path, scope: Scope | None = None, **config: Any) -> list[str]:
    lines: list[str] = []
    run(path, lambda engine: export_archive(engine, scope or Scope(), lines.append), **config)
    return lines


def load(path: Path, lines: Iterable[str], **config: Any) -> ImportReport:
    return run(path, lambda engine: import_archive(engine, lines), **config)


def rifts(path: Path, **config: Any) -> list[str]:
    diagnosis = run(path, examine, **config)
    return [finding.sentence for finding in diagnosis.findings]


def records(lines: Iterable[str], kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, lines) if line.get("record") == kind]
