"""What the PostgreSQL ledger's tables are, what is found wrong with them, and what bytes erasing leaves in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex

from perdure.backends.ledgers.base import Remembered
from perdure.backends.ledgers.postgres.store import PostgresLedger
from perdure.backends.ledgers.sql import tables
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.errors import LedgerError
from tests.contracts.ledgers.ledger_postgres import Server, new_server, postgres_server  # noqa: F401 - a fixture
from tests.contracts.ledgers.ledger_versions import back, up
from tests.contracts.ledgers.ledger_worker import USER, add, awaited, entry, episode, remove, settle, update

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def server(postgres_server: Server) -> Server:  # noqa: F811
    return postgres_server


def make(server: Server, schema: str, url: str | None = None, **settings: object) -> PostgresLedger:
    return PostgresLedger(PostgresLedger.Settings(url=url or server.url(), schema_name=schema, **settings))


# ---------------------------------------------------------------------- tables
def shape(server: Server, schema: str) -> list[tuple]:
    columns = server.run(
        "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default "
        "FROM information_schema.columns WHERE table_schema = %s ORDER BY 1, 3",
        schema,
    )
    # A perdure with Alembic named the key of that table in another way.
    indexes = server.run(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = %s AND tablename <> 'alembic_version' ORDER BY 1", schema
    )
    return [*columns, *((line.replace(f"{schema}.", ""),) for (line,) in indexes)]


def migrate(ledger: PostgresLedger, way: Callable[[Connection, str], None], version: str) -> None:
    with ledger._database.writing(durable=True) as connection:
        way(connection, version)


@awaited
async def test_the_migrations_make_what_the_tables_say(server: Server) -> None:
    made, migrated = make(server, "made"), make(server, "migrated")
    await made.open()
    migrated._database.open()
    migrate(migrated, up, HEAD)
    assert shape(server, "migrated") == shape(server, "made")
    migrated._database.close()
    await migrated.open()
    await settle(migrated, add())
    await migrated.close()
    migrated._database.open()
    migrate(migrated, back, "base")
    migrated._database.close()
    await migrated.open()
    assert shape(server, "migrated") == shape(server, "made"), "upgraded on opening"
    await settle(migrated, add())
    for ledger in (made, migrated):
        await ledger.close()


@awaited
async def test_tables_of_others_and_of_a_newer_perdure_are_left_alone(server: Server) -> None:
    server.run("CREATE SCHEMA foreign_one")
    server.run("CREATE TABLE foreign_one.memory_history (id text)")
    with pytest.raises(LedgerError, match="did not make"):
        await make(server, "foreign_one").open()
    ledger = make(server, "newer")
    await ledger.open()
    await ledger.close()
    server.run("UPDATE newer.alembic_version SET version_num = '9999'")
    with pytest.raises(LedgerError, match=r"'9999'.*a newer perdure"):
        await ledger.open()


# ---------------------------------------------------------------------- bytes
def bytes_of(server: Server) -> bytes:
    server.run("CHECKPOINT")
    return b"".join(file.read_bytes() for file in sorted((server.data / "base").rglob("*")) if file.is_file())


async def fill(ledger: PostgresLedger, secret: str) -> list[str]:
    """Write a secret into every place of the ledger; the ids of the memories and of the episodes."""
    ids = []
    for number in range(12):
        # Long enough for every way of keeping a value: in the row, and aside.
        words = f"{secret} {number} " + "".join(
            chr(0x4E00 + (number * 977 + n * 7919) % 20_000) for n in range(number * 300)
        )
        first = add(words)
        second = update(first, f"{words} changed")
        await ledger.write([entry(first, f"b{number}")], [episode(words, id=f"e{number}")],
                           Remembered(f"k{number}", USER, words))  # fmt: skip
        await ledger.applied(f"b{number}")
        await settle(ledger, second, remove(second))
        await ledger.cache(f"k{number}", USER, words)
        ids += [first.memory_id, f"e{number}"]
    return ids


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = new_server()
    yield server
    server.remove()


@pytest.mark.covers("U4")
@awaited
async def test_erased_text_is_in_no_byte_of_tables_indexes_and_statistics(own_server: Server) -> None:
    secret = "xylophone-secret-7731"
    ledger = make(own_server, "erasing")
    await ledger.open()
    ids = await fill(ledger, secret)
    await settle(ledger, add("innocent words"))
    own_server.run("ANALYZE")
    assert secret.encode() in bytes_of(own_server)
    assert own_server.run("SELECT count(*) FROM pg_stats WHERE most_common_vals::text || histogram_bounds::text "
                          "LIKE %s", f"%{secret}%") == [(0,)]  # fmt: skip

    # While somebody reads an older state, the rows are kept for them.
    with psycopg.connect(own_server.url()) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")
        await ledger.erase(ids, ids, USER)
        assert not await ledger.scrub()
        assert secret.encode() in bytes_of(own_server)
    # The next to close finishes what was put off.
    await ledger.close()
    assert secret.encode() not in bytes_of(own_server)
    assert b"innocent words" in bytes_of(own_server)
    await ledger.open()
    assert (await ledger.stats())["erased"] == 36
    assert await ledger.check() == []
    await ledger.close()


@awaited
async def test_check_finds_what_is_damaged(own_server: Server) -> None:
    ledger = make(own_server, "damaged")
    await ledger.open()
    await settle(ledger, *(add(f"text {n}" * 50) for n in range(60)))
    assert await ledger.check() == []
    own_server.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'damaged.idx_episodes_told_at'::regclass")
    assert await ledger.check() == [
        "PostgreSQL finds the index idx_episodes_told_at of the ledger unfinished: rebuild it (REINDEX)"
    ]
    own_server.run("UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'damaged.idx_episodes_told_at'::regclass")
    ((file,),) = own_server.run("SELECT pg_relation_filepath('damaged.memory_history')")
    await ledger.close()
    own_server.stop()
    path = own_server.data / file
    data = bytearray(path.read_bytes())
    data[4000:4200] = b"\xff" * 200
    path.write_bytes(data)
    own_server.start()
    await ledger.open()
    assert await ledger.check() == [
        "PostgreSQL finds the ledger's table memory_history damaged: restore a copy of the database"
    ]
    await ledger.close()


def test_each_index_over_some_rows_has_its_condition_in_both_dialects() -> None:
    """A condition for PostgreSQL is given only there: SQLAlchemy imports its dialect for it."""
    tables.for_postgresql()
    for table in tables.metadata.tables.values():
        for index in table.indexes:
            made = [str(CreateIndex(index).compile(dialect=each.dialect())) for each in (postgresql, sqlite)]
            conditions = {text.partition(" WHERE ")[2] for text in made}
            assert len(conditions) == 1, made
