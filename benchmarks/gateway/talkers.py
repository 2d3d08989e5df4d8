"""Users that talk to a model through the gateway, leave in the middle, and note what they were given."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

SAID = (
    "I live in Lisbon.",
    "My friend Zoe plays the cello.",
    "I like tea with milk.",
    "Where did I say that I live?",
    "What does my friend play?",
    "Tell me about the weather in the mountains.",
    "Please always answer in short sentences.",
)
FAULTS = (("error", 0.03), ("refusal", 0.02), ("break", 0.04), ("hang", 0.03), ("leave", 0.05))
"""What goes wrong with a request, and how often; `leave` is the client's own doing."""
HUNG = 0.5
"""Seconds without a word after which a client leaves."""
LEFT_AFTER = 3
"""Events after which a client leaves."""
_PAUSE = 0.2
_PATIENCE = 60.0


@dataclass
class Tally:
    """What the users saw."""

    asked: int = 0
    whole: dict[str, str] = field(default_factory=dict)
    """What the user said, by the names of the requests whose answers came whole."""
    begun: dict[str, str] = field(default_factory=dict)
    """The same of streams that began and that did not come to their end, by whoever's doing."""
    failed: dict[str, str] = field(default_factory=dict)
    """What became of requests that should have been answered and were not."""
    refused: set[str] = field(default_factory=set)
    """Requests that nobody took, or whose connection ended without a byte, while the proxy went and came back."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Answers by the proxy's x-memory-status."""
    times: list[float] = field(default_factory=list)
    """Seconds to the head of each answer."""


class _LeftError(Exception):
    """The client has had enough."""


class Talkers:
    """So many users of one proxy, each a scope of its own."""

    def __init__(self, url: str, users: int, *, seed: int, pause: float, least: int = 0) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._users = users
        self._chance = random.Random(seed)
        self._pause = pause
        self._least = least
        self._names = (f"turn{number}of{seed}x" for number in itertools.count())
        self.tally = Tally()
        self.is_away = False
        """Whether the proxy is being ended and started again: it may refuse what comes."""
        self.until = 0.0
        """The moment from which on nothing more is asked, if so many answers have come whole and some broke off."""

    async def talk(self, seconds: float) -> None:
        """Let them talk for so long; each request that has begun is waited for."""
        self.until = time.monotonic() + seconds
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(self._user(session, f"user{number}") for number in range(self._users)))

    async def _user(self, session: aiohttp.ClientSession, user: str) -> None:
        while self.is_away or time.monotonic() < self.until or self._is_short():
            name = next(self._names)
            fault = self._fault()
            is_stream = fault in ("hang", "leave") or self._chance.random() < 0.7
            await self._ask(session, user, name, fault, is_stream=is_stream)
            await asyncio.sleep(self._chance.uniform(0.0, 2 * self._pause))

    def _is_short(self) -> bool:
        """Whether too little has come so far; a server that gives nothing is not waited for for ever."""
        tally = self.tally
        has_enough = len(tally.whole) >= self._least and (tally.begun or not self._least)
        return not has_enough and time.monotonic() < self.until + _PATIENCE

    def _fault(self) -> str | None:
        drawn = self._chance.random()
        for fault, share in FAULTS:
            drawn -= share
            if drawn < 0:
                return fault
        return None

    async def _ask(
        self, session: aiohttp.ClientSession, user: str, name: str, fault: str | None, *, is_stream: bool
    ) -> None:
        tally = self.tally
        tally.asked += 1
        said = f"{self._chance.choice(SAID)} This is {name}."
        script: dict[str, Any] = {"id": name, "words": 10, "first": 0.02, "pause": 0.01}
        if fault is not None and fault != "leave":
            script["fault"] = fault
        body = {"model": "m", "messages": [{"role": "user", "content": said}], "script": script, "stream": is_stream}
        headers = {"x-authz-user-id": user, "x-session-id": f"{user}-{int(time.monotonic()) // 60}"}
        was_away, start = self.is_away, time.monotonic()
        try:
            async with session.post(self._url, json=body, headers=headers) as answer:
                tally.times.append(time.monotonic() - start)
                memory = answer.headers.get("x-memory-status", "none")
                tally.statuses[memory] = tally.statuses.get(memory, 0) + 1
                if is_stream:
                    await self._stream(answer, name, said, fault)
                else:
                    await self._plain(answer, name, said, fault)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            if was_away or self.is_away or isinstance(error, aiohttp.ClientConnectorError):
                tally.refused.add(name)
                await asyncio.sleep(_PAUSE)
            else:
                tally.failed[name] = f"{fault}, stream {is_stream}: {type(error).__name__}"

    async def _plain(self, answer: aiohttp.ClientResponse, name: str, said: str, fault: str | None) -> None:
        data = await answer.read()
        if answer.status == 503 and self.is_away:
            self.tally.refused.add(name)
            return
        expected = {"error": 500, "refusal": 429, "break": 502}.get(fault, 200)
        if answer.status != expected:
            self.tally.failed[name] = f"{fault}: {answer.status} instead of {expected}: {data[:200]!r}"
        elif fault is None and "memory_hits" not in json.loads(data):
            self.tally.failed[name] = "an answer without memory_hits"
        elif fault is None:
            self.tally.whole[name] = said
        elif fault == "refusal" and answer.headers.get("Retry-After") != "1":
            self.tally.failed[name] = "a refusal without its Retry-After"

    async def _stream(self, answer: aiohttp.ClientResponse, name: str, said: str, fault: str | None) -> None:
        if answer.status != 200:
            await self._plain(answer, name, said, fault)
            return
        data, is_whole = b"", False
        try:
            while not data.endswith(b"data: [DONE]\n\n"):
                async with asyncio.timeout(HUNG if fault == "hang" else _PATIENCE):
                    chunk = await answer.content.readany()
                if not chunk:
                    break
                data += chunk
                if fault == "leave" and data.count(b"data: ") >= LEFT_AFTER:
                    raise _LeftError
            else:
                is_whole = True
                await answer.content.read()
        except (_LeftError, TimeoutError, aiohttp.ClientPayloadError):
            answer.close()
        if is_whole:
            self.tally.whole[name] = said
        elif fault in ("break", "hang", "leave"):
            self.tally.begun[name] = said
        else:
            self.tally.failed[name] = f"{fault}: a stream that came to no end"
