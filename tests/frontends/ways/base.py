"""What every way in has, and what stands behind all of them: one folder, one server, one model's server."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from perdure import Memory, MemoryClient
from perdure.domain.event import HistoryRecord
from perdure.frontends.library.portal import PORTAL
from tests.frontends.cli.runs import Folder
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.mem0.clients import MemoryClient as Mem0Client
from tests.frontends.server.running import Running

USER, AGENT, RUN, TEAM = "user_id", "agent_id", "run_id", "team_id"
Where = Mapping[str, str]
"""Values of axes of scope."""
Rows = list[tuple[str, str, str | None, str | None, str]]
"""A history: of each event its id, what happened, the old text, the new one and the moment."""


@dataclass(frozen=True)
class World:
    """One memory in one folder, held open by a library, a server and a client, each with an engine of its own."""

    folder: Path
    memory: Memory
    server: Running
    mem0: Mem0Client
    program: Folder
    client: MemoryClient | None
    """Where the folder holds files."""
    model: Upstream

    def memory_rows(self, id: str) -> Rows:
        """Everything that happened to a memory, whoever may see it."""
        kernel = self.memory._memory._engine.kernel

        async def read() -> list[HistoryRecord]:
            await kernel.ready()
            return await kernel.history(id)

        return rows(PORTAL.call(read()))


@dataclass(frozen=True)
class Corner:
    """A test's own user, agent, run and team."""

    world: World
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def of(self, axes: frozenset[str]) -> dict[str, str]:
        """The values of some axes."""
        return {axis: f"{axis.removesuffix('_id')}-{self.name}" for axis in sorted(axes)}


class Way(ABC):
    """A way in, inside of a test's corner; `where` are the axes that a call names."""

    NAME: ClassVar[str]
    WRITES: ClassVar[frozenset[str]]
    """The axes of scope that a memory made here can have, and that a read here can name."""
    NEEDS: ClassVar[frozenset[str]] = frozenset()
    """Those that every read here names."""
    SPEAKS: ClassVar[bool] = False
    """Whether memories are made and changed by what is said, and have no ids here."""

    def __init__(self, corner: Corner) -> None:
        self.corner = corner
        self.world = corner.world

    @abstractmethod
    def keep(self, where: Where, text: str) -> str:
        """Make a memory, and answer with its id."""

    @abstractmethod
    def get(self, id: str, where: Where) -> str | None:
        """The text of a memory by its id, None where there is none."""

    @abstractmethod
    def found(self, where: Where, query: str) -> list[str]:
        """The texts that a search finds."""

    @abstractmethod
    def listed(self, where: Where) -> list[str]:
        """All texts."""

    @abstractmethod
    def history(self, id: str, where: Where) -> Rows:
        """What happened to a memory; nothing for one that this way does not see."""

    @abstractmethod
    def change(self, id: str, where: Where, text: str) -> str | None:
        """Give a memory another text, and answer with the id that it has then; None where there was none."""

    @abstractmethod
    def delete(self, id: str, where: Where) -> bool:
        """Delete a memory and keep its history; whether there was one."""


def rows(records: list[Any]) -> Rows:
    """History as it is compared, from records or from their JSON."""
    names = ("id", "event", "old_value", "new_value", "timestamp")
    return [tuple(each[name] if isinstance(each, dict) else getattr(each, name) for name in names) for each in records]  # type: ignore[misc]


def bare(id: str) -> str:
    """An id in the form that the library has."""
    return str(uuid.UUID(id.removeprefix("mem_")))
