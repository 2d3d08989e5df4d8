"""The Redis store beside its contract: what it asks the server, and what it leaves there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from perdure.backends.vector_stores.base import CollectionInfo
from perdure.backends.vector_stores.common.filter_clauses import narrow, token
from perdure.backends.vector_stores.redis import collections as _redis_collections
from perdure.backends.vector_stores.redis import rows
from perdure.backends.vector_stores.redis.rows import GRAMMAR, to_plan, to_query
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import Condition, Moment, all_of, eq, matches, parse_filter
from tests.backends.vector_stores.redis_stores import (  # noqa: F401 - fixtures
    MODES,
    Open,
    keys,
    opening_stores,
    own_loop,
    plain_client,
    starting_servers,
)
from tests.contracts.conftest import DIMENSION, ids, moment, row, vector
from tests.contracts.stores import redis as shared
from tests.engines.redis import Server

# ------------------------------------------------------------------ what is asked

LIVE = all_of(eq("user_id", "alice"), Condition("expires_at", "gt", Moment(moment(0))))


@pytest.mark.parametrize(
    ("expression", "query"),
    [
        ({"user_id": "alice"}, "@user_id:{alice}"),
        ({"user_id": "a.b@c-d"}, r"@user_id:{a\.b\@c\-d}"),
        ({"field": "user_id", "operator": "ne", "value": "alice"}, "-@user_id:{alice}"),
        ({"field": "run_id", "operator": "in", "value": ["r1", "r2"]}, "@run_id:{r1|r2}"),
        ({"tag": "work"}, f"@tokens:{{{token('metadata.tag', 'work')}}}"),
        ({"NOT": {"tag": "work"}}, f"-@tokens:{{{token('metadata.tag', 'work')}}}"),
        (
            {"OR": [{"user_id": "alice"}, {"n": 1}]},
            f"((@user_id:{{alice}}) | (@tokens:{{{token('metadata.n', 1)}}}))",
        ),
        (
            {"AND": [{"user_id": "alice"}, {"agent_id": "bot"}]},
            "((@user_id:{alice}) (@agent_id:{bot}))",
        ),
        (LIVE, "((@user_id:{alice}) (@expires_at:[1767225600000001 inf]))"),
        ({"field": "memory", "operator": "contains", "value": "x"}, "*"),
        ({}, "*"),
    ],
    ids=str,
)
def test_filters_in_the_language_of_the_search_module(expression: Any, query: str) -> None:
    assert to_query(narrow(parse_filter(expression), GRAMMAR).clause) == query


def test_filters_as_plans_over_sets() -> None:
    narrowed = narrow(LIVE, GRAMMAR)
    assert narrowed.exact
    assert to_plan(narrowed.clause) == [
        "and",
        [["any", ["user_id=alice"]], ["within", "expires_at", "1767225600000001", "inf"]],
    ]


@pytest.mark.parametrize("text", ["*", "a|b", "a,b", "x} @user_id:{y", " alice ", "alice\x00", "", "ü", "a" * 5000])
def test_no_value_is_syntax(text: str) -> None:
    for expression in ({"user_id": text}, {"tag": text}, {"field": "user_id", "operator": "ne", "value": text}):
        query = to_query(narrow(parse_filter(expression), GRAMMAR).clause)
        assert set(query) <= set("-@tokens:{}0123456789abcdef"), query


def test_the_index_has_users_vectors_and_times(open_store: Open, client: redis.Redis, tmp_path: Path) -> None:
    """The walls between users are an index of their own."""
    store = open_store(mode="search")
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a", expires_at=moment(5)), row("b", user_id="x} | *"), row("c", user_id="1+a.b@c-d_e")])
    name = f"{shared.settings('search', tmp_path)['prefix']}:1"
    attributes: Any = client.execute_command("FT.INFO", name)
    found = {field[b"attribute"]: field for field in attributes[b"attributes"]}
    assert found[b"user_id"][b"type"] == found[b"tokens"][b"type"] == b"TAG"
    assert found[b"expires_at"][b"type"] == b"NUMERIC"
    assert found[b"vector"][b"algorithm"] == b"FLAT"
    answer: Any = client.execute_command("FT.SEARCH", name, "@user_id:{alice}", "NOCONTENT", "DIALECT", 2)
    assert [each[b"id"] for each in answer[b"results"]] == [f"{name}:row:a".encode()]
    assert ids(store.list("c", eq("user_id", "x} | *"))) == ["b"]
    assert ids(store.search("c", vector(1), 5, eq("user_id", "1+a.b@c-d_e"))) == ["c"]
    assert store.count("c", Condition("user_id", "nin", ("1+a.b@c-d_e", "alice"))) == 1


def test_without_the_search_module_each_user_has_a_set(open_store: Open, client: redis.Redis, tmp_path: Path) -> None:
    store = open_store(mode="vectorset")
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a"), row("b", None), row("c", user_id="bob")])
    base = f"{shared.settings('vectorset', tmp_path)['prefix']}:1"
    assert client.smembers(f"{base}:has:user_id=alice") == {b"a", b"b"}
    assert client.execute_command("VCARD", f"{base}:vectors") == 2
    store.apply("c", [row("b", None, user_id="bob")], ["a", "c"])
    assert client.exists(f"{base}:has:user_id=alice") == 0
    assert client.exists(f"{base}:vectors") == 0


@pytest.mark.parametrize("mode", MODES)
def test_what_redis_cannot_tell_is_finished_without_losing_rows(open_store: Open, mode: str) -> None:
    store = open_store(mode=mode)
    store.create_collection("c", DIMENSION)
    points = [row(f"{n:03}", [1, n], memory="zebra" if n >= 290 else "horse") for n in range(300)]
    store.apply("c", points)
    rare = all_of(eq("user_id", "alice"), Condition("memory", "contains", "zeb"))
    assert ids(store.search("c", vector(1), 5, rare)) == ["290", "291", "292", "293", "294"]
    assert store.count("c", rare) == 10
    assert ids(store.list("c", rare, 3)) == ["290", "291", "292"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("few", [0, 20])
def test_large_scopes_and_long_answers_are_read_whole(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, mode: str, few: int
) -> None:
    monkeypatch.setattr(rows, "PAGE", 7)
    monkeypatch.setattr(rows, "FEW", few)
    store = open_store(mode=mode)
    store.create_collection("c", DIMENSION)
    random = np.random.default_rng(7)
    points = [
        row(
            f"{n:03}",
            random.normal(size=DIMENSION).tolist() if n % 9 else None,
            user_id=("alice", "bob")[n % 50 == 3],
            created_at=moment(n // 4),
            metadata={"n": n % 3},
        )
        for n in range(200)
    ]
    store.apply("c", points)
    for expression in (
        None,
        {"user_id": "alice"},
        {"user_id": "bob"},
        {"NOT": {"user_id": "alice"}},
        {"OR": [{"user_id": "bob"}, {"n": 1}]},
        {"OR": [{"NOT": {"n": 1}}, {"AND": [{"user_id": "bob"}, {"n": 1}]}]},
        {"AND": [{"OR": [{"n": 1}, {"n": 2}]}, {"field": "created_at", "operator": "lt", "value": moment(20)}]},
        {
            "AND": [
                {"field": "n", "operator": "in", "value": [0, 2]},
                {"NOT": {"field": "n", "operator": "gt", "value": 1}},
            ]
        },
    ):
        one = parse_filter(expression)
        expected = [point for point in points if matches(one, point.payload)]
        assert len(expected) > 0
        assert ids(store.list("c", one)) == ids(expected)
        assert ids(store.list("c", one, 5)) == ids(expected)[:5]
        assert store.count("c", one) == len(expected)
        embedded = [point for point in expected if point.vector is not None]
        scores = {p.id: float(p.vector @ vector(1)) / float(np.linalg.norm(p.vector)) for p in embedded}
        best = sorted(scores, key=lambda id: (-scores[id], id))
        assert ids(store.search("c", vector(1), 4, one)) == best[:4]
        assert ids(store.search("c", vector(1), 500, one)) == best
    assert len(store.unembedded("c", 99)) == 23


# ------------------------------------------------------------------ collections


@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_a_collection_is_left_behind(
    open_store: Open, client: redis.Redis, tmp_path: Path, mode: str
) -> None:
    store = open_store(mode=mode)
    for name in ("memories", "Memories", "memories-row"):
        store.create_collection(name, DIMENSION, model=f"model:of {name}")
        store.apply(name, [row("a"), row(":row:a", None)])
    store.delete_collection("Memories")
    assert store.list_collections() == ["memories", "memories-row"]
    assert store.get_collection_info("memories") == CollectionInfo("memories", 2, DIMENSION, "model:of memories")
    store.reset()
    assert [store.count(name) for name in store.list_collections()] == [0, 0]
    for name in store.list_collections():
        store.delete_collection(name)
    assert keys(client, tmp_path) == ["last"]
    prefix = shared.settings(mode, tmp_path)["prefix"].encode()
    left: Any = client.execute_command("FT._LIST")
    assert [name for name in left if name.startswith(prefix)] == []


@pytest.mark.parametrize("mode", MODES)
def test_what_a_killed_process_did_not_delete_is_deleted_by_the_next(
    open_store: Open, client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    store = open_store(mode=mode)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a"), row("b")])
    with monkeypatch.context() as killed:
        killed.setattr(_redis_collections.Collections, "_clean", lambda self, number, mode: None)
        store.reset()
    assert any(key.startswith("1:row:") for key in keys(client, tmp_path))
    assert store.count("c") == 0
    open_store(mode=mode)
    assert keys(client, tmp_path) == ["collections", "last"]


def test_another_process_may_make_a_collection_anew_in_another_way(open_store: Open) -> None:
    one, two = open_store(mode="search"), open_store(mode="vectorset")
    one.create_collection("c", DIMENSION)
    one.apply("c", [row("a")])
    assert ids(two.search("c", vector(1), 5)) == ["a"]
    two.delete_collection("c")
    two.create_collection("c", DIMENSION)
    two.apply("c", [row("b"), row("c", user_id="bob")])
    for store in (one, two):
        assert ids(store.search("c", vector(1), 5, eq("user_id", "alice"))) == ["b"]
        assert ids(store.list("c")) == ["b", "c"]
    one.apply("c", [row("d")])
    assert two.count("c") == 3
    two.delete_collection("c")
    two.create_collection("c", 2)
    with pytest.raises(VectorStoreError):
        one.apply("c", [row("e")])
    assert two.count("c") == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_collection_that_is_emptied_while_it_is_read_says_so(
    open_store: Open, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """What was read is a part, and must not pass for the whole."""
    monkeypatch.setattr(rows, "PAGE", 2)
    store = open_store(mode=mode)
    store.create_collection("c", DIMENSION)
    store.apply("c", [row(str(n)) for n in range(6)])

    async def read() -> None:
        pages = store.store.stream("c")
        assert ids(await anext(pages)) == ["0", "1"]
        await store.store.reset()
        with pytest.raises(VectorStoreError, match="while it was read"):
            await anext(pages)

    loop.run_until_complete(read())
    assert store.count("c") == 0


def test_two_prefixes_share_a_server_unseen(open_store: Open) -> None:
    one, two = open_store(), open_store(prefix="another.one")
    assert one.identity() != two.identity()
    one.create_collection("c", DIMENSION)
    assert two.list_collections() == []


@pytest.mark.parametrize(
    ("known", "database", "wanted", "mode"),
    [
        ([1, 1], 0, "auto", "search"),
        ([None, 1], 0, "auto", "vectorset"),
        ([1, 1], 0, "vectorset", "vectorset"),
        ([1, 1], 3, "auto", "vectorset"),
        ([None, None], 0, "auto", None),
        ([1, None], 3, "auto", None),
        ([None, 1], 0, "search", None),
        ([1, 1], 3, "search", None),
    ],
)
def test_the_mode_is_what_the_server_can_do(known: list[Any], database: int, wanted: Any, mode: str | None) -> None:
    client = redis.Redis(db=database)
    collections = _redis_collections.Collections(client, "p")
    client.execute_command = lambda *command: known  # type: ignore[method-assign]  # a server of that age
    if mode is not None:
        assert collections.best_mode(wanted) == mode
    else:
        with pytest.raises(VectorStoreError, match="there is no (FT.SEARCH|VSIM)"):
            collections.best_mode(wanted)


def test_a_server_without_the_search_module_keeps_vector_sets(start: Callable[..., Server], open_store: Open) -> None:
    store = open_store(url=start(search=False).url())
    store.create_collection("c", DIMENSION)
    store.apply("c", [row("a")])
    assert ids(store.search("c", vector(1), 5)) == ["a"]
    store.reset()
    assert store.count("c") == 0
    with pytest.raises(VectorStoreError, match="FT.SEARCH"):
        open_store(url=store.store.settings.url.get_secret_value(), mode="search").create_collection("d", DIMENSION)
