"""What the tests of a ledger's runtime tables share: makers of records, and a worker process that can be killed.

`python -m tests.contracts.ledgers.ledger_runtime PROVIDER FOLDER ACTION` runs an action in a process of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.repositories.base import Query
from perdure.domain.clock import system_clock
from perdure.domain.runtime import (
    Agent,
    CacheEntry,
    Channel,
    ChannelParticipant,
    Component,
    Entity,
    LogEntry,
    MessageServer,
    Participant,
    Record,
    Relationship,
    Room,
    ServerAgent,
    Task,
    World,
)
from tests.contracts.ledgers.ledger_worker import PROVIDERS, Place, say

R = TypeVar("R", bound=Record)
ROOT = Path(__file__).parents[3]
ROUNDS = 15
"""Rounds of the worker that writes."""

SAMPLES: dict[type[Record], dict[str, Any]] = {
    Agent: {"id": "a1", "name": "Ada", "bio": ["kind", "brief"], "settings": {"k": [1, None]}, "enabled": False},
    Entity: {"id": "e1", "names": ["Ann", "Ann B."], "metadata": {"deep": {"x": [True, 1.5, "ä"]}}},
    World: {"id": "w1", "name": "Guild", "server_id": "discord:1"},
    Room: {"id": "r1", "name": "Lobby", "world_id": "w1", "channel_id": "c-9", "type": "FORUM", "metadata": {"a": 1}},
    Participant: {"entity_id": "e1", "room_id": "r1", "state": "MUTED"},
    Relationship: {"id": "l1", "source_entity_id": "e1", "target_entity_id": "e2", "tags": ["friend"]},
    Component: {"id": "c1", "entity_id": "e1", "type": "profile", "data": {"n": 1}},
    Task: {"id": "t1", "name": "tidy", "tags": ["queue"], "due_at": 5, "metadata": {"every": "day"}},
    CacheEntry: {"key": "k", "value": {"theme": "dark"}},
    LogEntry: {"id": "g1", "type": "action", "body": {"text": 'quo"te'}, "room_id": "r1"},
    MessageServer: {"id": "s1", "name": "Discord", "source_type": "discord"},
    Channel: {"id": "h1", "message_server_id": "s1", "name": "general", "topic": "all"},
    ChannelParticipant: {"channel_id": "h1", "entity_id": "e1"},
    ServerAgent: {"message_server_id": "s1"},
}
"""One record of each noun, as a caller would state it."""


def make(noun: type[R], at: int = 1, agent: str = "bot", **fields: Any) -> R:
    """The sample of a noun with some fields changed, made at a millisecond for an agent."""
    ours = {"agent_id": agent, "created_at": at, "updated_at": at}
    defaults = {name: value for name, value in ours.items() if name in noun.field_names()}
    return noun.of({**SAMPLES[noun], **fields}, **defaults)


def key(record: Record) -> dict[str, str]:
    """The key of a record."""
    return {name: getattr(record, name) for name in record.KEY}


async def everything(ledger: Ledger, noun: type[R]) -> list[R]:
    """All records of a noun."""
    return await ledger.runtime.find(Query(noun=noun))


# ------------------------------------------------------------------ a process of its own


def worker(place: Place, action: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.contracts.ledgers.ledger_runtime",
        place.provider,
        str(place.folder),
        action,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=ROOT)


async def write(ledger: Ledger) -> None:
    """Once told to go, keep what another process keeps too, telling what was new; replace one value all the time."""
    say("ready")
    sys.stdin.readline()
    for number in range(ROUNDS):
        pair = {"source_entity_id": f"e{number}", "target_entity_id": "bot"}
        [new] = await ledger.runtime.add([make(Relationship, id=f"{ledger.owner}-{number}", **pair)])
        if new:
            say("new", number)
        await ledger.runtime.put(make(CacheEntry, value={"by": ledger.owner, "again": [number] * 3}))
        await ledger.runtime.add([make(LogEntry, number, id=f"{ledger.owner}-{number}")])
    say("idle")


async def work(ledger: Ledger) -> None:
    """Once told to go, take tasks and complete them, telling which."""
    say("ready")
    sys.stdin.readline()
    for task in await ledger.runtime.find(Query(noun=Task, due=10)):
        taken = await ledger.runtime.take("bot", task.id, 10)
        if taken is not None:
            say("took", taken.id)
            await asyncio.sleep(0.001)
            assert await ledger.runtime.settle("bot", taken.id, {"completed_at": 11})
    say("idle")


async def hold(ledger: Ledger) -> None:
    """Have a task taken until killed."""
    assert await ledger.runtime.take("bot", "t1", 10) is not None
    say("held")
    await asyncio.sleep(600)


async def main() -> None:
    provider, folder, action = sys.argv[1:]
    ledger = PROVIDERS[provider](Path(folder), system_clock)
    await ledger.open()
    await {each.__name__: each for each in (write, work, hold)}[action](ledger)
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main())
