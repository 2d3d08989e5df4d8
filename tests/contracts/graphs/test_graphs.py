"""The contract of graph stores, SQLite and a real Neo4j: statements and entities."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.domain.errors import GraphError, InvalidInputError
from perdure.domain.graph import Mention, Relation, StatedRelation
from perdure.domain.scope import Scope
from tests.contracts.graphs.graph_worker import ANN, BEN, PROVIDERS, Place, around, at, edge, names, says, tell
from tests.contracts.ledgers.ledger_worker import awaited

pytestmark = pytest.mark.covers("T33", "T34", "U18", "X58")


@pytest.fixture(params=PROVIDERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


# ---------------------------------------------------------------------- life
@awaited
async def test_opening_and_closing_are_repeatable_and_the_identity_stays(place: Place) -> None:
    graph = place.handle()
    with pytest.raises(GraphError, match="not open"):
        await graph.entities(ANN)
    await graph.open()
    await graph.open()
    identity = await graph.identity()
    await tell(graph, says("m1", "Alice works_at Acme"))
    await graph.close()
    await graph.close()
    with pytest.raises(GraphError, match="not open"):
        await graph.state(says("m2"), at(1))
    async with place.opened() as again:
        assert await again.identity() == identity
        assert await names(again) == ["Acme", "Alice"]
    assert "pass" not in identity


def test_one_store_serves_one_event_loop_after_the_other(place: Place) -> None:
    graph = place.handle()
    asyncio.run(graph.open())
    asyncio.run(tell(graph, says("m1", "Alice works_at Acme")))
    assert asyncio.run(names(graph)) == ["Acme", "Alice"]
    asyncio.run(graph.close())


@awaited
async def test_graphs_of_two_places_are_two(place: Place, tmp_path: Path) -> None:
    other = Place(place.provider, tmp_path / "other")
    async with place.opened() as here, other.opened() as there:
        await tell(here, says("m1", "Alice works_at Acme"))
        await tell(there, says("m1", "Alice knows Bob"))
        await there.reset()
        assert await there.count(["m1"]) == 0
        assert (await around(here, "Alice"))[1] == ["Alice works_at Acme"]
        assert await here.identity() != await there.identity()


# ---------------------------------------------------------------------- what is stated
@pytest.mark.covers("T33", "T34")
@awaited
async def test_a_statement_comes_back_as_it_was_given(place: Place) -> None:
    alice = Mention(name="Alice", type="person", description="A colleague")
    lead = Relation(
        source="Alice",
        relation="leads",
        target="Fundraising",
        valid_from=at(1),
        valid_to=at(9),
        polarity=False,
        slot="in:leads:fundraising",
        rule="was_until",
        confidence=0.75,
    )
    async with place.opened() as graph:
        await tell(graph, says("m1", lead, "Alice works_at Google", mentions=[alice], day=3))
        found = await graph.neighbourhood(ANN, ["Alice"])
        assert set(found.relations) == {
            StatedRelation(relation=lead, memory_id="m1", scope=ANN, told_at=at(3)),
            StatedRelation(relation=edge("Alice works_at Google"), memory_id="m1", scope=ANN, told_at=at(3)),
        }
        (entity,) = await graph.entities(ANN, names=["  ALICE "])
        assert entity.model_dump() == {
            "name": "Alice",
            "type": "person",
            "description": "A colleague",
            "memory_ids": ["m1"],
            "updated_at": at(3),
        }


@awaited
async def test_stating_twice_changes_nothing(place: Place) -> None:
    statement = says("m1", "Alice works_at Acme", "Alice works_at Acme", mentions=["Alice", "Alice"])
    async with place.opened() as graph:
        await graph.state(statement, at(1))
        rows, before = await graph.count(["m1"]), await graph.neighbourhood(ANN, ["alice"], depth=3)
        await graph.state(statement, at(5))
        await graph.state(replace(statement, told_at=at(6)), at(6))
        assert await graph.count(["m1"]) == rows
        assert await graph.neighbourhood(ANN, ["alice"], depth=3) == before


@awaited
async def test_a_statement_replaces_what_the_same_reader_had_the_memory_state(place: Place) -> None:
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", "Alice works_at Acme", "Alice knows Bob"),
            says("m1", mentions=["Acme"], by="entities"),
            says("m2", "Bob works_at Acme"),
            says("m1", "Alice works_at Google", "Alice knows Bob", day=4),
        )
        near, relations = await around(graph, "Alice")
        assert near == ["Alice", "Bob", "Google"]
        assert relations == ["Alice works_at Google", "Alice knows Bob"]
        assert await names(graph) == ["Acme", "Bob", "Alice", "Google"]
        found = await graph.neighbourhood(ANN, ["Alice"])
        assert {stated.relation.target: stated.told_at for stated in found.relations} == {
            "Google": at(4),
            "Bob": at(1),
        }
        assert await names(graph, names=["Acme"], as_of=at(2)) == ["Acme"]
        then = ["Alice works_at Acme", "Alice knows Bob", "Bob works_at Acme"]
        assert (await around(graph, "Alice", as_of=at(3)))[1] == then
        before = await graph.neighbourhood(ANN, ["Alice"], as_of=at(3))
        assert {stated.untold_at for stated in before.relations} == {at(4), None}


@awaited
async def test_two_readers_of_one_memory_do_not_disturb_each_other(place: Place) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme"), says("m1", mentions=["Oslo"], by="entities"))
        await tell(graph, says("m1", mentions=["Rome"], by="entities", day=2))
        assert set(await names(graph)) == {"Alice", "Acme", "Rome"}
        await graph.take_back(["m1"], at(3), by="temporal")
        assert await names(graph) == ["Rome"]
        await graph.take_back(["m1"], at(4))
        assert await names(graph) == []


@awaited
async def test_what_is_taken_back_is_stated_until_then(place: Place) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme", day=2), says("m2", "Alice knows Bob", day=3))
        await graph.take_back(["m1", "nobody"], at(5))
        await graph.take_back(["m1"], at(7))
        assert await around(graph, "Alice") == (["Alice", "Bob"], ["Alice knows Bob"])
        seen = {day: (await around(graph, "Alice", as_of=at(day)))[1] for day in (1, 2, 3, 4, 5)}
        assert seen == {
            1: [],
            2: ["Alice works_at Acme"],
            3: ["Alice knows Bob", "Alice works_at Acme"],
            4: ["Alice knows Bob", "Alice works_at Acme"],
            5: ["Alice knows Bob"],
        }
        assert await names(graph, as_of=at(2)) == ["Acme", "Alice"]
        assert await names(graph, as_of=at(1)) == []


@awaited
async def test_what_is_undone_leaves_no_trace(place: Place) -> None:
    first = says("m1", "Alice works_at Acme", mentions=["Oslo"], day=2)
    async with place.opened() as graph:
        await tell(graph, first)
        rows, before = await graph.count(["m1"]), await graph.neighbourhood(ANN, ["Alice"])
        await graph.take_back(["m1"], at(4))
        await graph.state(first, at(5))  # the deletion was undone
        assert await graph.count(["m1"]) == rows
        for day in (2, 4, 5):
            assert await graph.neighbourhood(ANN, ["Alice"], as_of=at(day)) == before
        await graph.state(says("m1", "Alice works_at Google", day=6), at(6))
        await graph.state(first, at(7))  # the update was undone
        assert await graph.neighbourhood(ANN, ["Alice"], as_of=at(8)) == before
        assert await around(graph, "Google") == ([], [])


@awaited
async def test_a_memory_that_moves_to_another_scope_leaves_the_old_one(place: Place) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme"), says("m1", "Alice works_at Acme", scope=BEN, day=2))
        assert await names(graph, ANN) == []
        assert await names(graph, BEN) == ["Acme", "Alice"]
        assert await names(graph, ANN, as_of=at(1)) == ["Acme", "Alice"]


# ---------------------------------------------------------------------- entities
@pytest.mark.covers("X58")
@awaited
async def test_an_entity_is_what_most_memories_say_of_it(place: Place) -> None:
    async with place.opened() as graph:
        await tell(
            graph,
            says("m1", mentions=[Mention(name="ACME", type="organization", description="old")]),
            says("m2", mentions=[Mention(name="Acme", description="new")], day=3),
            says("m3", "Alice works_at Acme", day=2),
        )
        assert [entity.model_dump() for entity in await graph.entities(ANN)] == [
            {
                "name": "Acme",
                "type": "organization",
                "description": "new",
                "memory_ids": ["m2", "m3", "m1"],
                "updated_at": at(3),
            },
            {
                "name": "Alice",
                "type": "concept",
                "description": "",
                "memory_ids": ["m3"],
                "updated_at": at(2),
            },
        ]


@awaited
async def test_entities_come_by_how_many_memories_name_them_then_by_name(place: Place) -> None:
    async with place.opened() as graph:
        for number, named in enumerate((["c", "b"], ["c", "a"], ["c", "z", "é", "😀", "\uffee"])):
            await tell(graph, says(f"m{number}", mentions=named))
        assert await names(graph) == ["c", "a", "b", "z", "é", "\uffee", "😀"]
        assert await names(graph, limit=2) == ["c", "a"]
        assert await names(graph, limit=0) == []
        assert await names(graph, names=["z", "A", "nobody", "a"]) == ["a", "z"]
        assert await names(graph, names=[]) == []
        with pytest.raises(InvalidInputError, match="limit"):
            await graph.entities(ANN, limit=-1)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("Ålesund", "a\u030alesund"),
        ("ＡＣＭＥ", "acme"),
        ("Straße", "STRASSE"),
        ("北京 大学", "北京  大学"),
        ("  Ada\tLovelace ", "ada lovelace"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("👩‍👩‍👧", "👩‍👩‍👧"),
    ],
)
@awaited
async def test_one_name_in_two_spellings_is_one_entity(place: Place, written: str, asked: str) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", Relation(source=written, relation="is", target="x"), mentions=[asked]))
        assert len(await graph.entities(ANN, names=[asked])) == 1
        assert len((await graph.neighbourhood(ANN, [asked])).entities) == 2


HOSTILE = [
    "Robert'); DROP TABLE mentions;--",
    'x"}) MATCH (n) DETACH DELETE n //',
    "`) DETACH DELETE (`",
    "$names {where} {0} %s ? :keys",
    "100%",
    "_",
    "%",
    "\\",
    "a\u0000b".replace("\u0000", "\u0001"),
    "null",
    "*",
    "😀" * 1024,
    "x" * 20_000,
]


@awaited
async def test_hostile_texts_are_texts(place: Place) -> None:
    async with place.opened() as graph:
        await tell(graph, says("guard", "Alice works_at Acme"))
        for number, text in enumerate(HOSTILE):
            relation = Relation(source=text, relation=text, target="Acme", slot=text, rule=text)
            mention = Mention(name=text, type=text, description=text)
            await tell(graph, says(f"m{number}'", relation, mentions=[mention], by=text, day=2))
            found = await graph.neighbourhood(ANN, [text])
            assert [stated.relation for stated in found.relations] == [relation]
            (entity,) = await graph.entities(ANN, names=[text])
            assert (entity.name, entity.type, entity.description) == (text, text, text)
            assert (await graph.similar_names(ANN, text))[0].name == text
            await graph.take_back([f"m{number}'"], at(3), by=text)
            assert await graph.entities(ANN, names=[text]) == []
        for text in HOSTILE[:-1]:
            scope = Scope(user_id=text, team_id=text)
            await tell(graph, says("walled", mentions=["Acme"], scope=scope, by=text))
            assert await names(graph, scope) == ["Acme"]
            assert await graph.erase_scope(scope) == 1
        assert await around(graph, "Alice") == (["Alice", "Acme"], ["Alice works_at Acme"])


@pytest.mark.parametrize("name", ["", "  \t", "a\x00b", "\ud800"])
@awaited
async def test_a_name_that_is_none_is_refused_and_changes_nothing(place: Place, name: str) -> None:
    async with place.opened() as graph:
        await tell(graph, says("m1", "Alice works_at Acme"))
        for wrong in (
            says("m1", mentions=[name]),
            says("m1", Relation(source=name, relation="is", target="x")),
            says("m1", Relation(source="x", relation="is", target=name)),
        ):
            with pytest.raises(InvalidInputError, match="name|source|target"):
                await graph.state(wrong, at(2))
        assert await names(graph) == ["Acme", "Alice"]
        assert await graph.entities(ANN, names=[name]) == []
        assert await graph.neighbourhood(ANN, [name]) == type(await graph.neighbourhood(ANN, []))()
        assert await graph.similar_names(ANN, name) == []


@awaited
async def test_similar_names_share_a_word_or_its_beginning(place: Place) -> None:
    named = ["Alice Smith", "Alicia", "Smith & Sons", "Bob", "PostgreSQL", "Ali", "北京大学", "100%"]
    async with place.opened() as graph:
        await tell(graph, says("m1", mentions=named), says("m2", mentions=["Alice", "Smith & Sons"]))
        await tell(graph, says("m3", mentions=["Alice Jones"], scope=BEN))

        async def similar(name: str, **options: int) -> list[str]:
            return [entity.name for entity in await graph.similar_names(ANN, name, **options)]

        assert await similar("alice smith") == ["Alice Smith", "Smith & Sons", "Alice", "Ali", "Alicia"]
        assert await similar("alice smith", limit=2) == ["Alice Smith", "Smith & Sons"]
        assert await similar("Postgres") == ["PostgreSQL"]
        assert await similar("北京") == ["北京大学"]
        assert await similar("Rob") == []
        await graph.take_back(["m2"], at(2))
        assert "Alice" not in await similar("Alice")
