"""Walls between scopes, and rows of a batch, under arbitrary filters and values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import MemoryItem, Message, Scope
from perdure.backends.vector_stores.base import Vector
from perdure.domain.filter import matches, parse_filter
from perdure.domain.memory import Slots
from perdure.engine.build import build
from perdure.engine.config.config import read_config
from perdure.engine.core.access import visible
from perdure.engine.requests import Query
from perdure.engine.write.change_set import FreshRows, cosine
from perdure.frontends.library.portal import PORTAL

HASHED = {"provider": "hashed"}

values = st.sampled_from(["a", "b", "*", "%", "A", " a", "2026-01-01", "2026-01-01T00:00:00Z"])
scopes = st.builds(Scope, user_id=st.none() | values, agent_id=st.none() | values, run_id=st.none() | values).filter(
    lambda scope: bool(scope.given())
)
NAMES = [
    "user_id", "agent_id", "run_id", "metadata.user_id", "state", "kind", "id", "memory", "tag",
    "told_at", "valid_to", "version_of", "expires_at",
]  # fmt: skip


def conditions() -> st.SearchStrategy[Any]:
    times = st.sampled_from(["2020-01-01", "2099-01-01"])

    def operand(name: str) -> st.SearchStrategy[Any]:
        return times if name.endswith("_at") or name == "valid_to" else values | st.sampled_from(["live", "version"])

    def one(name: str) -> st.SearchStrategy[Any]:
        operators = st.sampled_from(["eq", "ne", "lt", "gte"])
        return st.builds(lambda op, value: {"field": name, "operator": op, "value": value}, operators, operand(name))

    return st.sampled_from(NAMES).flatmap(one)


def joined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    return (
        st.builds(lambda parts: {"OR": parts}, some)
        | st.builds(lambda parts: {"AND": parts}, some)
        | st.builds(lambda part: {"NOT": part}, inner)
        | st.builds(lambda parts: {"NOT": parts}, some)
    )


expressions = st.recursive(conditions(), joined, max_leaves=6)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    config = {"path": str(tmp_path_factory.mktemp("walls")), "embedder": HASHED}
    made = build(read_config(config))
    yield made
    PORTAL.call(made.close())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(homes=st.lists(scopes, min_size=1, max_size=6), view=scopes, expression=st.none() | expressions)
def test_visible_is_what_stands_behind_the_same_walls(
    engine: Any, homes: list[Scope], view: Scope, expression: Any
) -> None:
    """Visible if and only if every value given equals the item's own; a filter takes away, and never adds."""

    async def main() -> None:
        await engine.reset()
        for number, home in enumerate(homes):
            addition = engine_addition(f"note {number}", home)
            id = (await engine.write.add(addition)).results[0].id
            await engine.revise.update(id, f"note {number} changed", {})
        behind = {
            f"note {number} changed"
            for number, home in enumerate(homes)
            if all(getattr(home, name) == value for name, value in view.given().items())
        }
        listed = await engine.read.get_all(view, limit=100, filters=None, cursor=None, as_of=None, include_past=True)
        assert {item.memory for item in listed.results} == behind
        tree = parse_filter(expression)
        found = (await engine.read.search(Query(text="note", scope=view, filters=tree, include_past=True))).results
        assert {item.memory for item in found} <= behind
        within = visible(view, now=datetime.now(UTC), include_past=True, filters=tree)
        assert {item.memory for item in found} == {
            item.memory for item in listed.results if matches(within, item.to_payload())
        }

    PORTAL.call(main())


def engine_addition(text: str, scope: Scope) -> Any:
    from perdure.engine.requests import Addition

    return Addition(messages=[Message("user", text)], scope=scope, infer=False, metadata={"tag": "a"})


# ------------------------------------------------------------------ the rows of a batch

vectors = st.lists(st.integers(-3, 3), min_size=3, max_size=3)


@given(
    rows=st.lists(st.tuples(st.integers(0, 5), vectors, st.sampled_from([None, "one", "two"])), max_size=40),
    dropped=st.sets(st.integers(0, 5)),
    asked=vectors,
    limit=st.integers(1, 6),
)
def test_rows_of_a_batch_are_found_as_a_store_finds_them(
    rows: list[tuple[int, list[int], str | None]], dropped: set[int], asked: list[int], limit: int
) -> None:
    fresh, kept = FreshRows(), {}
    for number, vector, slot in rows:
        item = MemoryItem(
            id=str(number), memory=f"text {number}", hash="", scope=Scope(user_id="a"), created_at="", updated_at="",
            told_at="", slots=None if slot is None else Slots("user", slot, "x"),
        )  # fmt: skip
        fresh.put(item, as_vector(vector))
        kept[item.id] = (item, as_vector(vector))
    for number in dropped:
        fresh.drop(str(number))
        kept.pop(str(number), None)
    query = as_vector(asked)
    found = fresh.near("text", query, Slots("user", "one", ""), limit=limit, same_slot=100)
    near = {each.item.id: each.similarity for each in found}
    assert all(near[id] == pytest.approx(cosine(query, kept[id][1]), abs=1e-5) for id in near)
    same_slot = {id for id, (item, _) in kept.items() if item.slots is not None and item.slots.attribute == "one"}
    assert same_slot <= set(near) <= set(kept)
    best = sorted((cosine(query, vector) or 0.0 for _, vector in kept.values()), reverse=True)[:limit]
    shown = sorted(near.values(), reverse=True)[: len(best)]
    assert shown == pytest.approx(best, abs=1e-5)


def as_vector(numbers: list[int]) -> Vector:
    import numpy as np

    return np.array(numbers, dtype=np.float32)
