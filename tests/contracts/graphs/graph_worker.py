"""What the graph tests share: the providers, makers of values, and a worker process that writes beside the test's.

`python -m tests.contracts.graphs.graph_worker PROVIDER FOLDER WORKER COUNT` states things in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from perdure.backends import registry
from perdure.backends.graphs.base import GraphStore
from perdure.domain.graph import Mention, Relation, Statement
from perdure.domain.scope import Scope
from tests.engines.neo4j import PASSWORD, USER, Server
from tests.engines.started import started

ADDRESS = "GRAPH_TEST_SERVER"
"""The environment variable by which worker processes find the server of the test process."""

PROVIDERS = [pytest.param("sqlite"), pytest.param("neo4j", marks=pytest.mark.xdist_group("neo4j"))]
"""The graph stores as parameters of a fixture: the tests on the server stay on one worker, which starts it once."""

ANN = Scope(user_id="ann")
BEN = Scope(user_id="ben")


def neo4j_server() -> Server:
    """The process's server, which is stopped with it."""
    server = started(Server)
    os.environ[ADDRESS] = server.url
    return server


class Place:
    """One graph, of which any number of handles can be opened."""

    def __init__(self, provider: str, folder: Path) -> None:
        self.provider = provider
        self.folder = folder

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a store that is the folder's own."""
        if self.provider == "sqlite":
            return {"path": self.folder / "graph.db"}
        url = os.environ.get(ADDRESS) or neo4j_server().url
        namespace = "t" + blake2b(str(self.folder).encode(), digest_size=8).hexdigest()
        return {"url": url, "username": USER, "password": PASSWORD, "namespace": namespace, "timeout": 60}

    def handle(self, **settings: Any) -> GraphStore:
        """A store that is not open yet."""
        return registry.build("graphs", self.provider, {**self.settings, **settings})

    @asynccontextmanager
    async def opened(self, **settings: Any):
        """A store that is open."""
        graph = self.handle(**settings)
        await graph.open()
        try:
            yield graph
        finally:
            await graph.close()


def at(day: int) -> str:
    """A moment of fixed width."""
    return f"2026-01-{day:02}T00:00:00.000000+00:00"


def edge(text: str, **fields: Any) -> Relation:
    """A relation, as "Alice works_at Acme"; names with blanks are given by keywords."""
    source, relation, target = text.split(" ")
    return Relation(**{"source": source, "relation": relation, "target": target, **fields})


def says(
    memory: str,
    *relations: str | Relation,
    mentions: Sequence[str | Mention] = (),
    scope: Scope = ANN,
    day: int = 1,
    by: str = "temporal",
) -> Statement:
    """What a memory states."""
    return Statement(
        memory_id=memory,
        by=by,
        scope=scope,
        told_at=at(day),
        mentions=tuple(Mention(name=each) if isinstance(each, str) else each for each in mentions),
        relations=tuple(edge(each) if isinstance(each, str) else each for each in relations),
    )


async def tell(graph: GraphStore, *statements: Statement) -> None:
    """State each, at the moment at which it was told."""
    for statement in statements:
        await graph.state(statement, statement.told_at)


async def names(graph: GraphStore, scope: Scope = ANN, **asked: Any) -> list[str]:
    """The names of entities, in the graph's order."""
    return [entity.name for entity in await graph.entities(scope, **asked)]


async def around(graph: GraphStore, *asked: str, scope: Scope = ANN, **options: Any) -> tuple[list[str], list[str]]:
    """The names and the relations of a neighbourhood, in the graph's order."""
    found = await graph.neighbourhood(scope, asked, **options)
    relations = [stated.relation for stated in found.relations]
    return (
        [entity.name for entity in found.entities],
        [f"{relation.source} {relation.relation} {relation.target}" for relation in relations],
    )


async def work(provider: str, folder: str, worker: str, count: int) -> None:
    """State, change and erase memories of one's own beside others that do the same with the same entities."""
    async with Place(provider, Path(folder)).opened() as graph:
        for number in range(count):
            memory = f"{worker}-{number}"
            await tell(graph, says(memory, "Alice knows Bob", f"Alice met {worker}"))
            await tell(graph, says(memory, "Alice knows Bob", day=2))
            if number % 2:
                await graph.erase([memory])


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
