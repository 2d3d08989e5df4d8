"""What one `add` costs early and late in a conversation, and beside the encoding of its facts.

    python benchmarks/add.py [--embedders hashed minilm] [--users 3] [--loop]

Users say a conversation of 80 messages each, one by one, to one memory with the default settings, through
`Memory.add`. Printed is the processor time of an add up to messages 10, 20, 40, 60 and 80, the ratio of each to
that at message 10, and the ratio to encoding the facts that came of it, one after the other, with the same embedder
in the same run. The five adds up to each place are of the same kinds and lengths, so a later add has nothing more to
read. A first user, who is not counted, pays for imports and the compiling of patterns.

`--loop` prints instead how long the event loop was held in one piece: the longest stretch, and the median of as many of
the longest stretches as there were adds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perdure import AsyncMemory, Memory

PLACES = (10, 20, 40, 60, 80)
BEGUN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NAMES = ("Ana", "Bo", "Carla", "Dov", "Edda", "Femi", "Gus", "Hana", "Ivo", "Juno")
TOWNS = ("Oslo", "Porto", "Ghent", "Lyon", "Turin", "Malmo", "Cork", "Graz", "Bern", "Riga")
THINGS = ("cello", "canoe", "kiln", "loom", "drone", "tent", "piano", "bike", "easel", "kite")
KINDS = (
    ("user", "My friend {name} lives in {town}, and she plays the {thing} there."),
    ("user", "Can you suggest something for a rainy weekend?"),
    ("assistant", "Sure. Would you rather stay in {town} or travel?"),
    ("user", "I bought a {thing} in {town} last week."),
    ("user", "Thanks, that was helpful!"),
)


def conversation(length: int, user: int) -> Iterator[dict[str, Any]]:
    """Messages in turns of five kinds; each turn has other names, and each user other turns."""
    for place in range(length):
        turn, kind = divmod(place, len(KINDS))
        role, text = KINDS[kind]
        at = (turn * 7 + turn // 10 + user) % 10
        told = text.format(name=NAMES[(turn + user) % 10], town=TOWNS[at], thing=THINGS[(at + turn // 10) % 10])
        moment = BEGUN + timedelta(days=user, minutes=place)
        yield {"role": role, "content": told, "timestamp": moment.isoformat()}


def settings(folder: Path, embedder: str) -> dict[str, Any]:
    return {"path": str(folder), "embedder": {"provider": embedder}}


def around(costs: dict[int, list[float]], place: int) -> float:
    """The mean over the five adds up to a place, one of each kind, of each one's median over the users."""
    near = range(place - len(KINDS) + 1, place + 1)
    return statistics.mean(statistics.median(costs[each]) for each in near)


def measure(folder: Path, embedder: str, users: int) -> None:
    costs: dict[int, list[float]] = {place: [] for place in range(1, PLACES[-1] + 1)}
    ratios: list[float] = []
    facts = 0
    with Memory(settings(folder, embedder)) as memory:
        for user in range(users + 1):
            for place, message in enumerate(conversation(PLACES[-1], user), 1):
                begun = time.process_time()
                result = memory.add([message], user_id=f"user-{user}")
                spent = time.process_time() - begun
                if user == 0:
                    continue
                costs[place].append(spent)
                facts += len(result.results)
                if len(result.results) == 1:
                    text = str(result.results[0].memory)
                    begun = time.process_time()
                    memory.embedder.embed(text)
                    ratios.append(spent / (time.process_time() - begun))
    first = around(costs, PLACES[0])
    print(f"{embedder}: {users} users, {PLACES[-1]} messages each, {facts / users:.0f} facts each")
    for place in PLACES:
        cost = around(costs, place)
        print(f"  message {place:3}: {cost * 1000:7.2f} ms an add, {cost / first:5.2f} of message {PLACES[0]}")
    print(f"  an add of one fact over the bare encoding of it: {statistics.median(ratios):.1f} ({len(ratios)} adds)")


async def held(folder: Path, embedder: str, users: int) -> None:
    """How long an add kept a task from running that wanted to run all the time."""
    waits: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0)
            waits.append(time.thread_time() - begun)

    async with AsyncMemory(settings(folder, embedder)) as memory:
        for user in range(users + 1):
            if user == 1:
                waits.clear()
            watcher = asyncio.create_task(watch())
            for message in conversation(PLACES[-1], user):
                await memory.add([message], user_id=f"user-{user}")
            watcher.cancel()
    worst = sorted(waits, reverse=True)[: users * PLACES[-1]]
    longest, half = worst[0] * 1000, statistics.median(worst) * 1000
    print(
        f"{embedder}: longest stretch on the event loop {longest:.1f} ms; one an add, the longest: half over {half:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedders", nargs="+", default=["hashed", "minilm"])
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--loop", action="store_true")
    asked = parser.parse_args()
    for embedder in asked.embedders:
        with tempfile.TemporaryDirectory() as folder:
            if asked.loop:
                asyncio.run(held(Path(folder), embedder, asked.users))
            else:
                measure(Path(folder), embedder, asked.users)


if __name__ == "__main__":
    main()
