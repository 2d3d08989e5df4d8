"""Many clients of one server: each tells it things, asks for them again, and notes what was acknowledged."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import httpx

PATIENCE = 60.0
"""Seconds that a client waits for an answer."""
PAUSE = 0.2
"""Seconds before a client tries again where nobody listens."""


@dataclass
class Tally:
    """What the clients saw."""

    writes: list[float] = field(default_factory=list)
    """Seconds of each acknowledged write."""
    reads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Answers that were none: a status, and what was asked."""
    refused: int = 0
    """Tries while nobody listened, or whose connection broke."""
    told: dict[str, set[str]] = field(default_factory=dict)
    """By user, the ids that were acknowledged."""


async def drive(url: str, clients: int, seconds: float, *, breaks: bool) -> Tally:
    """Let so many clients run for so long, each a user of its own; `breaks` says that the server will go and return."""
    tally = Tally()
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as http:
        until = time.monotonic() + seconds
        await asyncio.gather(*(_client(http, tally, f"user{number}", until, breaks) for number in range(clients)))
    return tally


async def _client(http: httpx.AsyncClient, tally: Tally, user: str, until: float, breaks: bool) -> None:
    turn = 0
    while time.monotonic() < until:
        note = f"note {user}x{turn}"
        told = await _ask(
            http,
            tally,
            tally.writes,
            "POST",
            "/v1/memories",
            breaks=breaks,
            json={"messages": f"I keep {note}", "user_id": user},
        )
        if told is not None:
            events = told.json()["results"]
            tally.told.setdefault(user, set()).update(event["id"] for event in events if event["event"] == "ADD")
            turn += 1
        await _ask(
            http,
            tally,
            tally.reads,
            "GET",
            "/v1/memories/search",
            breaks=breaks,
            params={"q": note, "user_id": user, "limit": 5},
        )


async def _ask(
    http: httpx.AsyncClient,
    tally: Tally,
    times: list[float],
    method: str,
    path: str,
    *,
    breaks: bool,
    **request: object,
) -> httpx.Response | None:
    start = time.monotonic()
    try:
        answer = await http.request(method, path, **request)
    except httpx.TransportError as error:
        tally.refused += 1
        if not breaks:
            tally.errors.append(f"{method} {path}: {type(error).__name__}")
        await asyncio.sleep(PAUSE)
        return None
    if answer.status_code != 200:
        # A server that is on its way out may say so.
        if breaks and answer.status_code == 503:
            tally.refused += 1
            await asyncio.sleep(PAUSE)
        else:
            tally.errors.append(f"{method} {path}: {answer.status_code}")
        return None
    times.append(time.monotonic() - start)
    return answer


async def lost(url: str, told: dict[str, set[str]]) -> int:
    """How many acknowledged memories the server no longer has."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        missing = 0
        for user, ids in told.items():
            answer = await http.get("/v1/memories", params={"user_id": user, "limit": 1000})
            missing += len(ids - {item["id"] for item in answer.json()["results"]})
        return missing


async def bare(url: str, clients: int, seconds: float) -> list[float]:
    """Seconds of each request to a route that does nothing, by as many clients."""
    times: list[float] = []
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)

    async def ask(http: httpx.AsyncClient, until: float) -> None:
        while time.monotonic() < until:
            start = time.monotonic()
            await http.post("/bare", json={"messages": "I keep a note", "user_id": "user"})
            times.append(time.monotonic() - start)

    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as http:
        until = time.monotonic() + seconds
        await asyncio.gather(*(ask(http, until) for _ in range(clients)))
    return times
