"""TeamMemory's graph: a team's entities and neighbours as each member sees them, and what erasure leaves of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import AsyncMemory, AsyncTeamMemory, Memory, TeamMemory
from perdure.domain.errors import InvalidInputError, NoGraphError, NotFoundError
from perdure.domain.graph import MENTIONED_WITH
from tests.engine.graph.worlds import config
from tests.engine.team.teams import item, joining

Open = Callable[..., Memory]
_NUMBERS = count()


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """One memory for all: each test has a team of its own."""
    with Memory(config(tmp_path_factory.mktemp("memory") / "m")) as found:
        yield found


class Team:
    """A team that nobody else asks for."""

    def __init__(self, memory: Memory) -> None:
        self.name, self._join = f"team-{next(_NUMBERS)}", joining(memory)

    def join(self, member: str = "alice", **arguments: Any) -> TeamMemory:
        return self._join(member, team=self.name, **arguments)

    def put(self, content: str, member: str = "alice", **changes: Any) -> str:
        source = f"test:{next(_NUMBERS)}"
        whole = item(content, **{"team_scope": self.name, "source": source, **changes})
        return self.join(member, role="service").upsert(whole)

    def told(self, entity: str, member: str = "alice", *, by: Any = None, **arguments: Any) -> list[tuple[str, str]]:
        found = self.join(member, **(by or {})).neighbors(entity, **arguments)
        return [(each.name, each.relationship) for each in found]


@pytest.fixture
def team(memory: Memory) -> Team:
    return Team(memory)


@pytest.mark.covers("X57", "X59", "X64")
def test_entities_neighbours_and_queue(team: Team) -> None:
    id = team.put("Alice leads Apollo", metadata={"entities": [{"name": "Ann", "type": "person"}, {"name": "Alice"}]})
    alice = team.join()
    found = {entity.name: entity for entity in alice.entities()}
    assert {name: entity.memory_ids for name, entity in found.items()} == dict.fromkeys(
        ("Alice", "Ann", "Apollo"), (id,)
    )
    assert [entity.name for entity in alice.entities(names=["ANN"])] == ["Ann"]
    assert len(alice.entities(limit=2)) == 2
    assert team.told("alice") == [("Apollo", "leads"), ("Ann", MENTIONED_WITH)]
    status = alice.queue_status()
    assert (status.pending, status.processing, status.failed) == (0, 0, 0)
    assert status.by_kind == {"entities": 0, "temporal": 0}


@pytest.mark.covers("X66", "X67")
def test_a_time_and_what_held_before_it(team: Team) -> None:
    team.put("Alice leads Apollo since 2026-01-10")
    team.put("Bob leads Apollo since 2026-05-02")
    assert team.told("Apollo") == [("Bob", "leads")]
    assert team.told("Apollo", at="2026-02-01") == [("Alice", "leads")]
    assert team.told("Apollo", include_past=True) == [("Alice", "leads"), ("Bob", "leads")]
    assert team.told("Alice", depth=2, at="2026-02-01") == [("Apollo", "leads")]


@pytest.mark.covers("X60")
def test_what_cannot_be_asked(team: Team) -> None:
    alice = team.join()
    with pytest.raises(NotFoundError, match="Zoe"):
        alice.neighbors("Zoe")
    with pytest.raises(InvalidInputError, match="depth"):
        alice.neighbors("Zoe", depth=4)
    with pytest.raises(InvalidInputError, match="entity"):
        alice.neighbors(" ")
    with pytest.raises(InvalidInputError, match="names"):
        alice.entities(names="Alice")
    with pytest.raises(InvalidInputError, match="limit"):
        alice.entities(limit=0)


@pytest.mark.covers("X33")
def test_teams_and_people_do_not_meet(memory: Memory, team: Team) -> None:
    other = Team(memory)
    team.put("Alice works at Initech")
    other.put("Alice works at Globex")
    memory.add("Alice works at Hooli", infer=False, user_id="alice")
    assert (team.told("Alice"), other.told("Alice")) == ([("Initech", "works_at")], [("Globex", "works_at")])
    assert [each.name for each in memory.graph.neighbors("Alice", user_id="alice")] == ["Hooli"]


@pytest.mark.covers("X35")
def test_a_view_of_one_project_sees_that_project(memory: Memory, team: Team) -> None:
    team.put("Alice works at Initech", project_scope="p")
    team.put("Alice works at Globex", project_scope="q")
    walled = TeamMemory(memory.within(project_id="p"), team=team.name, member="alice")
    assert [each.name for each in walled.neighbors("Alice")] == ["Initech"]
    assert {each.name for each in walled.entities()} == {"Alice", "Initech"}


# ------------------------------------------------------------------ X35, as a law
PEOPLE, PROJECTS = ("Alice", "Bob", "Carl"), ("Apollo", "Borealis")
FORMS = ("{} leads {} since 2026-0{}-01", "{} was the lead of {} until 2026-0{}-01")
STATED = st.builds(
    str.format, st.sampled_from(FORMS), st.sampled_from(PEOPLE), st.sampled_from(PROJECTS), st.integers(1, 9)
)
LISTED = (
    *({"name": "Ann"}, {"name": "Zed", "type": "person"}, {"name": "ZED", "type": "robot", "description": "a secret"}),
    *({"name": "APOLLO", "type": "project"}, {"name": "Alice"}),
)
WALLED = st.sampled_from(
    [
        {"visibility": "team"},
        {"visibility": "private", "member": "alice"},
        {"visibility": "private", "member": "mallory"},
        {"visibility": "project", "project_scope": "p"},
        {"visibility": "project", "project_scope": "q"},
    ]
)
MEMORIES = st.lists(st.tuples(STATED, WALLED, st.lists(st.sampled_from(LISTED), max_size=2)), max_size=6)


def is_seen(walls: dict[str, str]) -> bool:
    """Whether alice, of the project p, sees it."""
    if walls["visibility"] == "private":
        return walls["member"] == "alice"
    return walls.get("project_scope", "p") == "p"


@pytest.mark.covers("X35")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(memories=MEMORIES)
def test_what_a_member_is_told_is_what_there_were_if_there_were_no_more_than_they_see(
    memory: Memory, memories: list[Any]
) -> None:
    whole, seen = Team(memory), Team(memory)
    for text, walls, names in memories:
        given = {"project_scope": None, **walls, "metadata": {"entities": names}}
        whole.put(text, **given)
        if is_seen(walls):
            seen.put(text, **given)
    views = [each.join(projects=["p"]) for each in (whole, seen)]
    known = [
        [(each.name, each.type, each.description, len(each.memory_ids)) for each in view.entities()] for view in views
    ]
    assert known[0] == known[1]
    for name in (*PEOPLE, *PROJECTS, "Ann", "Zed"):
        for asked in ({"at": "2026-04-15"}, {"include_past": True, "depth": 2}):
            answers = [_answer(view, name, asked) for view in views]
            assert answers[0] == answers[1], (name, asked)


def _answer(view: TeamMemory, name: str, asked: dict[str, Any]) -> Any:
    try:
        found = view.neighbors(name, **asked)
    except NotFoundError:
        return "unknown"
    return [
        (each.name, each.relationship, each.direction, each.depth, each.valid_from, each.valid_until) for each in found
    ]


# ------------------------------------------------------------------ life
@pytest.mark.covers("U4")
@pytest.mark.parametrize("erase", [False, True])
def test_erasing_a_teams_memory_reaches_the_graph(open_memory: Open, tmp_path: Path, erase: bool) -> None:
    memory = open_memory(**config(tmp_path / "m"))
    team = Team(memory)
    id = team.put("Zaphira works at Initech", metadata={"entities": [{"name": "Quuxly"}]})
    team.put("Bob works at Initech")
    assert team.told("Zaphira")
    team.join().delete(id, erase=erase)
    assert {entity.name for entity in team.join().entities()} == {"Bob", "Initech"}
    with pytest.raises(NotFoundError):
        team.told("Quuxly")
    memory.close()
    left = b"".join(file.read_bytes() for file in (tmp_path / "m").iterdir() if file.is_file())
    assert [name in left for name in (b"Zaphira", b"Quuxly")] == [not erase] * 2
    assert b"Bob" in left


def test_without_a_graph_it_is_said_so(quick: Memory) -> None:
    alice = joining(quick)("alice")
    for ask in (alice.entities, alice.queue_status, lambda: alice.neighbors("Alice")):
        with pytest.raises(NoGraphError, match="graph_store"):
            ask()


def test_awaited(tmp_path: Path) -> None:
    async def live() -> list[str]:
        async with AsyncMemory(config(tmp_path / "m")) as memory:
            alice = AsyncTeamMemory(memory, team="excalibur", member="alice")
            await alice.upsert(item("Alice works at Initech"))
            assert (await alice.queue_status()).failed == 0
            assert len(await alice.entities()) == 2
            return [each.name for each in await alice.neighbors("Alice")]

    assert asyncio.run(live()) == ["Initech"]
