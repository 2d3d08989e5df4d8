"""The ways in of one's own process: Memory, MemoryStore, AgentRuntime, TeamMemory, and the program."""

from __future__ import annotations

from typing import Any

from perdure import AgentRuntime, MemoryStore, NotFoundError, TeamMemory
from perdure.frontends.library.portal import PORTAL
from tests.frontends.cli.runs import Ran
from tests.frontends.ways.base import AGENT, RUN, TEAM, USER, Corner, Rows, Way, Where, bare, rows

_NAMES = {USER: "entity_id", AGENT: "agent_id", RUN: "room_id"}
"""003's names of axes."""


class Library(Way):
    """000's Memory."""

    NAME, WRITES = "library", frozenset({USER, AGENT, RUN})

    def keep(self, where: Where, text: str) -> str:
        return self.world.memory.add(text, **where, infer=False).results[0].id

    def get(self, id: str, where: Where) -> str | None:
        item = self.world.memory.get(id)
        return None if item is None else item.memory

    def found(self, where: Where, query: str) -> list[str]:
        return [item.memory for item in self.world.memory.search(query, **where).results]

    def listed(self, where: Where) -> list[str]:
        return [item.memory for item in self.world.memory.get_all(**where).results]

    def history(self, id: str, where: Where) -> Rows:
        return rows(self.world.memory.history(id))

    def change(self, id: str, where: Where, text: str) -> str | None:
        return id if _done(lambda: self.world.memory.update(id, text)) else None

    def delete(self, id: str, where: Where) -> bool:
        return _done(lambda: self.world.memory.delete(id))


class Store(Way):
    """001's MemoryStore; what it has no method for is asked of the library that it stands on."""

    NAME, WRITES, NEEDS = "store", frozenset({USER}), frozenset({USER})

    def __init__(self, corner: Corner) -> None:
        super().__init__(corner)
        self._store = MemoryStore(self.world.memory)

    def keep(self, where: Where, text: str) -> str:
        return bare(self._store.store(text, **where).id)

    def get(self, id: str, where: Where) -> str | None:
        try:
            return self._store.get(id).content
        except NotFoundError:
            return None

    def found(self, where: Where, query: str) -> list[str]:
        return [each.memory.content for each in self._store.retrieve(query, **where)]

    def listed(self, where: Where) -> list[str]:
        return [each.content for each in self._store.list(**where).memories]

    def history(self, id: str, where: Where) -> Rows:
        return rows(self.world.memory.history(id))

    def change(self, id: str, where: Where, text: str) -> str | None:
        return id if _done(lambda: self._store.update(id, text)) else None

    def delete(self, id: str, where: Where) -> bool:
        return _done(lambda: self._store.forget(id, erase=False))


class Runtime(Way):
    """003's AgentRuntime, whose facts are the facts of all; what it has no method for is the library's."""

    NAME, WRITES, NEEDS = "runtime", frozenset({USER, AGENT, RUN}), frozenset({AGENT})

    def __init__(self, corner: Corner) -> None:
        super().__init__(corner)
        self._runtime = AgentRuntime(corner.of(frozenset({AGENT}))[AGENT], self.world.memory)

    def _named(self, where: Where) -> dict[str, str]:
        return {_NAMES[axis]: value for axis, value in where.items()}

    def keep(self, where: Where, text: str) -> str:
        memory = {"content": {"text": text}, **self._named(where)}
        return str(PORTAL.call(self._runtime.create_memory(memory, "facts")))

    def get(self, id: str, where: Where) -> str | None:
        memory = PORTAL.call(self._runtime.get_memory_by_id(id))
        return None if memory is None else memory.text

    def found(self, where: Where, query: str) -> list[str]:
        asked = {"table_name": "facts", "query": query, "match_threshold": 0.5, **self._named(where)}
        return [memory.text for memory in PORTAL.call(self._runtime.search_memories(asked))]

    def listed(self, where: Where) -> list[str]:
        asked = {"tableName": "facts", **self._named(where)}
        return [memory.text for memory in PORTAL.call(self._runtime.getMemories(asked))]

    def history(self, id: str, where: Where) -> Rows:
        return rows(self.world.memory.history(id))

    def change(self, id: str, where: Where, text: str) -> str | None:
        return id if PORTAL.call(self._runtime.update_memory({"id": id, "content": {"text": text}})) else None

    def delete(self, id: str, where: Where) -> bool:
        was = self.get(id, where) is not None
        PORTAL.call(self._runtime.delete_memory(id))  # of what is not there it says nothing
        return was


class Team(Way):
    """004's TeamMemory."""

    NAME, WRITES, NEEDS = "team", frozenset({TEAM}), frozenset({TEAM})

    def __init__(self, corner: Corner) -> None:
        super().__init__(corner)
        self._team = TeamMemory(self.world.memory, team=corner.of(self.NEEDS)[TEAM], member="ana")

    def keep(self, where: Where, text: str) -> str:
        return bare(self._team.upsert(team_item(where, text)))

    def get(self, id: str, where: Where) -> str | None:
        item = self._team.get(id)
        return None if item is None else item.memory

    def found(self, where: Where, query: str) -> list[str]:
        return [item.memory for item in self._team.search(query).results]

    def listed(self, where: Where) -> list[str]:
        return [item.memory for item in self._team.get_all().results]

    def history(self, id: str, where: Where) -> Rows:
        return rows(self._team.history(id))

    def change(self, id: str, where: Where, text: str) -> str | None:
        return id if _done(lambda: self._team.patch(id, {"content": text})) else None

    def delete(self, id: str, where: Where) -> bool:
        return _done(lambda: self._team.delete(id))


class Program(Way):
    """The command line, each command with a memory that it opens and closes."""

    NAME, WRITES = "cli", frozenset({USER, AGENT, RUN})

    def keep(self, where: Where, text: str) -> str:
        return str(self._json("add", text, "--no-infer", *_options(where))["results"][0]["id"])

    def get(self, id: str, where: Where) -> str | None:
        ran = self.world.program("get", id, "--json")
        return ran.json["memory"] if _is_there(ran) else None

    def found(self, where: Where, query: str) -> list[str]:
        return [each["memory"] for each in self._json("search", query, *_options(where))["results"]]

    def listed(self, where: Where) -> list[str]:
        return [each["memory"] for each in self._json("list", *_options(where))["results"]]

    def history(self, id: str, where: Where) -> Rows:
        ran = self.world.program("history", id, "--json")
        return rows(ran.json["results"]) if _is_there(ran) else []

    def change(self, id: str, where: Where, text: str) -> str | None:
        return id if _is_there(self.world.program("update", id, text, "--json")) else None

    def delete(self, id: str, where: Where) -> bool:
        return _is_there(self.world.program("delete", id, "--json"))

    def _json(self, *arguments: str) -> Any:
        return self.world.program.ask(*arguments)


def team_item(where: Where, text: str) -> dict[str, Any]:
    """A team's memory with all of its seven tags."""
    return {
        "content": text, "team_scope": where[TEAM], "project_scope": None, "visibility": "team", "confidence": 0.9,
        "truth_level": "WORKING", "source": "chat:conv_1", "validation_status": "pending",
    }  # fmt: skip


def _done(work: Any) -> bool:
    try:
        work()
    except NotFoundError:
        return False
    return True


def _options(where: Where) -> list[str]:
    return [part for axis, value in where.items() for part in (f"--{axis.replace('_', '-')}", value)]


def _is_there(ran: Ran) -> bool:
    assert ran.status in (0, 3), ran.err
    return ran.status == 0
