"""Clients that ask one thing after the other over one connection each, and note when the answer began and ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

QUESTIONS = (
    "What did I tell you about the garden in {}?",
    "Which of my friends was with me in {}?",
    "Where do I keep the papers of {}?",
    "How long did I stay in {} the last time?",
    "What should I bring along to {}?",
)
PLACES = (
    "Lisbon",
    "Hamburg",
    "Oslo",
    "Kyoto",
    "Quito",
    "Dakar",
    "Perth",
    "Austin",
    "Split",
    "Leeds",
    "Turin",
    "Bergen",
)


@dataclass
class Times:
    """Seconds until the first byte of the body, and until the last, of each answer."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    used: int = 0
    """Answers for which something was remembered."""
    worked: float = 0.0
    """Seconds of processor time that the proxy took for them, and for what it did afterwards."""


@dataclass(frozen=True)
class Load:
    """What the clients ask for: so many at once, answers of so many words that take so long, for so long."""

    streams: int
    seconds: float
    answer: float
    """Seconds that the model takes for an answer; its first word comes after a tenth of them."""
    words: int = 20
    is_stream: bool = True

    @property
    def script(self) -> dict[str, float]:
        """What the model's server is told."""
        return {"words": self.words, "first": self.answer / 10, "pause": self.answer * 0.9 / self.words}


class Clients:
    """So many clients of one address."""

    def __init__(self, url: str, load: Load, headers: Mapping[str, str]) -> None:
        self._address = urlsplit(url)
        self._load = load
        self._headers = {**headers, "content-type": "application/json", "host": self._address.netloc}
        self._times = Times()

    async def run(self) -> Times:
        """Let them ask; each begins at a moment of its own, so that they do not march in step."""
        until = time.monotonic() + self._load.seconds
        await asyncio.gather(*(self._one(number, until) for number in range(self._load.streams)))
        return self._times

    async def _one(self, number: int, until: float) -> None:
        load, times, turn = self._load, self._times, 0
        await asyncio.sleep(load.answer * number / load.streams)
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port, limit=2**20)
        while time.monotonic() < until:
            question = QUESTIONS[(number + turn) % len(QUESTIONS)].format(PLACES[(number * 7 + turn) % len(PLACES)])
            body = {"model": "m", "messages": [{"role": "user", "content": question}], "script": load.script}
            if load.is_stream:
                body["stream"] = True
            start = time.monotonic()
            told = {**self._headers, "x-session-id": str(number)}
            first, is_used = await _ask(reader, writer, json.dumps(body).encode(), told)
            times.whole.append(time.monotonic() - start)
            times.first.append(first - start)
            times.used += is_used
            turn += 1
        writer.close()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, headers: Mapping[str, str]
) -> tuple[float, bool]:
    """Ask, and read the answer to its end; when its body began, and whether memory was used."""
    lines = [f"{name}: {value}" for name, value in {**headers, "content-length": len(body)}.items()]
    writer.write("\r\n".join(["POST /v1/chat/completions HTTP/1.1", *lines, "", ""]).encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise SystemExit(f"an answer that is none: {head[:60]!r}")
    if b"transfer-encoding: chunked" not in head:
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        data = await reader.read(1)
        first = time.monotonic()
        await reader.readexactly(length - len(data))
        return first, b"x-memory-status: used" in head
    first = 0.0
    while size := int(await reader.readline(), 16):
        first = first or time.monotonic()
        await reader.readexactly(size + 2)
    await reader.readexactly(2)
    return first, b"x-memory-status: used" in head
