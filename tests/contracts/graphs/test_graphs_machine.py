"""Each graph store against a small model of one, over any order of changes."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from perdure.domain.graph import Mention, Relation, Statement, entity_key
from perdure.domain.scope import Scope
from tests.contracts.graphs.graph_worker import PROVIDERS, Place, at

pytestmark = pytest.mark.covers("T33", "T34", "U22")

NAMES = ["Alice", "ALICE ", "Ａlice", "Alicia", "Bob", "Böb", "x`) DETACH DELETE n //", "%", "_"]
SCOPES = [
    Scope(user_id="ann"),
    Scope(user_id="ben"),
    Scope(team_id="red"),
    Scope(team_id="red", project_id="p1"),
    Scope(team_id="blue", project_id="p1"),
]
ASKED = [*SCOPES, Scope(project_id="p1"), Scope()]
READERS = ["entities", "temporal"]
MEMORIES = [f"m{number}" for number in range(5)]

DAYS = st.integers(1, 6)
NAME = st.sampled_from(NAMES)
MENTION = st.builds(
    Mention,
    name=NAME,
    type=st.sampled_from(["person", "concept", "`x`"]),
    description=st.sampled_from(["", "tall", "'small'"]),
)
RELATION = st.builds(
    Relation,
    source=NAME,
    relation=st.sampled_from(["knows", "leads"]),
    target=NAME,
    valid_to=st.sampled_from([None, at(3)]),
    polarity=st.booleans(),
    confidence=st.sampled_from([1, 0.25]),
)


@dataclass
class Told:
    """One content of one memory, stated from one moment to another."""

    memory: str
    by: str
    scope: Scope
    content: Mention | Relation
    since: str
    until: str | None

    def stands(self, as_of: str | None) -> bool:
        if as_of is None:
            return self.until is None
        return self.since <= as_of and (self.until is None or self.until > as_of)


class Model:
    """What a graph should hold, kept in a list and read by going through all of it."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def state(self, statement: Statement, moment: str) -> None:
        contents: set[Mention | Relation] = {*statement.mentions, *statement.relations}
        for relation in statement.relations:
            contents |= {Mention(name=name, type="") for name in (relation.source, relation.target)}
        for told in self.told:
            same = (told.memory, told.by) == (statement.memory_id, statement.by)
            if same and told.until is None and not (told.content in contents and told.scope == statement.scope):
                told.until = moment
        for content in contents:
            new = Told(statement.memory_id, statement.by, statement.scope, content, statement.told_at, None)
            joined = [told for told in self.told if self.continues(told, new)]
            new.since = min(told.since for told in [*joined, new])
            self.told = [*(told for told in self.told if told not in joined), new]

    @staticmethod
    def continues(told: Told, new: Told) -> bool:
        same = (told.memory, told.by, told.scope, told.content) == (new.memory, new.by, new.scope, new.content)
        return same and (told.until is None or told.until >= new.since)

    def take_back(self, memories: list[str], moment: str, by: str | None) -> None:
        for told in self.told:
            if told.memory in memories and by in (None, told.by) and told.until is None:
                told.until = moment

    def erase(self, memories: list[str], scope: Scope) -> int:
        before = len(self.told)
        self.told = [told for told in self.told if not (told.memory in memories and scope.holds(told.scope))]
        return before - len(self.told)

    def seen(self, scope: Scope, as_of: str | None) -> list[Told]:
        return [told for told in self.told if scope.holds(told.scope) and told.stands(as_of)]

    def entities(self, scope: Scope, as_of: str | None) -> dict[str, tuple[str, ...]]:
        """Who is named by which memories, those told last first; the most named first."""
        named: dict[str, dict[str, str]] = {}
        for told in self.seen(scope, as_of):
            if isinstance(told.content, Mention):
                memories = named.setdefault(told.content.key, {})
                memories[told.memory] = max(memories.get(told.memory, ""), told.since)
        order = sorted(named, key=lambda key: (-len(named[key]), key))
        return {
            key: tuple(sorted(sorted(named[key]), key=lambda memory: named[key][memory], reverse=True)) for key in order
        }

    def relations(self, scope: Scope, as_of: str | None) -> list[Told]:
        return [told for told in self.seen(scope, as_of) if isinstance(told.content, Relation)]

    def reached(self, scope: Scope, names: list[str], depth: int, as_of: str | None) -> list[str]:
        known = self.entities(scope, as_of)
        distance = {key: 0 for key in map(entity_key, names) if key in known}
        for away in range(1, depth + 1):
            for told in self.relations(scope, as_of):
                ends = (told.content.source_key, told.content.target_key)
                for here, there in (ends, ends[::-1]):
                    if distance.get(here, away) < away:
                        distance.setdefault(there, away)
        return sorted(distance, key=lambda key: (distance[key], -len(known[key]), key))


class Graphs(RuleBasedStateMachine):
    """One store, in one place, emptied for each example."""

    place: Place
    runner: asyncio.Runner

    @initialize()
    def begin(self) -> None:
        self.model = Model()
        self.graph = self.place.handle()
        self.run(self.graph.open())
        self.run(self.graph.reset())

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        if hasattr(self, "graph"):
            self.run(self.graph.close())

    @rule(
        memory=st.sampled_from(MEMORIES),
        by=st.sampled_from(READERS),
        scope=st.sampled_from(SCOPES),
        told=DAYS,
        moment=DAYS,
        mentions=st.lists(MENTION, max_size=3),
        relations=st.lists(RELATION, max_size=3),
    )
    def state(self, memory, by, scope, told, moment, mentions, relations) -> None:
        statement = Statement(
            memory_id=memory,
            by=by,
            scope=scope,
            told_at=at(told),
            mentions=tuple(mentions),
            relations=tuple(relations),
        )
        for _ in range(2):
            self.run(self.graph.state(statement, at(moment)))
        self.model.state(statement, at(moment))

    @rule(memories=st.lists(st.sampled_from(MEMORIES), max_size=3), moment=DAYS, by=st.sampled_from([None, *READERS]))
    def take_back(self, memories, moment, by) -> None:
        self.run(self.graph.take_back(memories, at(moment), by))
        self.model.take_back(memories, at(moment), by)

    @rule(memories=st.lists(st.sampled_from(MEMORIES), max_size=3))
    def erase(self, memories) -> None:
        gone = self.model.erase(memories, Scope())
        assert self.run(self.graph.count(memories)) == gone
        assert self.run(self.graph.erase(memories)) == gone

    @rule(scope=st.sampled_from(ASKED))
    def erase_scope(self, scope) -> None:
        assert self.run(self.graph.erase_scope(scope)) == self.model.erase(MEMORIES, scope)

    @rule()
    def reopen(self) -> None:
        self.run(self.graph.close())
        self.run(self.graph.open())

    @rule(
        scope=st.sampled_from(ASKED),
        names=st.lists(NAME, max_size=2),
        depth=st.integers(1, 3),
        as_of=st.sampled_from([None, *range(1, 7)]),
    )
    def look_around(self, scope, names, depth, as_of) -> None:
        moment = None if as_of is None else at(as_of)
        found = self.run(self.graph.neighbourhood(scope, names, depth=depth, as_of=moment))
        reached = self.model.reached(scope, names, depth, moment)
        assert [entity_key(entity.name) for entity in found.entities] == reached
        between = [
            (told.memory, told.scope, told.since, told.until, told.content)
            for told in self.model.relations(scope, moment)
            if told.content.source_key in reached and told.content.target_key in reached
        ]
        assert Counter(
            (stated.memory_id, stated.scope, stated.told_at, stated.untold_at, stated.relation)
            for stated in found.relations
        ) == Counter(between)
        listed = self.run(self.graph.entities(scope, as_of=moment))
        named = self.model.entities(scope, moment)
        assert [entity_key(entity.name) for entity in listed] == list(named)
        assert [entity.memory_ids for entity in listed] == list(named.values())

    @rule(scope=st.sampled_from(ASKED), name=NAME)
    def look_alike(self, scope, name) -> None:
        alike = {entity_key(entity.name) for entity in self.run(self.graph.similar_names(scope, name))}
        known = self.model.entities(scope, None)
        assert {other for other in known if self.beginning(other) == self.beginning(entity_key(name))} == alike

    @staticmethod
    def beginning(key: str) -> str:
        return key.replace("ö", "o")[:3]

    @invariant()
    def everything_is_counted(self) -> None:
        if hasattr(self, "graph"):
            assert self.run(self.graph.count(MEMORIES)) == len(self.model.told)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_any_order_of_changes(provider: str) -> None:
    examples = {"sqlite": 40, "neo4j": 8}[provider]
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        machine = type(provider, (Graphs,), {"place": Place(provider, Path(folder)), "runner": runner})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None)
        )
