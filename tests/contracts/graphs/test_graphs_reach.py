"""The contract of graph stores: what lies around an entity, walls, erasure, and several writers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.domain.errors import InvalidInputError
from perdure.domain.graph import Relation
from perdure.domain.scope import Scope
from tests.contracts.graphs.graph_worker import ANN, BEN, PROVIDERS, Place, around, at, names, says, tell
from tests.contracts.ledgers.ledger_worker import awaited

pytestmark = pytest.mark.covers("U18", "U22", "V76")


@pytest.fixture(params=PROVIDERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


# ---------------------------------------------------------------------- neighbourhoods
@pytest.mark.covers("V76")
@awaited
async def test_a_neighbourhood_reaches_one_to_three_relations_either_way(place: Place) -> None:
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", "a r b"),
            says("m2", "c r b"),
            says("m3", "c r d"),
            says("m4", "e r d", "x r y"),
        )
        assert await around(graph, "a") == (["a", "b"], ["a r b"])
        assert await around(graph, "a", depth=2) == (["a", "b", "c"], ["a r b", "c r b"])
        assert await around(graph, "A", depth=3) == (["a", "b", "c", "d"], ["a r b", "c r b", "c r d"])
        assert await around(graph, "d", "nobody", depth=1) == (["d", "c", "e"], ["c r d", "e r d"])
        assert (await around(graph, "a", "e"))[0] == ["a", "e", "b", "d"]
        assert await around(graph, "nobody", depth=3) == ([], [])
        assert await around(graph, depth=3) == ([], [])
        for depth in (0, 4):
            with pytest.raises(InvalidInputError, match="depth"):
                await graph.neighbourhood(ANN, ["a"], depth=depth)


@awaited
async def test_a_neighbourhood_has_every_relation_between_what_it_reaches(place: Place) -> None:
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", "a knows b", "a knows c", Relation(source="b", relation="led", target="c", valid_to=at(1))),
            says("m2", "a knows b", Relation(source="a", relation="knows", target="b", polarity=False), day=2),
            says("m3", "b likes b", "c knows far"),
        )
        near, relations = await around(graph, "a")
        assert near == ["a", "b", "c"]
        assert relations == ["a knows b", "a knows b", "a knows b", "a knows c", "b led c", "b likes b"]


@awaited
async def test_a_neighbourhood_that_is_cut_keeps_the_nearest_and_the_last_told(place: Place) -> None:
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", "hub r z", "hub r y", "y r far"),
            says("m2", "hub r z", day=2),
            says("m3", "hub r x", day=3),
        )
        assert await around(graph, "hub", depth=2, limit=2) == (["hub", "z"], ["hub r z", "hub r z"])
        assert await around(graph, "hub", depth=2, limit=3) == (["hub", "z", "x"], ["hub r x", "hub r z", "hub r z"])
        found = await graph.neighbourhood(ANN, ["hub"], depth=2, limit=3)
        assert [stated.memory_id for stated in found.relations] == ["m3", "m2", "m1"]
        assert await around(graph, "hub", depth=2, limit=0) == ([], [])


@awaited
async def test_lists_may_be_long(place: Place) -> None:
    many = [f"n{number}" for number in range(500)]
    others = {"sqlite": 40_000, "neo4j": 4_000}[place.provider]  # SQLite binds at most 32,766 values
    async with place.opened() as graph:
        await tell(graph, says("m1", *(f"hub r {name}" for name in many)))
        await graph.state(says("m1", *(f"hub r {name}" for name in many[1:]), day=2), at(2))
        near, relations = await around(graph, "hub", depth=3, limit=10_000)
        assert (len(near), len(relations)) == (500, 499)
        asked = [*many, *(f"nobody{number}" for number in range(others))]
        assert len(await graph.entities(ANN, names=asked, limit=100_000)) == 499
        assert len((await graph.neighbourhood(ANN, asked, limit=100_000)).relations) == 499
        memories = [f"m{number}" for number in range(others)]
        assert await graph.count(memories) == 500 + 501
        await graph.take_back(memories, at(3))
        assert await graph.erase(memories) == 500 + 501


# ---------------------------------------------------------------------- walls
TEAMS = [Scope(team_id="red"), Scope(team_id="blue")]


@pytest.mark.covers("U22")
@awaited
async def test_nothing_crosses_a_scope(place: Place) -> None:
    async with place.opened() as graph:
        for team in TEAMS:
            word = str(team.team_id)
            await tell(
                graph,
                says(f"{word}-1", f"Alice leads {word}-project", scope=team),
                says(f"{word}-2", f"{word}-project uses Python", mentions=["Alice"], scope=team),
            )
        await tell(graph, says("own", "Alice likes tea"))
        for team in TEAMS:
            word = str(team.team_id)
            assert await names(graph, team) == ["Alice", f"{word}-project", "Python"]
            near, relations = await around(graph, "Python", scope=team, depth=3)
            assert near == ["Python", f"{word}-project", "Alice"]
            assert relations == [f"{word}-project uses Python", f"Alice leads {word}-project"]
            (alice,) = await graph.entities(team, names=["alice"])
            assert set(alice.memory_ids) == {f"{word}-1", f"{word}-2"}
            similar = await graph.similar_names(team, f"{'red' if word == 'blue' else 'blue'}-project")
            assert [entity.name for entity in similar] == [f"{word}-project"]
        assert await around(graph, "Alice", depth=3) == (["Alice", "tea"], ["Alice likes tea"])
        assert await names(graph, Scope(team_id="green")) == []


@awaited
async def test_a_scope_asks_that_all_fields_which_it_gives_are_equal(place: Place) -> None:
    one, two = Scope(team_id="red", project_id="p1"), Scope(team_id="red", project_id="p2")
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", "a r b", scope=one),
            says("m2", "b r c", scope=two),
            says("m3", "c r d", scope=Scope(team_id="red")),
            says("m4", "d r e", scope=Scope(project_id="p1")),
        )
        assert (await around(graph, "a", scope=one, depth=3))[0] == ["a", "b"]
        assert (await around(graph, "a", scope=Scope(team_id="red"), depth=3))[0] == ["a", "b", "c", "d"]
        assert (await around(graph, "a", scope=Scope(project_id="p1"), depth=3))[0] == ["a", "b"]
        assert (await around(graph, "b", scope=Scope(), depth=3))[0] == ["b", "c", "a", "d", "e"]
        assert await names(graph, Scope(project_id="p1")) == ["a", "b", "d", "e"]
        found = await graph.neighbourhood(Scope(team_id="red"), ["b"])
        assert {stated.memory_id: stated.scope for stated in found.relations} == {"m1": one, "m2": two}
        assert await names(graph, Scope(team_id="red", user_id="ann")) == []


# ---------------------------------------------------------------------- erasure
@awaited
async def test_erasure_counts_and_takes_all_that_a_memory_ever_stated(place: Place) -> None:
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", "Alice works_at Secret"),
            says("m1", "Alice works_at Acme", day=2),
            says("m1", mentions=["Hidden"], by="entities"),
            says("m2", "Bob works_at Acme", mentions=["Alice"]),
        )
        counted = await graph.count(["m1", "nobody"])
        assert counted == 2 + 3 + 1  # relations, and the ends of each as mentions: Alice, Secret, Acme; Hidden
        assert await graph.erase(["m1", "nobody"]) == counted
        assert await graph.count(["m1"]) == await graph.erase(["m1"]) == 0
        assert await names(graph) == ["Acme", "Alice", "Bob"]
        assert await around(graph, "Alice", depth=3) == (["Alice"], [])
        assert await names(graph, as_of=at(1)) == ["Acme", "Alice", "Bob"]
        assert await graph.similar_names(ANN, "Secret") == await graph.similar_names(ANN, "Hidden") == []
        (alice,) = await graph.entities(ANN, names=["Alice"])
        assert alice.memory_ids == ("m2",)


@awaited
async def test_a_scope_is_erased_and_no_other(place: Place) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme", "Acme is_in Oslo"))
        await tell(graph, says("m2", "Alice works_at Acme", scope=Scope(user_id="ann", run_id="r")))
        await tell(graph, says("m3", "Alice works_at Acme", scope=BEN))
        assert await graph.erase_scope(Scope(user_id="ann", run_id="r")) == 3
        assert await graph.count(["m1", "m2", "m3"]) == 5 + 3
        assert await graph.erase_scope(ANN) == 5
        assert await graph.erase_scope(ANN) == 0
        assert await around(graph, "Acme", scope=BEN, depth=3) == (["Acme", "Alice"], ["Alice works_at Acme"])
        assert await names(graph, Scope()) == ["Acme", "Alice"]


@awaited
async def test_reset_removes_everything_and_the_graph_works_on(place: Place) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme"), says("m2", "Alice works_at Acme", scope=BEN))
        await graph.take_back(["m2"], at(2))
        await graph.reset()
        assert await names(graph, Scope()) == await names(graph, Scope(), as_of=at(1)) == []
        assert await graph.count(["m1", "m2"]) == 0
        await tell(graph, says("m1", "Alice knows Bob"))
        assert await names(graph) == ["Alice", "Bob"]


# ---------------------------------------------------------------------- company
@awaited
async def test_many_tasks_write_the_same_entities(place: Place) -> None:
    async with place.opened() as graph, place.opened() as other:
        jobs = [tell((graph, other)[n % 2], says(f"m{n}", "Alice knows Bob", f"Bob has n{n}")) for n in range(20)]
        await asyncio.gather(*jobs)
        assert len((await graph.neighbourhood(ANN, ["Bob"])).relations) == 40
        await asyncio.gather(
            *((graph, other)[n % 2].erase([f"m{n}"]) for n in range(10)),
            *(tell((graph, other)[n % 2], says(f"k{n}", "Alice knows Bob")) for n in range(10)),
            *(graph.state(says("same", "Alice knows Bob", day=day), at(day)) for day in range(1, 6)),
        )
        assert len((await graph.neighbourhood(ANN, ["Bob"])).relations) == 10 * 2 + 10 + 1
        assert await graph.count(["same"]) == 3


@awaited
async def test_a_cancelled_change_is_whole_or_not_there_and_the_graph_works_on(place: Place) -> None:
    async with place.opened() as graph:
        for number in range(12):
            change = asyncio.create_task(graph.state(says(f"m{number}", "Alice knows Bob", "Bob knows Eve"), at(1)))
            await asyncio.sleep(number / 1000)
            change.cancel()
            with suppress(asyncio.CancelledError):
                await change
            await tell(graph, says("after", f"Alice saw n{number}", day=number + 1))
            assert await graph.count([f"m{number}"]) in (0, 5)
        assert "Alice saw n11" in (await around(graph, "Alice"))[1]


def test_processes_share_a_graph(place: Place) -> None:
    async def look() -> None:
        async with place.opened() as graph:
            assert await around(graph, "Bob", depth=3) == (["Bob", "Alice"], ["Alice knows Bob"] * 10)
            assert await names(graph, names=["w0", "w1"]) == []
            assert await names(graph, names=["w0", "w1"], as_of=at(1)) == ["w0", "w1"]

    place.settings  # noqa: B018 - the server runs before the workers look for it
    command = [sys.executable, "-m", "tests.contracts.graphs.graph_worker", place.provider, str(place.folder)]
    root = Path(__file__).parents[3]
    workers = [subprocess.Popen([*command, f"w{number}", "10"], cwd=root) for number in range(2)]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    asyncio.run(look())
