"""The ways in over HTTP: 000's, 001's, mem0's and 004's routes, chats through the gateway, and MemoryClient's."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import httpx

from perdure import MemoryClient
from perdure.frontends.library.portal import PORTAL
from tests.frontends.server.mem0.clients import mem0_errors
from tests.frontends.server.running import as_member
from tests.frontends.ways.base import AGENT, RUN, TEAM, USER, Rows, Way, Where, bare, rows
from tests.frontends.ways.library import team_item


class Served(Way):
    """A way in whose calls are requests."""

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """The JSON of an answer; None for 404. The gateway goes on without memory after a second: it is asked again."""
        for _ in range(50):
            answer: httpx.Response = self.world.server.client.request(method, path, **more)
            assert answer.status_code in (200, 404), answer.text
            if answer.headers.get("x-memory-status") != "unavailable":
                return answer.json() if answer.status_code == 200 else None
        raise AssertionError("a machine that is too busy: memory was not waited for")


class Rest(Served):
    """000's /v1/memories."""

    NAME, WRITES = "rest", frozenset({USER, AGENT, RUN})

    def keep(self, where: Where, text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "infer": False, **where}
        return str(self.ask("POST", "/v1/memories", json=body)["results"][0]["id"])

    def get(self, id: str, where: Where) -> str | None:
        found = self.ask("GET", f"/v1/memories/{id}")
        return None if found is None else found["memory"]

    def found(self, where: Where, query: str) -> list[str]:
        found = self.ask("GET", "/v1/memories/search", params={"query": query, **where})
        return [each["memory"] for each in found["results"]]

    def listed(self, where: Where) -> list[str]:
        return [each["memory"] for each in self.ask("GET", "/v1/memories/", params=where)["results"]]

    def history(self, id: str, where: Where) -> Rows:
        return rows(self.ask("GET", f"/v1/memories/{id}/history") or [])

    def change(self, id: str, where: Where, text: str) -> str | None:
        return None if self.ask("PUT", f"/v1/memories/{id}", json={"text": text}) is None else id

    def delete(self, id: str, where: Where) -> bool:
        return self.ask("DELETE", f"/v1/memories/{id}") is not None


class RestStore(Served):
    """001's /v1/memory, asked by an authenticating proxy."""

    NAME, WRITES, NEEDS = "rest-store", frozenset({USER}), frozenset({USER})

    def _headers(self, where: Where) -> dict[str, str]:
        return {"x-authz-user-id": where[USER]}

    def keep(self, where: Where, text: str) -> str:
        return bare(self.ask("POST", "/v1/memory", json={"content": text}, headers=self._headers(where))["id"])

    def get(self, id: str, where: Where) -> str | None:
        found = self.ask("GET", f"/v1/memory/{id}", headers=self._headers(where))
        return None if found is None else found["content"]

    def found(self, where: Where, query: str) -> list[str]:
        """001 has no route that searches: a response of its gateway brings what is remembered."""
        body = {"model": "m", "input": query, "memory_config": {"auto_store": False}}
        self.ask("POST", "/v1/responses", json=body, headers=self._headers(where))
        sent = self.world.model.of("/v1/responses")[-1].json
        return [text for text in self.listed(where) if text in str(sent.get("instructions", ""))]

    def listed(self, where: Where) -> list[str]:
        found = self.ask("GET", "/v1/memory", headers=self._headers(where))
        return [each["content"] for each in found["memories"]]

    def history(self, id: str, where: Where) -> Rows:
        found = self.ask("GET", f"/v1/memory/{id}/history", headers=self._headers(where))
        return rows([] if found is None else found["history"])

    def change(self, id: str, where: Where, text: str) -> str | None:
        return (
            None
            if self.ask("PUT", f"/v1/memory/{id}", json={"content": text}, headers=self._headers(where)) is None
            else id
        )

    def delete(self, id: str, where: Where) -> bool:
        path = f"/v1/memory/{id}?erase=false"
        return self.ask("DELETE", path, headers=self._headers(where)) is not None


class Mem0(Way):
    """mem0's own client, unmodified."""

    NAME, WRITES = "mem0", frozenset({USER, AGENT, RUN})

    def keep(self, where: Where, text: str) -> str:
        added = self.world.mem0.add([{"role": "user", "content": text}], **where, infer=False)
        return str(added["results"][0]["id"])

    def get(self, id: str, where: Where) -> str | None:
        found = _unless_missing(lambda: self.world.mem0.get(id))
        return None if found is None else found["memory"]

    def found(self, where: Where, query: str) -> list[str]:
        return [each["memory"] for each in self.world.mem0.search(query, filters=dict(where))["results"]]

    def listed(self, where: Where) -> list[str]:
        return [each["memory"] for each in self.world.mem0.get_all(filters=dict(where))["results"]]

    def history(self, id: str, where: Where) -> Rows:
        return rows(_unless_missing(lambda: self.world.mem0.history(id)) or [])

    def change(self, id: str, where: Where, text: str) -> str | None:
        return None if _unless_missing(lambda: self.world.mem0.update(id, text=text)) is None else id

    def delete(self, id: str, where: Where) -> bool:
        return _unless_missing(lambda: self.world.mem0.delete(id)) is not None


class RestTeam(Served):
    """004's routes, asked by a member whom a token names."""

    NAME, WRITES, NEEDS = "rest-team", frozenset({TEAM}), frozenset({TEAM})

    def _ask(self, method: str, path: str, where: Where, **more: Any) -> Any:
        return self.ask(method, path, headers=as_member(where[TEAM], "ben"), **more)

    def keep(self, where: Where, text: str) -> str:
        return bare(self._ask("POST", "/v1/memory/upsert", where, json={"item": team_item(where, text)})["id"])

    def get(self, id: str, where: Where) -> str | None:
        found = self._ask("GET", f"/v1/memory/{id}", where)
        return None if found is None else found["content"]

    def found(self, where: Where, query: str) -> list[str]:
        return [each["content"] for each in self._ask("GET", "/v1/memory/search", where, params={"q": query})]

    def listed(self, where: Where) -> list[str]:
        """004 has no route that lists: a search for anything finds all."""
        return self.found(where, "user")

    def history(self, id: str, where: Where) -> Rows:
        found = self._ask("GET", f"/v1/memory/{id}/history", where)
        return rows([] if found is None else found["history"])

    def change(self, id: str, where: Where, text: str) -> str | None:
        return None if self._ask("PATCH", f"/v1/memory/{id}", where, json={"content": text}) is None else id

    def delete(self, id: str, where: Where) -> bool:
        return self._ask("DELETE", f"/v1/memory/{id}", where) is not None


class Spoken(Way, ABC):
    """A way in that knows no ids: what it reads of one memory, and of its history, it asks of the library."""

    SPEAKS = True

    @abstractmethod
    def say(self, where: Where, text: str) -> None:
        """Say something, and return once it is learned."""

    def keep(self, where: Where, text: str) -> str:
        self.say(where, _spoken(text))
        [item] = self.world.memory.get_all(**where).results
        assert item.memory == text
        return item.id

    def get(self, id: str, where: Where) -> str | None:
        item = self.world.memory.get(id)
        return item.memory if item is not None and item.memory in self.listed(where) else None

    def history(self, id: str, where: Where) -> Rows:
        return rows(self.world.memory.history(id)) if self.get(id, where) is not None else []

    def change(self, id: str, where: Where, text: str) -> str | None:
        """It may have another id then: this way may keep what was, and put what is beside it."""
        self.say(where, _spoken(text))
        return next((item.id for item in self.world.memory.get_all(**where).results if item.memory == text), None)

    def delete(self, id: str, where: Where) -> bool:
        was = self.get(id, where)
        if was is not None:
            self.say(where, f"Please forget that {_spoken(was)}")
        return was is not None


class Chat(Spoken, Served):
    """Chats through the gateway, by any OpenAI client."""

    NAME, WRITES, NEEDS = "chat", frozenset({USER, RUN}), frozenset({RUN})

    def _chat(self, where: Where, text: str, **more: Any) -> Any:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], "memory_id": where[RUN], **more}
        if USER in where:
            body["user"] = where[USER]
        return self.ask("POST", "/v1/chat/completions", json=body)

    def say(self, where: Where, text: str) -> None:
        before = self._reads(where)
        self._chat(where, text, memory_top_k=0)
        _until(lambda: self._reads(where) > before)

    def _reads(self, where: Where) -> int:
        found = self.world.server.client.get(
            f"/v1/sessions/{where[RUN]}", params={"memory_id": where[RUN], **_user(where)}
        )
        return int(found.json()["read_turns"]) if found.status_code == 200 else 0

    def found(self, where: Where, query: str) -> list[str]:
        answer = self._chat(where, query, memory_config={"auto_store": False})
        return _facts(answer["memory_hits"])

    def listed(self, where: Where) -> list[str]:
        """A chat cannot ask for all: what is like any fact of these tests is found."""
        return self.found(where, "where does the user live?")


class Client(Spoken):
    """002's MemoryClient over the same folder; its conversations belong to no user."""

    NAME, WRITES, NEEDS = "client", frozenset({RUN}), frozenset({RUN})

    @property
    def _client(self) -> MemoryClient:
        assert self.world.client is not None
        return self.world.client

    def say(self, where: Where, text: str) -> None:
        PORTAL.call(self._client.add(text, where[RUN]))

    def found(self, where: Where, query: str) -> list[str]:
        return _facts(PORTAL.call(self._client.search(query, where[RUN])))

    def listed(self, where: Where) -> list[str]:
        return _facts(self._client.list_all(where[RUN]))


def _facts(found: list[dict[str, Any]]) -> list[str]:
    """The texts that are facts, and not what was said."""
    return [each["content"] for each in found if each["content"].startswith("User lives")]


def _spoken(fact: str) -> str:
    """What a user says whose fact it is: "User lives in Lisbon" was "I live in Lisbon"."""
    return fact.replace("User lives", "I live")


def _user(where: Where) -> dict[str, str]:
    return {"user_id": where[USER]} if USER in where else {}


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it was never learned")


def _unless_missing(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except mem0_errors.MemoryNotFoundError:
        return None
