"""Kill perdure and its language model at random instants, and count what was lost.

    python benchmarks/crash_model.py --kills 100

A process adds messages with the `llm` curator from several tasks, and forgets some of what it learned, until SIGKILL;
the model is a real HTTP server that speaks OpenAI's language, killed with SIGKILL and started again at random as well,
which now and then refuses, or answers with something unreadable. After each kill a fresh process opens the folder:
every message whose `add` was acknowledged must be a fact in the history, or kept to be read later. At the end the
model is up, `doctor --repair` reads what is left, and each message must have become a fact exactly once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import genai_prices  # noqa: F401  # here, so that no process that is forked spends its short life importing them
import openai

from crash import FORK, drain, readable_secrets, report
from perdure import AsyncMemory
from perdure.domain.scope import Scope
from perdure.engine.maintenance.doctor import examine, repair

_WARM = openai.AsyncOpenAI(api_key="none").chat.completions
"""Touched once, for the same reason."""

TASKS = 4
MARK = re.compile(r"\bw\d+\b")
"""Each message holds a word of its own, by which its fact is known."""


def config(folder: Path, port: int) -> dict[str, Any]:
    model = {
        "model": "scripted",
        "base_url": f"http://127.0.0.1:{port}/v1",
        "timeout": 1.0,
        "retries": 1,
        "retry_delay": 0.02,
    }
    return {
        "path": str(folder),
        "embedder": {"provider": "hashed"},
        "llm": {"provider": "openai", "config": model},
    }


# ------------------------------------------------------------------ the model


class Model(BaseHTTPRequestHandler):
    """Every message is a fact; a fact like a memory updates it; 1 answer in 12 is none."""

    protocol_version = "HTTP/1.1"
    chance = random.Random()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = body["messages"][-1]["content"]
        trouble = self.chance.randrange(36)
        if trouble == 0:
            return self._reply(500, {"error": {"message": "down"}})
        content = "I would rather not say." if trouble == 1 else json.dumps(answer(asked))
        if trouble == 2:
            content = content[: len(content) // 2]
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        return self._reply(
            200,
            {
                "id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage,
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            },
        )  # fmt: skip

    def _reply(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Silence."""


def answer(asked: str) -> Any:
    if asked.startswith("{"):
        question, _ = json.JSONDecoder().raw_decode(asked)  # a request to correct an answer has more behind it
        near = question["existing_memories"]
        operations = []
        for fact in question["new_facts"]:
            operation = {"fact": fact["fact"], "event": "ADD"}
            if near and int(MARK.findall(fact["text"])[0][1:]) % 4 == 0:
                operation = {"fact": fact["fact"], "event": "UPDATE", "id": near[0]["id"], "text": fact["text"]}
            operations.append(operation)
        return {"operations": operations}
    said = [line.removeprefix("user: ") for line in asked.splitlines() if line.startswith("user: ")]
    return {"facts": [{"text": f"User's code for {text}", "type": "semantic"} for text in said]}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed."""


def serve(port: int) -> None:
    Server(("127.0.0.1", port), Model).serve_forever()


class Outages:
    """Keeps the model's process running, but for random outages."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.port = port
        self.kills = 0
        self._chance = chance
        self._over = threading.Event()
        self._process = self._started()
        self._thread = threading.Thread(target=self._interrupt)

    def begin(self) -> None:
        self._thread.start()

    def _started(self) -> Any:
        process = FORK.Process(target=serve, args=(self.port,), daemon=True)
        process.start()
        return process

    def _interrupt(self) -> None:
        while not self._over.wait(self._chance.uniform(0.1, 1.5)):
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.join()
            self.kills += 1
            self._over.wait(self._chance.uniform(0.0, 0.6))
            self._process = self._started()

    def end(self) -> None:
        """No more outages; the model is up."""
        self._over.set()
        self._thread.join()

    def close(self) -> None:
        self._process.kill()
        self._process.join()


# ------------------------------------------------------------------ the process that is killed


async def work(folder: Path, port: int, pipe: int, seed: int) -> None:
    memory = AsyncMemory(config(folder, port))

    def tell(**line: Any) -> None:
        os.write(pipe, (json.dumps(line) + "\n").encode())

    async def task(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        mine: dict[str, str] = {}
        count = 0
        while True:
            count += 1
            operation = f"{seed}-{number}-{count}"
            if mine and chance.randrange(6) == 0:
                id = chance.choice(sorted(mine))
                tell(start=operation, forget=mine[id])
                await memory.forget(id=id)
                del mine[id]
                tell(done=operation)
                continue
            text = f"{chance.choice(('tea', 'boats', 'Łódź', 'chess'))} is w{chance.randrange(10**12)}"
            tell(start=operation, text=text)
            result = await memory.add(text, user_id=f"user {number}")
            mine |= {event.id: event.memory for event in result.results if event.event == "ADD"}
            for event in result.results:
                if event.event == "UPDATE":
                    mine.pop(event.id, None)  # it holds two messages now
            tell(done=operation)

    await asyncio.gather(*(task(number) for number in range(TASKS)))


def run_worker(folder: Path, port: int, pipe: int, seed: int) -> None:
    logging.disable(logging.ERROR)
    asyncio.run(work(folder, port, pipe, seed))


# ------------------------------------------------------------------ the process that looks


async def look(folder: Path, port: int, mend: bool) -> dict[str, Any]:
    """The marks of facts in the history, of messages that wait, and what disagrees."""
    memory = AsyncMemory(config(folder, port))
    engine = memory._engine
    diagnosis = await examine(engine)
    for _ in range(20 if mend else 0):  # the model still refuses now and then
        if diagnosis.healthy:
            break
        await repair(engine, diagnosis)
        diagnosis = await examine(engine)
    ledger = engine.kernel.ledger
    assert ledger is not None
    told: dict[str, int] = {}
    for number in range(TASKS):
        for record in await ledger.events_of_scope(Scope(user_id=f"user {number}"), limit=1_000_000):
            for mark in MARK.findall(record.new_value or ""):
                told[mark] = told.get(mark, 0) + 1
    waiting = [
        mark for each in await ledger.pending_episodes(Scope(), 1_000_000) for mark in MARK.findall(each.content)
    ]
    problems = [finding.sentence for finding in diagnosis.findings if finding.kind != "pending" and not finding.notice]
    await memory.close()
    return {"told": told, "waiting": waiting, "problems": problems}


def run_looker(folder: Path, port: int, mend: bool, sender: Any) -> None:
    logging.disable(logging.ERROR)
    sender.send(asyncio.run(look(folder, port, mend)))


def looked(folder: Path, port: int, *, mend: bool = False) -> dict[str, Any]:
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=run_looker, args=(folder, port, mend, sender))
    process.start()
    sender.close()
    seen: dict[str, Any] = receiver.recv()
    process.join()
    return seen


# ------------------------------------------------------------------ rounds


@dataclass
class Told:
    """What the killed processes said."""

    acknowledged: set[str] = field(default_factory=set)
    under_way: int = 0
    forgotten: set[str] = field(default_factory=set)
    """Texts whose `forget` was acknowledged."""
    doubtful: set[str] = field(default_factory=set)
    """Texts that may have been forgotten."""


def kill_once(folder: Path, port: int, seed: int, chance: random.Random, told: Told) -> None:
    read, write = os.pipe()
    worker = FORK.Process(target=run_worker, args=(folder, port, write, seed))
    worker.start()
    os.close(write)
    os.set_blocking(read, False)
    data = b""
    early = chance.randrange(8) == 0  # while it opens
    deadline = time.monotonic() + (chance.uniform(0.0, 1.0) if early else 30.0)
    at_work = early
    while time.monotonic() < deadline:
        time.sleep(0.005)
        data += drain(read)
        if not at_work and b'"done"' in data:
            at_work, deadline = True, time.monotonic() + chance.uniform(0.0, 1.5)
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    data += drain(read)
    os.close(read)
    begun: dict[str, dict[str, Any]] = {}
    for line in data.decode().splitlines():
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "start" in said:
            begun[said["start"]] = said
        else:
            done = begun.pop(said["done"])
            if "forget" in done:
                told.forgotten.add(done["forget"])
            else:
                told.acknowledged.update(MARK.findall(done["text"]))
    told.under_way += len(begun)
    told.doubtful |= {said["forget"] for said in begun.values() if "forget" in said}


def run(kills: int, seed: int, folder: Path) -> dict[str, Any]:
    chance = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    outages = Outages(port, random.Random(seed + 1))
    outages.begin()
    told = Told()
    lost: list[str] = []
    problems: list[str] = []
    started = time.monotonic()

    def check(seen: dict[str, Any], when: str) -> None:
        gone = {mark for text in told.forgotten | told.doubtful for mark in MARK.findall(text)}
        kept = {*seen["told"], *seen["waiting"]}
        lost.extend(f"{when}: {mark}" for mark in sorted(told.acknowledged - kept - gone))
        problems.extend(f"{when}: {each}" for each in seen["problems"])

    try:
        for number in range(kills):
            kill_once(folder, port, seed * 100_000 + number, chance, told)
            check(looked(folder, port), f"kill {number}")
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{kills} kills, {len(told.acknowledged)} acknowledged", end="", file=sys.stderr)
        waited = len(looked(folder, port)["waiting"])
        outages.end()
        seen = looked(folder, port, mend=True)
        check(seen, "after repair")
        twice = [mark for mark, count in seen["told"].items() if count != 1]
    finally:
        outages.end()
        outages.close()
    return {
        "kills": kills,
        "outages": outages.kills,
        "acknowledged": len(told.acknowledged),
        "under_way": told.under_way,
        "read_later": waited,
        "never_read": seen["waiting"],
        "lost": lost,
        "twice": twice,
        "disagreements": problems,
        "forgotten": len(told.forgotten),
        "readable": readable_secrets(folder, told.forgotten),
        "seconds": round(time.monotonic() - started, 1),
    }


if __name__ == "__main__":
    faults = ("lost", "twice", "never_read", "disagreements", "readable")
    sys.exit(report(run, faults, __doc__ or "", kills=100))
