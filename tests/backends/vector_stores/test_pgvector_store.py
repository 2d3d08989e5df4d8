"""The pgvector store beyond the contract: its SQL, its tables and indexes, names, odd text, scrubbing."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.vector_stores.common.filter_clauses import narrow
from perdure.backends.vector_stores.pgvector.sql import GRAMMAR, escape, key_text, payload_json, unescape
from perdure.backends.vector_stores.pgvector.store import PgVectorStore
from perdure.domain.errors import ConfigError, VectorStoreError
from perdure.domain.filter import Condition, eq, parse_filter
from tests.backends.vector_stores.pgvector_stores import DIMENSION, Sent, awaited, make, opened, point, query
from tests.contracts.ledgers.ledger_postgres import Server
from tests.contracts.stores.pgvector import server as shared_server


@pytest.fixture(scope="module")
def server() -> Server:
    return shared_server()


def ids(found: Any) -> list[str]:
    return [each.id for each in getattr(found, "points", found)]


# ------------------------------------------------------------------ filters
MARCH = 1_772_323_200_000_000.0

SQL: dict[str, tuple[dict[str, Any], str, tuple[object, ...], bool]] = {
    "spec": ({"user_id": "alice"}, "payload->>'user_id' = %s", ("alice",), True),
    "some users": (
        {"field": "user_id", "operator": "in", "value": ["a", "b"]},
        "payload->>'user_id' = ANY(%s::text[])",
        (["a", "b"],),
        True,
    ),
    "not the user": ({"NOT": {"user_id": "a"}}, "(payload->>'user_id' = ANY(%s::text[])) IS NOT TRUE", (["a"],), True),
    "a moment": (
        {"field": "expires_at", "operator": "lte", "value": "2026-03-01"},
        "(moments->'expires_at')::float8 <= %s",
        (MARCH,),
        True,
    ),
    "a number": (
        {"field": "n", "operator": "gte", "value": 2},
        "(numbers->%s::text)::float8 >= %s",
        ("metadata.n", 2.0),
        True,
    ),
    "contains": (
        {"field": "memory", "operator": "contains", "value": "100%_\\"},
        "(jsonb_typeof(payload->'memory') = 'array' OR strpos(payload->>'memory', %s) > 0)",
        ("100%_\\",),
        False,
    ),
    "icontains": (
        {"field": "memory", "operator": "icontains", "value": "PyTHON"},
        "(jsonb_typeof(payload->'memory') = 'array' OR octet_length(payload->>'memory') <> char_length("
        "payload->>'memory') OR strpos(lower(payload->>'memory' COLLATE \"C\"), %s) > 0)",
        ("python",),
        False,
    ),
    "composed": (
        {"AND": [{"user_id": "alice"}, {"OR": [{"agent_id": "x"}, {"run_id": "y"}]}]},
        "(payload->>'user_id' = %s AND (payload->>'agent_id' = %s OR payload->>'run_id' = %s))",
        ("alice", "x", "y"),
        True,
    ),
}


@pytest.mark.parametrize("name", SQL)
def test_filters_become_sql(name: str) -> None:
    expression, sql, values, exact = SQL[name]
    narrowed = narrow(parse_filter(expression), GRAMMAR)
    assert narrowed.clause is not None
    assert (narrowed.clause.sql, narrowed.clause.values, narrowed.exact) == (sql, values, exact)


def test_no_value_is_ever_written_into_the_sql() -> None:
    nasty = "x' OR '1'='1"
    for field in ("user_id", "memory", "tag", f"metadata.{nasty}"):
        for operator in ("eq", "ne", "gt", "contains", "icontains"):
            clause = narrow(Condition(field, operator, nasty), GRAMMAR).clause
            assert clause is None or "OR '1'" not in clause.sql
    clause = narrow(Condition(f"metadata.{nasty}", "gt", 1), GRAMMAR).clause
    assert clause is not None
    assert clause.values == (f"metadata.{nasty}", pytest.approx(1.0))
    assert nasty not in clause.sql


@awaited
async def test_a_filter_that_sql_cannot_hold_is_finished_here(server: Server) -> None:
    async with opened(server, "finished") as store:
        await store.create_collection("c", DIMENSION)
        near = [point(f"n{n:03}", 1, n / 1e4, metadata={"tag": "other"}) for n in range(300)]
        far = [point(f"f{n}", -1, n / 10, metadata={"tag": "has needle in it"}) for n in range(7)]
        await store.insert_many("c", [*near, *far])
        needle = parse_filter({"user_id": "alice", "tag": {"contains": "needle"}})
        assert ids(await store.search("c", query(1), 5, needle)) == ["f6", "f5", "f4", "f3", "f2"]
        assert ids(await store.list("c", needle, 5)) == [f"f{n}" for n in range(5)]
        assert await store.count("c", needle) == 7
        folded = parse_filter({"memory": {"icontains": "STRASSE"}})
        await store.insert_many("c", [point("ß", 1, memory="Hauptstraße 1"), point("ss", 1, memory="hauptstrasse 1")])
        assert ids(await store.list("c", folded)) == ["ss", "ß"]


# ------------------------------------------------------------------ tables
@awaited
async def test_the_table_is_the_specs_and_its_scopes_are_indexed(server: Server, monkeypatch: Any) -> None:
    async with opened(server, "shape") as store:
        await store.create_collection("memories", DIMENSION)
        await store.insert_many("memories", [point(f"r{n}", 1, n, user_id=f"u{n % 200}") for n in range(2000)])
        columns = dict(
            server.run(
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                " WHERE attrelid = 'shape.memories'::regclass AND attnum > 0"
            )
        )
        assert columns["id"] == columns["created_at"] == "text"
        assert (columns["vector"], columns["payload"]) == (f"vector({DIMENSION})", "jsonb")
        assert server.run("SELECT payload->>'memory' FROM shape.memories WHERE id = 'r7'") == [("text of r7",)]
        server.run("ANALYZE shape.memories")
        sent = Sent(monkeypatch)
        assert len(await store.search("memories", query(1), 5, eq("user_id", "u3"))) == 5
        sql, values = sent.last("<#>")
        assert "payload->>'user_id' = %s" in sql
        assert values[1] == "u3"
        await store.list("memories", eq("user_id", "u3"), 5)
        plans = [plan_of(server, *sent.last("<#>")), plan_of(server, *sent.last("ORDER BY created_at"))]
        assert all(re.search(r"Index.* on memories_expr_created_at_idx", plan) for plan in plans), plans


def plan_of(server: Server, sql: str, values: tuple[object, ...], *settings: str) -> str:
    from pgvector.psycopg import register_vector

    with psycopg.connect(server.url()) as connection:
        register_vector(connection)
        for setting in settings:
            connection.execute(f"SET LOCAL {setting}")
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {sql}", values))


@awaited
async def test_a_scoped_search_never_goes_through_the_index_of_vectors(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(PgVectorStore, "few_rows", 100)
    async with opened(server, "near", hnsw=True) as store:
        await store.create_collection("c", DIMENSION)
        chance = random.Random(1)
        rows = [
            point(f"r{n}", *(chance.gauss(0, 1) for _ in range(DIMENSION)), user_id=f"u{n % 5}") for n in range(600)
        ]
        await store.insert_many("c", rows)
        sent = Sent(monkeypatch)
        await store.search("c", query(1), 5, eq("user_id", "u3"))
        eager = ("enable_seqscan = off", "enable_sort = off", "enable_bitmapscan = off", "enable_indexscan = on")
        assert "c_vector_idx" not in plan_of(server, *sent.last("<#>"), *eager)
        everything = await store.search("c", query(1), 5)
        assert "c_vector_idx" in plan_of(server, *sent.last("<#>"), *eager)
        best = sorted(rows, key=lambda row: -row.vector[0] / float((row.vector**2).sum() ** 0.5))
        assert ids(everything) == ids(best[:5])
        assert len(await store.search("c", query(1), 600)) == 600


@awaited
async def test_vectors_beyond_the_index_are_kept_and_searched(server: Server) -> None:
    async with opened(server, "wide", hnsw=True) as store:
        await store.create_collection("c", 3000)
        vector = [1.0] * 3000
        await store.insert("c", "a", vector, {"user_id": "alice"})
        (hit,) = await store.search("c", vector, 3)
        assert hit.score == pytest.approx(1, abs=1e-5)
        with pytest.raises(ConfigError, match="16000"):
            await store.create_collection("wider", 16_001)
        assert await store.list_collections() == ["c"]


@awaited
async def test_names_of_every_kind_and_tables_of_others(server: Server) -> None:
    async with opened(server, "names") as store:
        server.run('CREATE TABLE names."theirs" (id int)')
        names = [
            "Memories",
            "memories",
            "a.b",
            "a_b",
            "a b",
            'x"; DROP TABLE perdure_store; --',
            "perdure_store",
            "ü" * 80,
        ]
        names += ["perdure_collections", "nul\x00", "lone \ud800", "pg_class", "%s", "", "-"]
        for number, name in enumerate(names):
            await store.create_collection(name, DIMENSION, model=f"m{number}")
            await store.insert(name, "a", query(1), {"n": number})
        other = make(server, "names")
        await other.open()
        assert await other.list_collections() == sorted(names)
        for number, name in enumerate(names):
            assert (await other.get(name, "a")).payload == {"n": number}
            assert (await other.get_collection_info(name)).model == f"m{number}"
            await other.delete_collection(name)
        with pytest.raises(ConfigError, match="not perdure's"):
            await store.create_collection("theirs", DIMENSION)
        await store.delete_collection("theirs")
        with pytest.raises(VectorStoreError, match="theirs"):
            await store.count("theirs")
        assert server.run("SELECT count(*) FROM names.theirs") == [(0,)]
        assert await store.list_collections() == []
        assert await store.identity() == await other.identity()
        await other.close()


@awaited
async def test_a_table_that_was_dropped_by_hand_can_be_made_again(server: Server) -> None:
    async with opened(server, "by_hand") as store:
        await store.create_collection("c", DIMENSION)
        server.run("DROP TABLE by_hand.c")
        with pytest.raises(VectorStoreError, match="create it first"):
            await store.count("c")
        await store.create_collection("c", DIMENSION + 1)
        assert (await store.get_collection_info("c")).dimension == DIMENSION + 1
        server.run("DROP SCHEMA by_hand CASCADE")
        with pytest.raises(VectorStoreError, match="open it again"):
            await store.list_collections()


# ------------------------------------------------------------------ text
characters = st.text(st.sampled_from("\x00\x01\x02\x03ab\ud7ff\ud800\udfff\ue000\ue001\u2000\uffff\U0001f600"))


@given(one=characters, two=characters)
def test_escaped_text_is_whole_and_in_order(one: str, two: str) -> None:
    assert unescape(escape(one)) == one
    assert "\x00" not in escape(one).encode().decode()
    assert (one < two) == (escape(one).encode() < escape(two).encode())
    assert (key_text(one * 400) == key_text(two * 400)) == (one == two)
    assert len(key_text(one * 400).encode()) <= 1000


def test_the_payload_stays_itself_where_jsonb_can_hold_it() -> None:
    def shown(payload: str) -> str:
        return payload_json(f'["id",{payload},2]')

    assert shown('{"user_id":"ü😀","n":1e-300,"m":1.0,"x":[null,true,"\\\\u0000"]}') == (
        '{"user_id":"ü😀","n":1e-300,"m":1.0,"x":[null,true,"\\\\u0000"]}'
    )
    assert shown('{"memory":"a\\u0000b \\ud800","k\\u0000":1,"k␀":2}') == '{"memory":"a␀b �","k␀":2}'
    assert shown('{"user_id":"a\\u0000","agent_id":"b"}') == '{"agent_id":"b"}'


@awaited
async def test_a_scope_that_jsonb_cannot_hold_is_nobody_elses(server: Server) -> None:
    async with opened(server, "odd") as store:
        await store.create_collection("c", DIMENSION)
        chance = random.Random(2)
        long = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=50_000))
        users = ["a", "a\x00", "a␀", "a\ud800", "a�", "a?", "北" * 1024, long, long + "x"]
        await store.insert_many("c", [point(f"r{n}", 1, n, user_id=user) for n, user in enumerate(users)])
        for number, user in enumerate(users):
            assert ids(await store.search("c", query(1), 9, eq("user_id", user))) == [f"r{number}"]
            assert await store.count("c", eq("user_id", user)) == 1
            assert await store.count("c", Condition("user_id", "ne", user)) == len(users) - 1
            assert await store.count("c", Condition("user_id", "in", ("a", user))) == (2 if number else 1)


@awaited
async def test_ids_times_and_words_longer_than_an_index_takes(server: Server) -> None:
    async with opened(server, "long") as store:
        await store.create_collection("c", DIMENSION)
        chance = random.Random(3)
        long = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=9000))
        names = [f"{n}{long}" for n in range(3)] + [f"{long}{n}" for n in range(2)]
        rows = [point(name, 1, n, created_at=f"2026{long}", memory=f"{long} {name}") for n, name in enumerate(names)]
        await store.insert_many("c", rows)
        assert {id: (await store.get("c", id)).payload for id in names} == {row.id: row.payload for row in rows}
        first = await store.list("c", None, 3)
        rest = await store.list("c", None, 3, first.next_cursor)
        assert sorted(ids(first) + ids(rest)) == sorted(names)
        assert len(await store.keyword_search("c", long, 9)) == 5
        assert ids(await store.keyword_search("c", names[1], 9)) == [names[1]]
        asked = " ".join(f"word{n}" for n in range(5000))
        assert ids(await store.keyword_search("c", f"{asked} {names[2]}", 9)) == [names[2]]
        await store.delete("c", names[0])
        assert await store.count("c") == 4


# ------------------------------------------------------------------ scrubbing
def files_with(server: Server, word: bytes) -> list[str]:
    server.run("CHECKPOINT")
    return [file.name for file in Path(server.data / "base").rglob("*") if file.is_file() and word in file.read_bytes()]


@awaited
async def test_a_scrub_takes_deleted_text_out_of_the_servers_tables(server: Server) -> None:
    async with opened(server, "scrubbed") as store:
        await store.create_collection("c", DIMENSION)
        rows = [point(f"r{n}", 1, n, memory=f"quetzalcoatl {n}", user_id="xiuhtecuhtli") for n in range(50)]
        await store.insert_many("c", [*rows, point("kept", 1)])
        server.run("ANALYZE scrubbed.c")
        await store.apply("c", [], ids(rows))
        assert files_with(server, b"quetzalcoatl")
        assert await store.scrub()
        assert files_with(server, b"quetzalcoatl") == []
        assert "xiuhtecuhtli" not in str(server.run("SELECT * FROM pg_stats WHERE schemaname = 'scrubbed'"))
        assert ids(await store.list("c")) == ["kept"]


@awaited
async def test_a_scrub_that_others_keep_from_happening_is_done_at_a_close(server: Server) -> None:
    async with opened(server, "put_off") as store:
        await store.create_collection("c", DIMENSION)
        await store.insert("c", "a", query(1), {"memory": "tlaltecuhtli"})
        with psycopg.connect(server.url()) as reader:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.execute("SELECT 1 FROM put_off.c")
            await store.delete("c", "a")
            assert not await store.scrub()
            reader.rollback()
        assert files_with(server, b"tlaltecuhtli")
        other = make(server, "put_off")
        await other.open()
        await other.close()
        assert files_with(server, b"tlaltecuhtli") == []
        assert server.run("SELECT scrub_due FROM put_off.perdure_store") == [(False,)]


@awaited
async def test_check_tells_of_an_index_that_is_not_whole(server: Server) -> None:
    async with opened(server, "checked") as store:
        await store.create_collection("c", DIMENSION)
        server.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'checked.c_words_idx'::regclass")
        (told,) = await store.check("c")
        assert "c_words_idx" in told
        with pytest.raises(VectorStoreError, match="nowhere"):
            await store.check("nowhere")


@awaited
async def test_batches_with_rows_in_common_happen_one_after_the_other(server: Server) -> None:
    stores = [make(server, "crossed") for _ in range(2)]
    for store in stores:
        await store.open()
        await store.create_collection("c", DIMENSION)
    names = [f"r{n}" for n in range(30)]

    async def write(store: Any, order: list[str]) -> None:
        for turn in range(10):
            await store.apply("c", [point(id, 1, turn) for id in order[:20]], order[20:])

    await asyncio.gather(write(stores[0], names), write(stores[1], names[::-1]))
    assert await stores[0].count("c") == 20
    for store in stores:
        await store.close()
