"""The pgvector store when something is wrong: addresses, keys, a server that goes away, waiting, forks, drivers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from perdure.backends import registry
from perdure.backends.extras import extra_line
from perdure.backends.vector_stores.pgvector.store import PgVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import eq
from tests.backends.vector_stores.pgvector_stores import DIMENSION, awaited, make, opened, point, query
from tests.contracts.ledgers.ledger_postgres import PASSWORD, Server, new_server

ROOT = Path(__file__).parents[3]
ALICE = eq("user_id", "alice")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = new_server()
    yield server
    server.remove()


async def failure_of(store: PgVectorStore) -> str:
    with pytest.raises(VectorStoreError) as caught:
        await store.open()
    shown = "".join(traceback.format_exception(caught.value))
    assert "sesame" not in shown
    assert PASSWORD not in shown
    return str(caught.value)


# ------------------------------------------------------------------ settings
def test_the_address_falls_back_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="DATABASE_URL"):
        registry.build("vector_stores", "pgvector", {})
    monkeypatch.setenv("DATABASE_URL", "postgres://someone:open-sesame@db.example:6543/app?sslmode=require")
    store = registry.build("vector_stores", "pgvector", {})
    assert store._server.name == "postgres:db.example:6543/app/public"
    assert "sesame" not in repr(PgVectorStore.Settings())
    given = {"connection_string": "postgresql+psycopg://u:p@H.example/x", "schema": "Mine-2"}
    assert registry.build("vector_stores", "pgvector", given)._server.name == "postgres:h.example:5432/x/Mine-2"


@pytest.mark.parametrize(
    "url",
    ["mysql://u:open-sesame@h/x", "postgresql://u:open sesame@h/x", "postgresql://u:open%zzsesame@h/x", "sesame", ""],
)
def test_a_wrong_address_is_a_config_error_without_it(url: str) -> None:
    with pytest.raises(ConfigError, match="connection_string") as caught:
        registry.build("vector_stores", "pgvector", {"connection_string": url})
    assert "sesame" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"schema": "Robert'); --"}, "schema"),
        ({"schema": ""}, "schema"),
        ({"pool_size": 0}, "pool_size"),
        ({"timeout": 0}, "timeout"),
        ({"shema": "x"}, "'schema'"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        registry.build("vector_stores", "pgvector", {"connection_string": "postgresql://h/x", **wrong})


@pytest.mark.parametrize("driver", ["psycopg", "pgvector"])
def test_a_missing_driver_is_told_with_its_pip_line(driver: str) -> None:
    code = (
        f"import sys; sys.modules[{driver!r}] = None\n"
        "from perdure.backends import registry; from perdure.domain.errors import DependencyError\n"
        "try: registry.load('vector_stores', 'pgvector')\n"
        "except DependencyError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert extra_line("pgvector") in done.stdout, done.stderr


# ------------------------------------------------------------------ a server that says no
@awaited
async def test_what_cannot_be_reached_says_why_and_shows_no_secret(server: Server) -> None:
    place = f"127.0.0.1:{server.port}/postgres"
    # A login that was refused is not tried again: the wait would be a minute.
    wrong = await failure_of(make(server, "s", server.url(password="open-sesame"), retry_delay=60))
    assert place in wrong
    assert "refuses the login: check user and password" in wrong
    missing = await failure_of(make(server, "s", server.url("nowhere"), retry_delay=60))
    assert "a database that does not exist" in missing
    closed = await failure_of(make(server, "s", server.url(port=1), retries=2))
    assert "127.0.0.1:1/postgres" in closed
    assert "cannot be reached" in closed
    unknown = "postgresql://u:open-sesame@no-such-host.invalid/x"
    assert "cannot be reached" in await failure_of(make(server, "s", unknown, retries=0))


@awaited
async def test_a_database_that_perdure_cannot_use_is_refused(server: Server) -> None:
    server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    assert "LATIN1" in await failure_of(make(server, "s", server.url("latin")))
    server.run("CREATE ROLE reader LOGIN PASSWORD 'open-sesame'")
    server.run("CREATE DATABASE bare OWNER reader")
    as_reader = server.url("bare", password="open-sesame").replace("perdure_tests", "reader")
    assert "CREATE EXTENSION vector in the database as a superuser" in await failure_of(make(server, "s", as_reader))
    here = server.url(password="open-sesame").replace("perdure_tests", "reader")
    assert "may not do" in await failure_of(make(server, "not_mine", here))


@awaited
async def test_a_user_without_rights_may_use_what_was_made_for_it(server: Server) -> None:
    server.run("CREATE EXTENSION IF NOT EXISTS vector")
    server.run("CREATE ROLE writer LOGIN PASSWORD 'open-sesame'")
    server.run("CREATE SCHEMA made_for_writer AUTHORIZATION writer")
    url = server.url(password="open-sesame").replace("perdure_tests", "writer")
    async with opened(server, "made_for_writer", url=url) as store:
        await store.create_collection("c", DIMENSION)
        await store.apply("c", [point("a", 1)])
        assert await store.scrub()
        assert await store.count("c", ALICE) == 1


# ------------------------------------------------------------------ a server that goes away
@awaited
async def test_a_restart_between_calls_is_not_seen(server: Server) -> None:
    async with opened(server, "between", retries=0) as store:
        await store.create_collection("c", DIMENSION)
        await asyncio.gather(*(store.apply("c", [point(f"r{n}", 1, n)]) for n in range(9)))
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        assert await asyncio.gather(*(store.count("c", ALICE) for _ in range(9))) == [9] * 9


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@awaited
async def test_a_server_that_goes_away_during_a_write(server: Server, mode: str) -> None:
    async with opened(server, f"during_{mode}", retries=0) as store:
        await store.create_collection("c", DIMENSION)
        await store.apply("c", [point("a", 1)])
        blocker = psycopg.connect(server.url())
        blocker.execute(f"LOCK TABLE during_{mode}.c")
        under_way = asyncio.create_task(store.apply("c", [point("b", 1)], ["a"]))
        await asyncio.sleep(0.3)
        assert not under_way.done()
        await asyncio.to_thread(server.stop, mode)
        with pytest.raises(VectorStoreError, match="was undone"):
            await under_way
        blocker.close()
        for call in (store.count("c"), store.search("c", query(1), 3), store.apply("c", [point("b", 1)])):
            with pytest.raises(VectorStoreError, match="cannot be reached"):
                await call
        await asyncio.to_thread(server.start)
        assert [row.id for row in (await store.list("c")).points] == ["a"]


@awaited
async def test_a_call_waits_for_a_server_that_comes_back(server: Server) -> None:
    async with opened(server, "waits", retries=10, retry_delay=0.1) as store:
        await store.create_collection("c", DIMENSION)
        await asyncio.to_thread(server.stop)
        calls = [asyncio.create_task(store.apply("c", [point(f"r{n}", 1)])) for n in range(3)]
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)
        await asyncio.gather(*calls)
        assert await store.count("c") == 3


@awaited
async def test_a_close_does_not_need_the_server(server: Server) -> None:
    store = make(server, "closing", retries=0)
    await store.open()
    await asyncio.to_thread(server.stop)
    await store.close()
    await asyncio.to_thread(server.start)
    await store.open()
    assert await store.list_collections() == []
    await store.close()


# ------------------------------------------------------------------ waiting
@awaited
async def test_a_call_that_waits_for_others_ends_and_changes_nothing(server: Server) -> None:
    async with opened(server, "slow", timeout=2) as store:
        await store.create_collection("c", DIMENSION)
        await store.apply("c", [point("a", 1)])
        with psycopg.connect(server.url()) as blocker:
            blocker.execute("LOCK TABLE slow.c")
            with pytest.raises(VectorStoreError, match=r"timeout of 2 s; nothing was changed"):
                await store.apply("c", [point("b", 1)], ["a"])
            blocker.rollback()
        assert [row.id for row in (await store.list("c")).points] == ["a"]


@awaited
async def test_a_pool_that_is_all_in_use_says_so(server: Server) -> None:
    async with opened(server, "busy", timeout=1, pool_size=1) as store:
        await store.create_collection("c", DIMENSION)
        with store._server.connection(), pytest.raises(VectorStoreError, match="pool_size"):
            await store.count("c")
        assert await store.count("c") == 0


@awaited
async def test_a_scan_that_is_left_early_leaves_a_sound_connection(server: Server) -> None:
    async with opened(server, "left", pool_size=1) as store:
        await store.create_collection("c", DIMENSION)
        await store.insert_many("c", [point(f"r{n}", 1, n) for n in range(2500)])
        pages = store._scan("c", None, with_vectors=True)
        assert len(next(pages)) == 1000
        pages.close()
        assert await store.count("c") == 2500


# ------------------------------------------------------------------ many processes
OPENING = """
import asyncio, sys
from tests.backends.vector_stores.pgvector_stores import *
store = PgVectorStore(PgVectorStore.Settings(connection_string=sys.argv[1], schema="many"))
async def main():
    await store.open(); await store.create_collection("c", DIMENSION)
    await store.apply("c", [point(sys.argv[2], 1)]); await store.close()
asyncio.run(main())
"""


def test_many_processes_may_open_a_new_store_at_once(server: Server) -> None:
    server.run("CREATE DATABASE fresh")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, server.url("fresh"), f"r{n}"], stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        for n in range(3)
    ]
    for worker in workers:
        _, said = worker.communicate(timeout=120)
        assert worker.returncode == 0, said
    with psycopg.connect(server.url("fresh")) as connection:
        assert connection.execute("SELECT count(*) FROM many.c").fetchone() == (3,)
        assert connection.execute("SELECT count(*) FROM many.perdure_store").fetchone() == (1,)


FORKING = """
import asyncio, gc, logging, os, sys, warnings
from tests.backends.vector_stores.pgvector_stores import *
logging.disable(); warnings.simplefilter("ignore")
store = PgVectorStore(PgVectorStore.Settings(connection_string=sys.argv[1], schema="forked"))
asyncio.run(store.open()); asyncio.run(store.create_collection("c", DIMENSION))
asyncio.run(store.apply("c", [point("before", 1)]))
child = os.fork()
if child == 0:
    assert asyncio.run(store.count("c")) == 1
    asyncio.run(store.apply("c", [point("child", 1)])); asyncio.run(store.close()); gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert asyncio.run(store.count("c")) == 2
asyncio.run(store.close()); print("parent done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_connections_of_its_own(server: Server) -> None:
    run = [sys.executable, "-c", FORKING, server.url()]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout == "parent done\n", done.stderr
