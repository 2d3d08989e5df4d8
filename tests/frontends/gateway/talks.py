"""Conversations over the Responses API, held by users whom a proxy names."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from perdure.backends.ledgers.base import EpisodePage
from perdure.domain.scope import Scope
from tests.frontends.gateway.scripts import Reply, echo_response, pieces, response_events
from tests.frontends.gateway.upstream import Exchange
from tests.frontends.server.running import Running

PATH = "/v1/responses"


@dataclass(frozen=True)
class Talk:
    """One user's requests."""

    gateway: Running
    user: str

    @property
    def headers(self) -> dict[str, str]:
        return {"x-authz-user-id": self.user}

    def post(self, text: Any, *, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        """One request; it must succeed."""
        body = {"model": "m", "input": text, **more}
        found = self.gateway.client.post(PATH, json=body, headers={**self.headers, **(headers or {})})
        assert found.status_code == 200, found.text
        return found

    def say(self, text: Any, **more: Any) -> str:
        """One request; the id of its response."""
        found: str = self.post(text, **more).json()["id"]
        return found

    def remember(self, content: str, **more: Any) -> None:
        """Store a memory as it is."""
        body = {"content": content, **more}
        self.gateway.client.post("/v1/memory", json=body, headers=self.headers).raise_for_status()

    @property
    def memories(self) -> list[str]:
        """What is remembered of the user."""
        found = self.gateway.client.get("/v1/memory?limit=100", headers=self.headers).json()["memories"]
        return [each["content"] for each in found]

    def session(self, name: str) -> dict[str, Any] | None:
        """How far a session has come; None for one that is unknown."""
        found = self.gateway.client.get(f"/v1/sessions/{name}", headers=self.headers)
        assert found.status_code in (200, 404)
        return found.json() if found.status_code == 200 else None

    def until_read(self, name: str, turns: int) -> dict[str, Any]:
        """The session as soon as so many of its turns have been read for facts."""
        for _ in range(2000):
            found = self.session(name)
            if found is not None and found["read_turns"] >= turns:
                return found
            time.sleep(0.01)
        raise AssertionError(f"turn {turns} of {name} is not read")

    def end(self, name: str) -> httpx.Response:
        return self.gateway.client.post(f"/v1/sessions/{name}/end", headers=self.headers)

    def until_said(self, count: int) -> list[tuple[str, str]]:
        """The messages that are kept of the user, as soon as there are so many."""
        for _ in range(2000):
            if len(found := self.said()) >= count:
                return found
            time.sleep(0.005)
        raise AssertionError(f"only {found} is kept")

    def said(self) -> list[tuple[str, str]]:
        """The messages that are kept of the user, as soon as nothing is under way: role and text, oldest first."""
        self.settled()

        async def read() -> EpisodePage:
            ledger = await self.gateway.service.ledger()
            return await ledger.list_episodes(Scope(user_id=self.user))

        return [(episode.role, episode.content) for episode in self.gateway.wait(read()).episodes]

    def settled(self) -> None:
        """Wait until nothing is under way any more."""
        for _ in range(2000):
            if not self.gateway.app.state.gateway.under_way:
                return
            time.sleep(0.005)
        raise AssertionError("something is under way for ever")


class Numbered:
    """An echo over the Responses API whose every response has an id of its own."""

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.seen.json
        name = f"resp_{uuid.uuid4().hex}"
        reply = echo_response({**body, "stream": False})
        assert reply.body is not None
        whole = reply.body.replace(b"resp_scripted", name.encode())
        if body.get("stream"):
            events = response_events(["One ", "answer."], response_id=name)
            await exchange.play(Reply.stream(*pieces(events, 31)))
        else:
            await exchange.play(Reply(200, reply.headers, whole))
