"""What is PostgreSQL's own in the ledger: its address, its text, its transactions, its failures."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import event, text

from perdure.backends import registry
from perdure.backends.extras import extra_line
from perdure.backends.ledgers.postgres.driver import escape, unescape
from perdure.backends.ledgers.postgres.store import PostgresLedger
from perdure.domain.errors import ConfigError, DependencyError, InvalidInputError, LedgerError, LedgerLockedError
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_postgres import PASSWORD, Server, new_server, postgres_server  # noqa: F401 - a fixture
from tests.contracts.ledgers.ledger_worker import USER, Place, add, awaited, entry, episode, settle

psycopg = pytest.importorskip("psycopg")

ROOT = Path(__file__).parents[3]


@pytest.fixture
def server(postgres_server: Server) -> Server:  # noqa: F811
    return postgres_server


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Place:
    return Place("postgres", tmp_path)


def make(server: Server, schema: str, url: str | None = None, **settings: object) -> PostgresLedger:
    return PostgresLedger(PostgresLedger.Settings(url=url or server.url(), schema_name=schema, **settings))


def schema_of(ledger: PostgresLedger) -> str:
    return ledger.identity.rpartition("/")[2]


async def error_of(ledger: PostgresLedger) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        await ledger.open()
    await ledger.close()
    told = "".join(traceback.format_exception(caught.value))
    for secret in (PASSWORD, "pass%2Fword", "wrong-secret"):
        assert secret not in told
    return caught.value


# ---------------------------------------------------------------------- the address
def test_settings_are_checked_and_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(ConfigError, match="DATABASE_URL") as caught:
        registry.build("ledgers", "postgres", {})
    monkeypatch.setenv("DATABASE_URL", "postgres://someone:open-sesame@db.example:6543/app?sslmode=require")
    ledger = registry.build("ledgers", "postgres", {})
    assert ledger.identity == "postgres:db.example:6543/app/perdure"
    assert "sesame" not in repr(PostgresLedger.Settings())
    given = registry.build("ledgers", "postgres", {"url": "postgresql+asyncpg://u:p@H.example/x", "schema_name": "s"})
    assert given.identity == "postgres:h.example:5432/x/s"
    for url in ("mysql://u:open-sesame@h/x", "postgresql://u:open sesame@h/x", "postgresql://u:open%zzsesame@h/x"):
        with pytest.raises(ConfigError) as caught:
            registry.build("ledgers", "postgres", {"url": url})
        assert "".join(("ses", "ame")) not in "".join(traceback.format_exception(caught.value)), url
    for wrong in (
        {"schema_name": "Robert'); --"},
        {"schema_name": ""},
        {"pool_size": 0},
        {"lock_timeout": 0},
        {"x": 1},
    ):
        with pytest.raises(ValidationError):
            PostgresLedger.Settings(**wrong)


def test_a_missing_driver_is_told_with_its_pip_line() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from perdure.backends import registry; from perdure.domain.errors import DependencyError\n"
        "try: registry.build('ledgers', 'postgres', {'url': 'postgresql://h/x'})\n"
        "except DependencyError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert extra_line("postgres") in done.stdout, done.stderr
    assert issubclass(DependencyError, ImportError)


@awaited
async def test_what_cannot_be_reached_says_why_and_shows_no_secret(server: Server) -> None:
    wrong = await error_of(make(server, "s", server.url(password="wrong-secret")))
    assert "refuses the login: check user and password" in str(wrong)
    missing = await error_of(make(server, "s", server.url("nowhere")))
    assert "a database that does not exist" in str(missing)
    closed = await error_of(make(server, "s", server.url(port=1), connect_timeout=2))
    assert "cannot be reached" in str(closed)
    unknown = await error_of(make(server, "s", "postgresql://u:wrong-secret@no-such-host.invalid/x", connect_timeout=2))
    assert "cannot be reached" in str(unknown)


@awaited
async def test_a_user_that_may_not_make_the_schema_is_told_so(server: Server) -> None:
    server.run("CREATE ROLE reader LOGIN PASSWORD 'wrong-secret'")
    url = server.url(password="wrong-secret").replace("perdure_tests", "reader")
    told = await error_of(make(server, "not_mine", url))
    assert "may not do" in str(told)
    # A schema that was made for the user is enough.
    server.run("CREATE SCHEMA made_for_reader AUTHORIZATION reader")
    ledger = make(server, "made_for_reader", url)
    await ledger.open()
    await settle(ledger, add())
    await ledger.close()


@awaited
async def test_a_database_that_cannot_hold_every_text_is_refused(server: Server) -> None:
    server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    assert "LATIN1" in str(await error_of(make(server, "s", server.url("latin"))))


@awaited
async def test_one_schema_is_one_ledger(server: Server) -> None:
    one, two = make(server, "first_ledger"), make(server, "second_ledger")
    await one.open()
    await two.open()
    assert one.identity != two.identity
    change = add()
    async with one.lock(Scope()), two.lock(Scope()):
        await settle(one, change)
    assert await two.history(change.memory_id) == []
    assert (await one.stats())["bytes"] > 0
    await one.close()
    await two.close()


# ---------------------------------------------------------------------- text
TEXT = st.text(st.sampled_from(["\x00", "\x1a", "0", "1", "a", "ß"]))


@given(TEXT, TEXT)
def test_escaped_text_has_no_nul_and_comes_back(one: str, two: str) -> None:
    assert "\x00" not in escape(one)
    assert unescape(escape(one)) == one
    assert (escape(one) == escape(two)) == (one == two)


@awaited
async def test_every_text_comes_back_and_is_found(place: Place) -> None:
    async with place.opened() as ledger:
        odd = "a\x00b\x1ac\x1a0\x1a1\x00"
        whole = episode(odd, id=odd, name="\x00", message_id="\x1a")
        assert await ledger.insert_episodes([whole, episode(id="a\x1a0b")]) == 2
        assert await ledger.get_episodes([odd]) == [whole]
        await ledger.cache(odd, USER, odd)
        assert await ledger.cached(odd, USER) == odd
        change = add(odd, metadata={odd: odd})
        await settle(ledger, change)
        assert (await ledger.history(change.memory_id))[0].new_value == odd
        assert await ledger.event(change.id) == change
        assert await ledger.check() == []


@awaited
async def test_an_id_that_no_index_can_hold_changes_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        long = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(6000))
        with pytest.raises(InvalidInputError, match="2,700 bytes"):
            await ledger.insert_episodes([episode(id="e"), episode(id=long)])
        assert await ledger.get_episodes(["e"]) == []


# ---------------------------------------------------------------------- transactions
@awaited
async def test_acknowledged_writes_are_flushed_and_marks_are_not(place: Place) -> None:
    async with place.opened() as ledger:
        seen: list[str] = []

        @event.listens_for(ledger._database._engine, "commit")
        def note(connection) -> None:
            cursor = connection.connection.driver_connection.execute("SHOW synchronous_commit")
            seen.append(cursor.fetchone()[0])

        await ledger.write([entry(add(), "b")])
        assert seen == ["on"]
        await ledger.applied("b")
        assert seen == ["on", "off"]
        await ledger.erase(["m"], [])
        assert seen[-1] == "on"


@awaited
async def test_a_machine_that_vanished_is_noticed_by_the_server(place: Place) -> None:
    """Without these a server looks after a silent connection every two hours, and keeps its locks so long."""
    async with place.opened() as ledger:
        connection = ledger._database.owners._claim.connection
        wanted = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3",
                  "idle_session_timeout": "0"}  # fmt: skip
        assert {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in wanted} == wanted


@awaited
async def test_a_reader_sees_one_state_and_may_not_write(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="before")])
        count = text("SELECT count(*) FROM episodes")
        with ledger._database.reading() as connection:
            assert connection.execute(count).scalar_one() == 1
            await ledger.insert_episodes([episode(id="meanwhile")])
            assert connection.execute(count).scalar_one() == 1
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.connection.driver_connection.execute("DELETE FROM episodes")
        assert (await ledger.stats())["episodes"] == 2


@awaited
async def test_the_servers_own_defaults_change_nothing(server: Server) -> None:
    server.run("CREATE DATABASE strict")
    for default in ("default_transaction_isolation = 'serializable'", "synchronous_commit = 'off'"):
        server.run(f"ALTER DATABASE strict SET {default}")
    ledgers = [make(server, "s", server.url("strict")) for _ in range(3)]
    for ledger in ledgers:
        await ledger.open()

    async def several(ledger: PostgresLedger) -> None:
        for number in range(10):
            await settle(ledger, add(f"text {number}"))

    await asyncio.gather(*(several(ledger) for ledger in ledgers for _ in range(2)))
    assert [record.sequence for record in await ledgers[0].events_of_scope(USER)] == list(range(1, 61))
    for ledger in ledgers:
        await ledger.close()


@awaited
async def test_a_writer_that_waits_too_long_changes_nothing(server: Server, tmp_path: Path) -> None:
    schema = "patience"
    ledger, other = make(server, schema, lock_timeout=0.3), make(server, schema)
    await ledger.open()
    await other.open()
    change = add()
    with psycopg.connect(server.url()) as blocker:
        # As another process of the same ledger does, in the middle of a write.
        blocker.execute("SELECT pg_advisory_xact_lock(%s)", [ledger._database._writers])
        with pytest.raises(
            LedgerLockedError, match=r"locked by another writer for more than 0\.3 s; nothing was changed"
        ):
            await ledger.write([entry(change, "b")], [episode(id="e")])
        with pytest.raises(LedgerError, match="locked"):
            async with ledger.lock(USER):
                pass
        assert await ledger.history(change.memory_id) == [], "readers do not wait"
        waiting = asyncio.create_task(other.write([entry(change, "c")]))
        await asyncio.sleep(0.1)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 20)
    assert (await ledger.stats())["written"] == 1
    await ledger.close()
    await other.close()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("disk_full", "the server's disk is full; nothing was changed"),
        ("out_of_memory", "out of memory; nothing was changed"),
        ("read_only_sql_transaction", "name the primary server"),
        ("data_corrupted", "is damaged"),
        ("raise_exception", r"failed: RaiseException \(P0001\); nothing was changed"),
    ],
)
@awaited
async def test_a_server_that_refuses_is_told_without_what_was_stored(
    server: Server, place: Place, state: str, message: str
) -> None:
    async with place.opened() as ledger:
        schema = schema_of(ledger)
        server.run(
            f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION 'no: %', NEW.content USING ERRCODE = '{state}', DETAIL = NEW.content; END $$"
        )
        server.run(f"CREATE TRIGGER refuse BEFORE INSERT ON {schema}.episodes FOR EACH ROW EXECUTE FUNCTION "
                   f"{schema}.refuse()")  # fmt: skip
        change, said = add(), episode(f"My PIN is {1234 + 4321}")
        with pytest.raises(LedgerError, match=message) as caught:
            await ledger.write([entry(change, "b")], [said])
        assert "5555" not in "".join(traceback.format_exception(caught.value))
        assert (await ledger.stats())["written"] == 0
        server.run(f"DROP TRIGGER refuse ON {schema}.episodes")
        await ledger.write([entry(change, "b")], [said])


@awaited
async def test_a_scope_is_found_by_an_index(place: Place) -> None:
    async with place.opened() as ledger:
        with ledger._database.reading() as connection:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            for name, table in (("history", "memory_history"), ("episodes", "episodes")):
                for axis in ("user_id", "agent_id", "run_id", "project_id", "team_id", "room_id", "world_id"):
                    plan = connection.exec_driver_sql(f"EXPLAIN SELECT * FROM {table} WHERE {axis} = 'x'").scalars()
                    assert f"idx_{name}_{axis}" in "\n".join(plan)
