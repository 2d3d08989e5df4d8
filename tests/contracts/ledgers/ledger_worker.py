"""What the ledger tests share: the providers, makers of values, and a worker process that can be killed.

`python ledger_worker.py PROVIDER FOLDER ACTION [ARGUMENT]` runs an action in a process of its own.
"""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path

import numpy as np

from perdure.backends.ledgers.base import JournalEntry, Ledger
from perdure.backends.ledgers.postgres.store import PostgresLedger
from perdure.backends.ledgers.sqlite import SqliteLedger
from perdure.domain.access import ApiKey
from perdure.domain.clock import Clock, iso, system_clock
from perdure.domain.errors import ConflictError
from perdure.domain.event import Change, Episode
from perdure.domain.job import Job
from perdure.domain.memory import MemoryItem, new_id, text_hash
from perdure.domain.scope import Scope

ADDRESS = "LEDGER_TEST_SERVER"
"""The environment variable by which the PostgreSQL ledger finds the server of the session."""


def in_postgres(folder: Path, clock: Clock) -> Ledger:
    """A ledger in a schema of its own, on the server of the session."""
    name = f"t_{md5(str(folder).encode()).hexdigest()[:20]}"
    return PostgresLedger(PostgresLedger.Settings(url=os.environ[ADDRESS], schema_name=name), clock)


PROVIDERS: dict[str, Callable[[Path, Clock], Ledger]] = {
    "postgres": in_postgres,
    "sqlite": lambda folder, clock: SqliteLedger(SqliteLedger.Settings(path=folder / "history.db"), clock),
}
"""How to make a handle of the ledger that lies in a folder; every handle of one folder is the same ledger."""

STORE = "store-1"
USER = Scope(user_id="ann")
START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return iso(START + timedelta(seconds=seconds))


class Place:
    """One ledger, of which any number of handles can be opened."""

    def __init__(self, provider: str, folder: Path) -> None:
        self.provider = provider
        self.folder = folder
        self.now = START

    def handle(self) -> Ledger:
        return PROVIDERS[self.provider](self.folder, lambda: self.now)

    @asynccontextmanager
    async def opened(self):
        ledger = self.handle()
        await ledger.open()
        try:
            yield ledger
        finally:
            await ledger.close()

    def worker(self, action: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, self.provider, str(self.folder), action, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def awaited(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test in a loop of its own."""

    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def make_item(text: str = "User likes tea", scope: Scope = USER, **fields: object) -> MemoryItem:
    values = {"id": new_id(), "created_at": at(0), "updated_at": at(0), "told_at": at(0), **fields}
    return MemoryItem(memory=text, hash=text_hash(text), scope=scope, **values)


def add(text: str = "User likes tea", scope: Scope = USER, seconds: float = 0, **fields: object) -> Change:
    item = make_item(text, scope, **fields)
    return Change(id=new_id(), event="ADD", memory_id=item.id, at=at(seconds), told_at=at(seconds), after=item)


def update(change: Change, text: str, seconds: float = 0, **fields: object) -> Change:
    """The update that follows on a change."""
    before = change.item
    after = replace(before, memory=text, hash=text_hash(text), **fields)
    keep = replace(before, id=new_id(), state="version", version_of=before.id)
    return Change(
        id=new_id(),
        event="UPDATE",
        memory_id=before.id,
        at=at(seconds),
        told_at=at(seconds),
        before=before,
        after=after,
        keep=keep,
    )


def remove(change: Change, seconds: float = 0, **fields: object) -> Change:
    """The deletion that follows on a change."""
    before = change.item
    return Change(
        id=new_id(), event="DELETE", memory_id=before.id, at=at(seconds), told_at=at(seconds), before=before, **fields
    )


def entry(change: Change, batch: str, store: str = STORE, *, dimension: int = 8) -> JournalEntry:
    vector = np.arange(dimension, dtype=np.float32) / 7
    return JournalEntry(
        change=change,
        batch_id=batch,
        store_identity=store,
        collection="memories",
        vector=None if change.after is None else vector,
        keep_vector=None if change.keep is None else -vector,
    )


def episode(text: str = "I like tea", seconds: float = 0, scope: Scope = USER, **fields: object) -> Episode:
    values = {"id": new_id(), "add_id": "add-1", "position": 0, "role": "user", **fields}
    return Episode(content=text, told_at=at(seconds), created_at=at(0), scope=scope.given(), **values)


async def settle(ledger: Ledger, *changes: Change, batch: str | None = None) -> str:
    """Write and apply changes as one batch."""
    batch = batch or new_id()
    await ledger.write([entry(change, batch) for change in changes])
    await ledger.applied(batch)
    return batch


def say(*words: object) -> None:
    print(*words, flush=True)


async def hold(ledger: Ledger, argument: str) -> None:
    """Hold a lock, with a batch written and not applied, until killed."""
    async with ledger.lock(Scope(user_id=argument)):
        await ledger.write([entry(add("User was interrupted", Scope(user_id=argument)), "interrupted")])
        say("held")
        await asyncio.sleep(600)


async def count(ledger: Ledger, argument: str) -> None:
    """Once told to go, add to a number in a file under the lock, reading and writing it in two steps."""
    file = Path(sys.argv[2]) / "number"
    say("ready")
    sys.stdin.readline()
    for _ in range(int(argument)):
        async with ledger.lock(USER):
            number = int(file.read_text())
            await asyncio.sleep(0.001)
            file.write_text(str(number + 1))
    say("done")


async def churn(ledger: Ledger, argument: str) -> None:
    """Write and apply batches of three as fast as possible, telling each that was acknowledged, until killed."""
    number = 0
    while True:
        number += 1
        batch = f"{argument}-{number}"
        await ledger.write(
            [entry(add(f"User said {batch}"), batch) for _ in range(3)], [episode(batch, id=f"episode-{batch}")]
        )
        say("written", batch)
        await ledger.applied(batch)
        say("applied", batch)


async def interrupt(ledger: Ledger, argument: str) -> None:
    """Write a batch with jobs of the memories that it changes, and have other jobs taken, until killed."""
    await ledger.jobs.add([Job(id="taken", kind="entities", memory_id="m", scope=USER)])
    assert len(await ledger.jobs.take(["entities"], 10)) == 1
    change = add("User was interrupted")
    follows = Job(id="follows", kind="entities", memory_id=change.memory_id, scope=USER)
    await ledger.write([entry(change, argument)], jobs=[follows])
    say("interrupted")
    await asyncio.sleep(600)


async def work(ledger: Ledger, argument: str) -> None:
    """Once told to go, do jobs until none is left, and fail if another process does one of the same memory and kind."""
    say("ready")
    sys.stdin.readline()
    while jobs := await ledger.jobs.take(["entities", "temporal"], int(argument)):
        doing = [Path(sys.argv[2]) / f"doing-{job.memory_id}-{job.kind}" for job in jobs]
        for file in doing:
            file.touch(exist_ok=False)
        await asyncio.sleep(0.002)
        for file in doing:
            file.unlink()
        await ledger.jobs.done([job.id for job in jobs])
        say("done", *(job.id for job in jobs))
    say("idle")


async def name(ledger: Ledger, argument: str) -> None:
    """Once told to go, try to make keys of fifty names, telling which were had."""
    say("ready")
    sys.stdin.readline()
    for number in range(50):
        with suppress(ConflictError):
            await ledger.keys.add(ApiKey(id=new_id(), name=f"n{number}", digest=new_id(), hint=argument))
            say("had", f"n{number}")
    say("idle")


async def turn(ledger: Ledger, argument: str) -> None:
    """Once told to go, open turns of one session, telling their numbers; each fifth one is added to as well."""
    say("ready")
    sys.stdin.readline()
    for number in range(int(argument)):
        opened = await ledger.sessions.open_turn("shared", USER, [new_id()], at(number))
        if number % 5 == 0:
            assert await ledger.sessions.add_to_turn(opened.session_id, opened.number, [new_id()], at(number))
        say("turn", opened.number)
    say("idle")


async def main() -> None:
    provider, folder, action, *arguments = sys.argv[1:]
    ledger = PROVIDERS[provider](Path(folder), system_clock)
    await ledger.open()
    actions = {each.__name__: each for each in (hold, count, churn, interrupt, work, name, turn)}
    await actions[action](ledger, *arguments)
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main())
