"""The worker behind hooks: one process for each memory, with the engine loaded, on a socket of its owner's alone.

It answers what goes into a prompt, learns the turns that hooks have stored, and ends when nobody asks for a while.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from perdure.domain.errors import InvalidInputError, PerdureError
from perdure.domain.memory import TRUSTED
from perdure.frontends.hooks.place import HookPlace, read_turns, take_turns
from perdure.frontends.library.memory import AsyncMemory
from perdure.pipeline.prompting.context_block import quote, render
from perdure.pipeline.prompting.quoting import estimate_tokens

if TYPE_CHECKING:
    from perdure.engine.config.config import MemoryConfig


KEPT_SECONDS = 7 * 86_400
"""How long the file of a session is kept that never ended."""


@dataclass(slots=True)
class Session:
    """One session of a client."""

    path: Path
    shown: set[str] = field(default_factory=set)
    """Ids of the memories in its prompts."""
    has_started: bool = False
    """Whether standing instructions and profile were shown."""

    @classmethod
    def load(cls, place: HookPlace, name: str, *, fresh: bool = False) -> Session:
        """Read a session; a fresh one has been shown nothing."""
        session = cls(place.session(name))
        if not fresh:
            try:
                found = json.loads(session.path.read_text(encoding="utf-8"))
                session.shown, session.has_started = set(found["shown"]), bool(found["has_started"])
            except (OSError, ValueError, KeyError, TypeError):
                pass  # a new one, or one whose file is damaged
        return session

    def save(self) -> None:
        """Write it."""
        told = {"shown": sorted(self.shown), "has_started": self.has_started}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(told), encoding="utf-8")
        new.replace(self.path)

    def end(self) -> None:
        """Remove its file."""
        self.path.unlink(missing_ok=True)


def sweep(place: HookPlace) -> None:
    """Remove the files of sessions that never ended."""
    for path in place.folder.glob("session-*"):
        if time.time() - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink(missing_ok=True)


MOST_TOKENS = 600
"""Tokens that one event puts into a prompt."""
STANDING_TOKENS = 250
"""Of these, for standing instructions and profile in a session's first prompt, if its start had no time for them."""
LEAST_SCORE = 0.45
"""Score below which a memory does not belong to a prompt.

Six facts against eight prompts: small talk and other matters reached 0.4 at most, what belongs 0.7 at least.
"""
MOST_HITS = 12
LONGEST_QUERY = 4_000
IDLE_SECONDS = 900
MOST_BYTES = 1_000_000

logger = logging.getLogger("perdure.hooks")


class Worker:
    """Answers the hooks of one memory."""

    def __init__(self, memory: AsyncMemory, place: HookPlace) -> None:
        self._memory = memory
        self._place = place
        self._learning = asyncio.Lock()
        self._turn_of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self.last_asked = asyncio.get_running_loop().time()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one hook; a failure is in the log, and the hook gets nothing."""
        self.last_asked = asyncio.get_running_loop().time()
        context = ""
        try:
            request = json.loads(await reader.readline())
            context = await self._answer(request)
        except (PerdureError, ValueError, KeyError, TypeError, ConnectionError) as error:
            logger.error("a hook was not answered: %s", error)
        try:
            writer.write(json.dumps({"context": context}).encode() + b"\n")
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            pass  # the hook does not wait, or not any more

    async def _answer(self, request: dict[str, Any]) -> str:
        name, event = request["session"], request["event"]
        if event == "Stop":
            self.learn_soon()
            return ""
        turn = self._turn_of.setdefault(name, asyncio.Lock())
        async with turn:  # some clients do not wait for the start before they send the prompt
            session = Session.load(self._place, name, fresh=request["fresh"])
            if event == "SessionEnd":
                self.learn_soon()
                session.end()
                return ""
            return await self._context(request, session)

    async def _context(self, request: dict[str, Any], session: Session) -> str:
        event = request["event"]
        view = self._memory.within(**request["scope"])
        project = request.get("project") or ""
        parts = []
        if not session.has_started:
            budget = MOST_TOKENS if event == "SessionStart" else STANDING_TOKENS
            parts.append(await _standing(view, f"working on {project}", session, budget))
            session.has_started = True
        if event == "UserPromptSubmit" and request["text"].strip():
            budget = MOST_TOKENS - sum(map(estimate_tokens, parts))
            parts.append(await _matching(view, request["text"][:LONGEST_QUERY], session, budget))
        session.save()
        return "\n".join(filter(None, parts))

    def learn_soon(self) -> None:
        """Learn the waiting turns in the background."""
        task = asyncio.get_running_loop().create_task(self.learn())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def learn(self) -> None:
        """Learn the waiting turns, each once even if this is interrupted; one that is refused holds up no other."""
        async with self._learning:
            for path in take_turns(self._place):
                for turn in read_turns(path):
                    try:
                        await self._learn(turn)
                    except InvalidInputError as error:
                        logger.error("a turn cannot be learned: %s", error.message)
                    except PerdureError as error:
                        logger.error("turns were not learned, and stay: %s", error.message)
                        return
                path.unlink()

    async def _learn(self, turn: dict[str, Any]) -> None:
        """Learn a turn in a call of its own: how much of a call is read is limited, and a paste would use it up."""
        client, project = turn.get("client", "claude-code"), turn["project"]
        learned = await self._memory.within(**turn["scope"]).add(
            [{name: turn[name] for name in ("role", "content", "timestamp")}],
            metadata={"client": client, **({"project": project} if project else {})},
            idempotency_key=f"hook-{turn['id']}",
        )
        for warning in learned.warnings:
            logger.warning("%s", warning)

    async def finish(self) -> None:
        """Wait for what is being learned."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


async def _standing(view: AsyncMemory, query: str, session: Session, budget: int) -> str:
    """Return standing instructions, profile, and what is known of the project."""
    block = await view.context(query, max_tokens=budget)
    if block:
        page = await view.get_all(limit=500, filters=TRUSTED)
        session.shown |= {item.id for item in page.results if quote(item.memory) in block}
    return block


async def _matching(view: AsyncMemory, prompt: str, session: Session, budget: int) -> str:
    """Return the facts and notes that belong to a prompt and were not shown in this session.

    Whole messages stay out: those of this session stand in the conversation already, and others are long for a prompt.
    """
    filters: list[dict[str, Any]] = [TRUSTED, {"kind": {"ne": "messages"}}]
    if session.shown:
        filters.append({"NOT": [{"id": {"in": sorted(session.shown)}}]})
    found = await view.search(prompt, limit=MOST_HITS, threshold=LEAST_SCORE, filters={"AND": filters})
    block = render(found.results, max_tokens=budget)
    session.shown |= {item.id for item in found.results if quote(item.memory) in block}
    return block


async def work(config: MemoryConfig, place: HookPlace) -> None:
    """Serve the hooks of a memory until nobody asks for IDLE_SECONDS, or the process is told to end."""
    loop = asyncio.get_running_loop()
    async with AsyncMemory(config) as memory:
        worker = Worker(memory, place)
        place.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(worker.serve, path=place.socket, limit=MOST_BYTES)
        ending = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ending.set)
        async with server:
            sweep(place)
            worker.learn_soon()
            while not ending.is_set() and (left := IDLE_SECONDS - (loop.time() - worker.last_asked)) > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), left)
            place.socket.unlink(missing_ok=True)
        await worker.finish()
        await worker.learn()


def run_worker(settings: Callable[[], MemoryConfig], folder: Path) -> None:
    """Run the worker of a memory, unless another one runs; its process id is in the locked file."""
    place = HookPlace.of(folder)
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    asyncio.run(work(settings(), place))
