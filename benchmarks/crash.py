"""Kill perdure at random instants while it adds, updates, deletes and forgets, and count what was lost.

    python benchmarks/crash.py --kills 300

Each round starts a process that works on one folder with several tasks at once, one of which stores many messages in
one call now and then, and tells, through a pipe, what it is about to do and what was acknowledged; the round ends with
SIGKILL after a random time. A fresh process then opens the folder (which applies what the crash left over) and compares
memories, text index, history, versions and episodes with what was acknowledged. An operation that was under way may
have happened or not; nothing may be half done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure import AsyncMemory, PerdureError
from perdure.engine.core.kernel import BULK
from perdure.engine.maintenance.doctor import examine

FORK = multiprocessing.get_context("fork")
USERS = ("ana", "bo", "çelik")
BULK_SHARE = 0.1
"""How often one of the tasks stores many messages at once."""


def config(folder: Path) -> dict[str, Any]:
    return {"path": str(folder), "embedder": {"provider": "hashed"}}


@dataclass
class Expected:
    """What each memory must be: its text, or None if it must be gone; and what is in doubt."""

    texts: dict[str, str | None] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    doubtful: dict[str, set[str | None]] = field(default_factory=dict)
    doubtful_adds: set[str] = field(default_factory=set)
    doubtful_bulks: list[set[str]] = field(default_factory=list)
    """The texts of calls of which all or none must have been stored."""


# ------------------------------------------------------------------ the process that is killed


async def work(folder: Path, pipe: int, seed: int, owned: dict[str, str]) -> None:
    """Change memories from several tasks until killed; each memory belongs to one task."""
    memory = AsyncMemory(config(folder))

    def tell(**line: Any) -> None:
        os.write(pipe, (json.dumps(line) + "\n").encode())

    async def task(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        user = USERS[number % len(USERS)]
        mine = {id: text for id, text in owned.items() if hash_of(id) % 6 == number}
        count = 0
        while True:
            count += 1
            operation = f"{seed}-{number}-{count}"
            kind = chance.choice(("add", "add", "update", "update", "delete", "forget")) if mine else "add"
            text = (
                f"note {operation} about {chance.choice(('tea', 'boats', 'Łódź', 'chess'))} w{chance.randrange(10**9)}"
            )
            id = chance.choice(sorted(mine)) if kind != "add" else ""
            if number == 0 and chance.random() < BULK_SHARE:
                kind = "bulk"
            tell(start=operation, kind=kind, id=id, text=text, old=mine.get(id))
            if kind == "bulk":
                messages = [{"role": "user", "content": each} for each in bulk_texts(text)]
                result = await memory.add(messages, user_id=user, infer=False)
                tell(done=operation, ids=[each.id for each in result.results])
                continue
            if kind == "add":
                result = await memory.add(text, user_id=user, infer=False)
                id = result.results[0].id
                mine[id] = text
            elif kind == "update":
                await memory.update(id, text)
                mine[id] = text
            elif kind == "delete":
                await memory.delete(id)
                del mine[id]
            else:
                await memory.forget(id=id)
                del mine[id]
            tell(done=operation, id=id)

    await asyncio.gather(*(task(number) for number in range(6)))


def bulk_texts(text: str) -> list[str]:
    """The messages of one call that stores so many that the store is synced at once."""
    return [f"{text}, part {number} of a call" for number in range(BULK + 6)]


def hash_of(id: str) -> int:
    return int(id.replace("-", "")[:8], 16)


def run_worker(folder: Path, pipe: int, seed: int, owned: dict[str, str]) -> None:
    logging.disable(logging.WARNING)
    asyncio.run(work(folder, pipe, seed, owned))


# ------------------------------------------------------------------ the process that looks


async def look(folder: Path, expected: Expected) -> dict[str, Any]:
    """What stands in the folder, and what disagrees inside it."""
    memory = AsyncMemory(config(folder))
    problems: list[str] = []
    standing: dict[str, str] = {}
    for user in USERS:
        cursor = None
        while True:
            page = await memory.get_all(user_id=user, limit=500, cursor=cursor)
            standing.update({item.id: item.memory for item in page.results})
            cursor = page.next_cursor
            if cursor is None:
                break
    diagnosis = await examine(memory._engine)
    problems += [finding.sentence for finding in diagnosis.findings]
    for id in {*standing, *expected.texts}:
        problems += await look_at(memory, id, standing.get(id))
    await memory.close()
    return {"standing": standing, "problems": problems}


async def look_at(memory: AsyncMemory, id: str, text: str | None) -> list[str]:
    """Disagreements between one memory and its history."""
    records = await memory.history(id)
    if not records:
        return [f"{id} has no history"] if text is not None else []
    last = records[-1]
    if text is None:
        return [] if last.event == "DELETE" else [f"{id} is gone, but its history ends with {last.event}"]
    if last.new_value != text:
        return [f"{id} is {text!r}, but its history ends with {last.new_value!r}"]
    return []


def run_looker(folder: Path, expected: Expected, answer: Any) -> None:
    logging.disable(logging.WARNING)
    try:
        answer.send(asyncio.run(look(folder, expected)))
    except PerdureError as error:
        answer.send({"standing": {}, "problems": [f"the folder does not open: {error}"]})


# ------------------------------------------------------------------ rounds


def kill_once(folder: Path, expected: Expected, seed: int, chance: random.Random) -> tuple[int, int]:
    """One round of work and SIGKILL; how many operations were acknowledged, and how many were under way."""
    read, write = os.pipe()
    owned = {id: text for id, text in expected.texts.items() if text is not None}
    worker = FORK.Process(target=run_worker, args=(folder, write, seed, owned))
    worker.start()
    os.close(write)
    # One in four dies wherever it is by then, while it opens the folder too; the others once they are at work, however
    # long a busy machine takes to get them there.
    is_at_work = chance.random() < 0.25
    left, last = chance.uniform(0.02, 0.9), time.monotonic()
    os.set_blocking(read, False)
    data = b""
    while left > 0:
        time.sleep(min(0.005, left))
        data += drain(read)  # the pipe must never be what the worker waits for
        is_at_work = is_at_work or b'"done"' in data
        now = time.monotonic()
        left, last = left - (now - last if is_at_work else 0.0), now
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    data += drain(read)
    os.close(read)
    under_way: dict[str, dict[str, Any]] = {}
    acknowledged = 0
    for line in data.decode().splitlines():
        try:
            told = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut off by the kill: never told in full, so in doubt already
        if "start" in told:
            under_way[told["start"]] = told
        else:
            acknowledged += 1
            begun = under_way.pop(told["done"])
            if begun["kind"] == "bulk":
                expected.texts.update(zip(told["ids"], bulk_texts(begun["text"]), strict=True))
            else:
                settle(expected, begun, told["id"])
    for told in under_way.values():
        doubt(expected, told)
    return acknowledged, len(under_way)


def drain(descriptor: int) -> bytes:
    data = b""
    while True:
        try:
            piece = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return data
        if not piece:
            return data
        data += piece


def settle(expected: Expected, told: dict[str, Any], id: str) -> None:
    if told["kind"] in ("add", "update"):
        expected.texts[id] = told["text"]
    else:
        expected.texts[id] = None
    if told["kind"] == "forget":
        expected.forgotten.add(id)
        expected.secrets.add(told["old"])


def doubt(expected: Expected, told: dict[str, Any]) -> None:
    if told["kind"] == "bulk":
        expected.doubtful_bulks.append(set(bulk_texts(told["text"])))
    elif told["kind"] == "add":
        expected.doubtful_adds.add(told["text"])
    else:
        after = told["text"] if told["kind"] == "update" else None
        expected.doubtful[told["id"]] = {told["old"], after}


def judge(expected: Expected, seen: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Acknowledged changes that were lost, and disagreements; then what was in doubt is taken as it stands."""
    standing: dict[str, str] = seen["standing"]
    lost: list[str] = []
    for id, text in expected.texts.items():
        allowed = expected.doubtful.get(id, {text})
        if standing.get(id) not in allowed:
            lost.append(f"{id} must be {' or '.join(map(repr, allowed))}, but is {standing.get(id)!r}")
    problems: list[str] = list(seen["problems"])
    new = {text for id, text in standing.items() if id not in expected.texts}
    for texts in expected.doubtful_bulks:
        if new & texts and not texts <= new:
            problems.append(f"{len(new & texts)} of {len(texts)} messages of one call stand")
    doubtful = expected.doubtful_adds.union(*expected.doubtful_bulks)
    problems += [f"{text!r} was never added" for text in sorted(new - doubtful)]
    expected.texts = {**dict.fromkeys(expected.texts), **standing}
    expected.doubtful.clear()
    expected.doubtful_adds.clear()
    expected.doubtful_bulks.clear()
    return lost, problems


def readable_secrets(folder: Path, secrets: set[str]) -> list[str]:
    """Forgotten texts that still stand in some byte of the folder."""
    wanted = {secret.encode() for secret in secrets}
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += [f"{secret.decode()!r} in {path.name}" for secret in wanted if secret in data]
    return found


def run(kills: int, seed: int, folder: Path) -> dict[str, Any]:
    chance = random.Random(seed)
    expected = Expected()
    totals: dict[str, Any] = {"kills": 0, "acknowledged": 0, "under_way": 0, "lost": [], "disagreements": []}
    started = time.monotonic()
    for number in range(kills):
        acknowledged, under_way = kill_once(folder, expected, seed * 100_000 + number, chance)
        receiver, sender = FORK.Pipe(duplex=False)
        looker = FORK.Process(target=run_looker, args=(folder, expected, sender))
        looker.start()
        sender.close()
        seen = receiver.recv()
        looker.join()
        lost, problems = judge(expected, seen)
        totals["kills"] += 1
        totals["acknowledged"] += acknowledged
        totals["under_way"] += under_way
        totals["lost"] += [f"kill {number}: {each}" for each in lost]
        totals["disagreements"] += [f"kill {number}: {each}" for each in problems]
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{kills} kills, {totals['acknowledged']} acknowledged", end="", file=sys.stderr)
    totals["readable"] = readable_secrets(folder, expected.secrets)
    totals["forgotten"] = len(expected.secrets)
    totals["memories"] = sum(text is not None for text in expected.texts.values())
    totals["seconds"] = round(time.monotonic() - started, 1)
    return totals


def report(run: Callable[[int, int, Path], dict[str, Any]], faults: Sequence[str], about: str, kills: int) -> int:
    """Read the command line, run in a folder of its own and print what came of it; 1 if a fault was found."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON alone")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="perdure-crash-"))
    try:
        totals = run(arguments.kills, arguments.seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        print(json.dumps(totals))
    else:
        for name, value in totals.items():
            print(f"{name:>16}  {len(value) if isinstance(value, list) else value}")
            for line in value[:10] if isinstance(value, list) else ():
                print(f"{'':>18}{line}")
    return 1 if any(totals[name] for name in faults) else 0


if __name__ == "__main__":
    sys.exit(report(run, ("lost", "disagreements", "readable"), __doc__ or "", kills=300))
