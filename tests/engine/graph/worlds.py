"""A graph that fails on command, and memories that use it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar

from perdure import Memory
from perdure.backends.graphs.sqlite import SqliteGraphStore
from perdure.domain.errors import GraphDownError, GraphError
from perdure.domain.event import Change
from perdure.domain.graph import Statement
from perdure.domain.memory import MemoryItem, Tags, new_id, text_hash
from perdure.domain.scope import Scope
from perdure.frontends.library.portal import PORTAL

ANA = {"user_id": "ana"}
FAULTY = "tests.engine.graph.worlds:FaultyGraph"


class FaultyGraph(SqliteGraphStore):
    """The real SQLite graph behind a switch: it can be down, or refuse what it is told."""

    name: ClassVar[str] = "faulty"
    is_down: ClassVar[bool] = False
    refuses: ClassVar[bool] = False
    told: ClassVar[list[str]] = []
    """Memories that it was told to state something of."""
    before_state: ClassVar[Callable[[Statement], Coroutine[Any, Any, None]] | None] = None

    @classmethod
    def mend(cls) -> None:
        """Be well again."""
        cls.is_down = cls.refuses = False
        cls.before_state = None
        cls.told = []

    async def open(self) -> None:
        """Fail where the graph is down."""
        if self.is_down:
            raise GraphDownError("the graph is down, as it was told to be")
        await super().open()

    async def state(self, statement: Statement, moment: str) -> None:
        """Fail where the graph refuses."""
        if self.refuses:
            raise GraphError("the graph refuses, as it was told to")
        if self.before_state is not None:
            await type(self).before_state(statement)  # type: ignore[misc]
        self.told.append(statement.memory_id)
        await super().state(statement, moment)


def config(path: Path, *, faulty: bool = False, **more: Any) -> dict[str, Any]:
    """The configuration of a memory with a graph."""
    graph = {"provider": FAULTY, "config": {"path": str(path / "graph.db")}} if faulty else {"provider": "sqlite"}
    return {"path": str(path), "embedder": {"provider": "hashed"}, "graph_store": graph, **more}


def remember(memory: Memory, text: str, **arguments: Any) -> str:
    """Store a text as it is, and answer with its id."""
    return str(memory.add(text, infer=False, **{**ANA, **arguments}).results[0].id)


def edges(memory: Memory, name: str, **arguments: Any) -> list[tuple[str, str, str]]:
    """The relations of an entity, without their times."""
    found = memory.graph.relations(name, **{**ANA, **arguments})
    return [(edge.source, edge.relation, edge.target) for edge in found]


def team_item(
    text: str, *, author: str, visibility: str = "team", project: str | None = None, entities: Sequence[str] = ()
) -> MemoryItem:
    """A memory of the team `x`, tagged."""
    moment = "2026-05-01T00:00:00.000000+00:00"
    return MemoryItem(
        id=new_id(), memory=text, hash=text_hash(text), scope=Scope(team_id="x", project_id=project),
        created_at=moment, updated_at=moment, told_at=moment, valid_from=moment, source=f"test:{new_id()}",
        confidence=0.9, metadata={"entities": [{"name": name, "type": "person"} for name in entities]},
        tags=Tags(visibility=visibility, truth_level="WORKING", validation_status="pending", written_by=author),
    )  # fmt: skip


def put(memory: Memory, item: MemoryItem) -> str:
    """Add an item as it is, by the one way to change anything."""
    kernel = memory._memory._engine.kernel

    async def commit() -> None:
        await kernel.ready()
        async with kernel.lock(item.scope):
            moment = kernel.clock.tick()
            change = Change(
                id=new_id(), event="ADD", memory_id=item.id, at=moment, told_at=item.told_at, after=item, actor="test"
            )
            await kernel.commit([change], {item.id: None})

    PORTAL.call(commit())
    return item.id
