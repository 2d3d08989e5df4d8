"""Any sequence of operations leaves a vector store as it leaves a plain dictionary of points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perdure.backends.vector_stores.base import Point
from perdure.domain.filter import Condition, all_of, eq, matches, parse_filter
from tests.contracts import strategies
from tests.contracts.conftest import DIMENSION, Shelf, Sync, ids, moment, row, vector

NAMES = [f"r{number}" for number in range(12)]
names = st.sampled_from(NAMES)
users = st.sampled_from(["alice", "bob", None])
texts = st.sampled_from(["tea", "green tea", "coffee", "teas and coffees", ""])

FILTERS = [
    None,
    eq("user_id", "alice"),
    eq("agent_id", "bob"),
    all_of(eq("user_id", "bob"), eq("agent_id", "alice")),
    all_of(eq("user_id", "alice"), Condition("hash", "in", ("tea", "coffee"))),
    parse_filter({"OR": [{"user_id": "alice"}, {"NOT": {"n": 1}}]}),
    all_of(eq("agent_id", "alice"), eq("n", 2)),
]


@st.composite
def points(draw: st.DrawFn) -> Point:
    name, text = draw(names), draw(texts)
    numbers = draw(st.one_of(st.none(), strategies.coordinates))
    number = draw(st.integers(0, 2))
    return row(
        name,
        numbers,
        user_id=draw(users) or ...,
        agent_id=draw(users) or ...,
        memory=text,
        hash=text or ...,
        created_at=moment(draw(st.integers(0, 3))),
        metadata={"n": number},
    )


class Machine(RuleBasedStateMachine):
    """Two instances on one place where the provider can share it, otherwise one."""

    shelf: Shelf

    @initialize()
    def start(self) -> None:
        self.model: dict[str, Point] = {}
        self.stores: list[Sync] = [self.shelf.open()]
        if self.shelf.entry.shared:
            self.stores.append(self.shelf.open())
        self.turn = 0
        if "machine" in self.stores[0].list_collections():
            self.stores[0].delete_collection("machine")
        self.stores[0].create_collection("machine", DIMENSION)

    @property
    def store(self) -> Sync:
        """One instance after the other."""
        self.turn += 1
        return self.stores[self.turn % len(self.stores)]

    @rule(puts=st.lists(points(), max_size=6), deletes=st.lists(names, max_size=3))
    def apply(self, puts: list[Point], deletes: list[str]) -> None:
        self.store.apply("machine", puts, deletes)
        for name in deletes:
            self.model.pop(name, None)
        self.model.update((point.id, point) for point in puts)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), point=points())
    def update(self, data: st.DataObject, point: Point) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        numbers = point.vector if data.draw(st.booleans()) else None
        payload = {**point.payload, "id": name} if data.draw(st.booleans()) else None
        self.store.update("machine", name, numbers, payload)
        old = self.model[name]
        self.model[name] = Point(name, old.vector if numbers is None else numbers, payload or old.payload)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        """What the engine does when a memory is read: the payload changes, the vector stays."""
        name = data.draw(st.sampled_from(sorted(self.model)))
        old = self.model[name]
        self.model[name] = replace(old, payload={**old.payload, "access_count": self.turn})
        self.store.apply("machine", [self.model[name]])

    @rule()
    def reset(self) -> None:
        self.store.reset()
        self.model.clear()

    @rule()
    def care(self) -> None:
        self.store.sync()
        self.store.scrub()

    @rule()
    def reopen(self) -> None:
        if self.shelf.durable:
            store = self.store
            store.close()
            store.open()

    @invariant()
    def agree(self) -> None:
        store = self.store
        assert store.check("machine") == []
        assert ids(store.unembedded("machine", 99)) == sorted(p.id for p in self.model.values() if p.vector is None)
        for one in FILTERS:
            expected = [point for point in self.model.values() if matches(one, point.payload)]
            expected.sort(key=lambda point: (point.payload["created_at"], point.id))
            page = store.list("machine", one, with_vectors=True)
            assert ids(page) == ids(expected)
            for found, point in zip(page.points, expected, strict=True):
                assert found.payload == point.payload
                assert (found.vector is None) == (point.vector is None)
                if point.vector is not None and point.vector.any():  # some stores keep the direction only
                    one_way, other = (each / np.linalg.norm(each) for each in (found.vector, point.vector))
                    np.testing.assert_allclose(one_way, other, atol=1e-6)
            assert store.count("machine", one) == len(expected)
            hits = store.search("machine", vector(1, 0.5), 99, one)
            assert sorted(ids(hits)) == sorted(p.id for p in expected if p.vector is not None)
            spoken = store.keyword_search("machine", "tea", 99, one)
            assert spoken is None or set(ids(spoken)) == {p.id for p in expected if "tea" in p.payload["memory"]}

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            store.close()


def test_any_sequence_of_operations(shelf: Shelf) -> None:
    bound: Any = type("Bound", (Machine,), {"shelf": shelf})
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=max(4, shelf.drawn // 8),
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
