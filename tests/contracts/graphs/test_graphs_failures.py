"""Graph stores where something is wrong: a server that is down, hangs or refuses, a file that is held or foreign;
and what erasure leaves behind."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from perdure.backends import registry
from perdure.backends.graphs.neo4j import Neo4jGraphStore
from perdure.domain.errors import ConfigError, GraphDownError, GraphError
from perdure.domain.scope import Scope
from tests.contracts.graphs.graph_worker import ANN, Place, around, at, names, neo4j_server, says, tell
from tests.contracts.ledgers.ledger_worker import awaited
from tests.engines.neo4j import PASSWORD, Server

pytestmark = pytest.mark.covers("X61", "X62")

on_server = pytest.mark.xdist_group("neo4j")


@pytest.fixture
def server() -> Server:
    return neo4j_server()


@pytest.fixture
def in_neo4j(server: Server, tmp_path: Path) -> Place:
    return Place("neo4j", tmp_path)


@pytest.fixture
def in_file(tmp_path: Path) -> Place:
    return Place("sqlite", tmp_path)


# ---------------------------------------------------------------------- neo4j
@pytest.mark.covers("X61")
@on_server
@awaited
async def test_a_server_that_is_killed_is_down_and_nothing_is_lost_when_it_is_back(
    server: Server, in_neo4j: Place
) -> None:
    settings = in_neo4j.settings
    async with in_neo4j.opened(retry_time=0) as graph:
        await tell(graph, says("m1", "Alice works_at Acme"))
        late = registry.build("graphs", "neo4j", {**settings, "retry_time": 0})
        server.kill()
        try:
            for _ in range(2):
                with pytest.raises(GraphDownError, match="cannot be reached") as told:
                    await graph.state(says("m2", "Alice knows Bob"), at(1))
                with pytest.raises(GraphDownError):
                    await names(graph)
            with pytest.raises(GraphDownError):
                await late.open()
            with pytest.raises(GraphDownError):
                await names(late)
            assert PASSWORD not in str(told.value)
            assert told.value.__cause__ is told.value.__context__ is None
        finally:
            await asyncio.to_thread(server.start)
        await _until_up(lambda: tell(graph, says("m2", "Alice knows Bob")))
        assert (await around(graph, "Alice"))[1] == ["Alice works_at Acme", "Alice knows Bob"]
        assert await names(late) == await names(graph)  # it was never opened while there was a server
        await late.close()


async def _until_up(call) -> None:
    """A server that has just started may still answer that its database is not there."""
    end = time.monotonic() + 60
    while True:
        try:
            return await call()
        except GraphDownError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)


@on_server
@awaited
async def test_a_server_that_hangs_is_down_after_the_timeout(server: Server, in_neo4j: Place) -> None:
    async with in_neo4j.opened() as patient:
        await tell(patient, says("m1", "Alice works_at Acme"))
    async with in_neo4j.opened(timeout=1.5, retry_time=0) as graph:
        server.pause()
        try:
            with pytest.raises(GraphDownError, match=r"no answer within 1\.5 s"):
                await names(graph)
            with pytest.raises(GraphDownError):
                await tell(graph, says("m2", "Alice knows Bob"))
        finally:
            server.resume()
    async with in_neo4j.opened() as patient:
        await tell(patient, says("m2", "Alice knows Bob"))
        assert await names(patient) == ["Alice", "Acme", "Bob"]


@on_server
@awaited
async def test_a_wrong_password_is_an_error_that_does_not_show_it(in_neo4j: Place) -> None:
    graph = in_neo4j.handle(password="not-the-password")
    with pytest.raises(GraphError, match="refused the user or password") as told:
        await graph.open()
    assert not isinstance(told.value, GraphDownError)
    assert "not-the-password" not in str(told.value)
    with pytest.raises(GraphError, match="not open"):
        await graph.entities(ANN)


@on_server
@awaited
async def test_a_database_that_is_not_there_is_named(in_neo4j: Place) -> None:
    graph = in_neo4j.handle(database="nowhere", timeout=20, retry_time=0)
    with pytest.raises(GraphError, match="nowhere"):
        await graph.open()


@on_server
@awaited
async def test_others_nodes_are_left_alone_and_erasure_leaves_none_of_ours(server: Server, in_neo4j: Place) -> None:
    import neo4j

    driver = neo4j.AsyncGraphDatabase.driver(server.url, auth=("neo4j", PASSWORD))
    count = "MATCH (n) WHERE n.namespace = $namespace RETURN count(n) AS nodes"

    async def nodes() -> int:
        found = await driver.execute_query(count, namespace=in_neo4j.settings["namespace"])
        return found.records[0]["nodes"]

    async with driver, in_neo4j.opened() as graph:
        await driver.execute_query(
            "CREATE (:Entity {name: 'Alice', user_id: 'ann'})-[:RELATES_TO]->(:Memory {id: 'm1'})"
        )
        await tell(graph, says("m1", "Alice works_at Acme"), says("m2", "Alice knows Bob", scope=Scope(team_id="red")))
        assert await nodes() == 2 + 4  # memories; Alice is one for each scope
        assert await around(graph, "Alice", scope=Scope(), depth=3) == (
            ["Alice", "Acme", "Bob"],
            ["Alice works_at Acme", "Alice knows Bob"],
        )
        await graph.erase(["m1"])
        assert await nodes() == 1 + 2
        await graph.reset()
        assert await nodes() == 0
        theirs = await driver.execute_query(
            "MATCH (e:Entity {name: 'Alice'})-[r]->(m:Memory {id: 'm1'}) DETACH DELETE e, m"
        )
        assert theirs.summary.counters.nodes_deleted == 2


@on_server
@awaited
async def test_a_graph_of_a_newer_perdure_is_refused(server: Server, in_neo4j: Place) -> None:
    import neo4j

    async with in_neo4j.opened():
        pass
    async with neo4j.AsyncGraphDatabase.driver(server.url, auth=("neo4j", PASSWORD)) as driver:
        newer = "MATCH (g:PerdureGraph {perdure_id: $namespace}) SET g.version = 99"
        await driver.execute_query(newer, namespace=in_neo4j.settings["namespace"])
    graph = in_neo4j.handle()
    with pytest.raises(GraphError, match="newer perdure"):
        await graph.open()


def test_settings_fall_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Neo4jGraphStore.Settings().url == "bolt://localhost:7687"
    assert Neo4jGraphStore.Settings().password is None
    monkeypatch.setenv("NEO4J_URL", "neo4j+s://graph.example.com")
    monkeypatch.setenv("NEO4J_USER", "ann")
    monkeypatch.setenv("NEO4J_PASSWORD", "secret-word")
    found = Neo4jGraphStore.Settings(password=None)
    assert (found.url, found.username) == ("neo4j+s://graph.example.com", "ann")
    assert found.password is not None
    assert found.password.get_secret_value() == "secret-word"
    assert "secret-word" not in repr(found)
    assert Neo4jGraphStore.Settings(url="bolt://here:1", username="ben").username == "ben"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://localhost:7474"},
        {"url": "bolt://ann:secret@localhost"},
        {"url": "bolt://localhost:0"},
        {"namespace": "`x`"},
        {"timeout": 0},
        {"user": "ann"},
    ],
)
def test_settings_that_are_wrong_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))) as told:
        registry.build("graphs", "neo4j", wrong)
    assert "secret" not in str(told.value)


# ---------------------------------------------------------------------- sqlite
@awaited
async def test_erasure_leaves_no_bytes_in_the_file_or_its_log(in_file: Place) -> None:
    def found(word: str) -> list[str]:
        files = sorted(in_file.folder.glob("graph.db*"))
        return [file.name for file in files if word.encode() in file.read_bytes().lower()]

    async with in_file.opened() as graph, in_file.opened() as other:
        await tell(
            graph, *(says(f"m{number}", f"hub r name{number}", scope=Scope(run_id="r")) for number in range(200))
        )
        await tell(graph, says("m-secret", "Zerubbabel works_at Wintermute", mentions=["Zerubbabel"]))
        await graph.take_back(["m-secret"], at(2))
        assert await names(other, Scope(run_id="r"), limit=1) == ["hub"]
        assert found("zerubbabel")
        await graph.erase(["m-secret"])
        assert found("zerubbabel") == found("wintermute") == found("m-secret") == []
        await tell(graph, says("m2", "Zerubbabel works_at Wintermute"))
        await other.erase_scope(ANN)
        assert found("zerubbabel") == found("wintermute") == []
        await graph.reset()
        assert found("name17") == []


@awaited
async def test_a_scrub_that_a_reader_prevents_is_done_at_close(in_file: Place) -> None:
    async with in_file.opened(busy_timeout=0.1) as graph:
        await tell(graph, says("m1", "Zerubbabel works_at Wintermute"))
        reader = sqlite3.connect(in_file.settings["path"])
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM mentions").fetchall()
        assert await graph.erase(["m1"]) == 3
        assert await names(graph) == []
        reader.close()
    assert b"zerubbabel" not in in_file.settings["path"].read_bytes().lower()
    assert [file.name for file in in_file.folder.glob("graph.db*")] == ["graph.db"]


@awaited
async def test_a_file_that_another_process_holds_is_down_and_then_not(in_file: Place) -> None:
    async with in_file.opened(busy_timeout=0.1) as graph:
        await tell(graph, says("m1", "Alice works_at Acme"))
        writer = sqlite3.connect(in_file.settings["path"], isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(GraphDownError, match="another process has held it"):
            await tell(graph, says("m2", "Alice knows Bob"))
        assert await names(graph) == ["Acme", "Alice"]
        writer.close()
        await tell(graph, says("m2", "Alice knows Bob"))
        assert await names(graph) == ["Alice", "Acme", "Bob"]


@awaited
async def test_files_that_are_not_ours_are_refused_and_left_as_they_are(in_file: Place) -> None:
    path = in_file.settings["path"]
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(GraphError, match="another program"):
        await in_file.handle().open()
    path.write_bytes(b"no database at all, but long enough to look like one" * 20)
    with pytest.raises(GraphError, match="not an SQLite database"):
        await in_file.handle().open()
    assert path.read_bytes().startswith(b"no database")
    with pytest.raises(GraphError, match="it is a folder"):
        await in_file.handle(path=in_file.folder).open()


@awaited
async def test_a_file_of_a_newer_perdure_is_refused(in_file: Place) -> None:
    async with in_file.opened():
        pass
    with sqlite3.connect(in_file.settings["path"]) as connection:
        connection.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
    connection.close()
    with pytest.raises(GraphError, match="newer perdure"):
        await in_file.handle().open()


@awaited
async def test_the_file_is_private_and_its_questions_use_indexes(in_file: Place) -> None:
    async with in_file.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme"))
        path = in_file.settings["path"]
        assert path.stat().st_mode & 0o077 == 0
        asked: list[str] = []
        database = graph._open  # type: ignore[attr-defined]  # the plan is the connection's to tell
        with database.reading() as connection:
            connection.set_trace_callback(asked.append)
        await graph.neighbourhood(ANN, ["Alice"], depth=2)
        await graph.entities(ANN, names=["Alice"], as_of=at(1))
        await graph.similar_names(ANN, "Alice")
        await graph.count(["m1"])
        with database.reading() as connection:
            connection.set_trace_callback(None)
            queries = [query for query in asked if "FROM mentions" in query or "relations" in query]
            assert len(queries) >= 6
            for query in queries:
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
                scans = [
                    step
                    for step in plan
                    if step.startswith("SCAN") and step.split()[1] in ("mentions", "relations", "m", "r")
                ]
                assert scans == [], f"{query}\n{plan}"
