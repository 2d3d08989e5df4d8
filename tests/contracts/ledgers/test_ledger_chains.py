"""The contract of ledgers: chains of responses, held by every provider."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.backends.ledgers.base import Ledger
from perdure.domain.errors import ConflictError, InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.session import Link
from tests.contracts.ledgers.ledger_worker import USER, Place, at, awaited, episode

pytestmark = pytest.mark.covers("V90")

BOB = Scope(user_id="bob")
ANN_IN_A_RUN = Scope(user_id="ann", run_id="r1")


def link(id: str, previous: str | None = None, scope: Scope = USER, **fields: object) -> Link:
    items = [{"type": "message", "role": "user", "content": f"said in {id}: ✓\x00"}, {"n": 1.5, "none": None}]
    values = {"session": "s", "model": "gpt-4o", "items": items, "created_at": at(0), **fields}
    return Link(id=id, previous_id=previous, scope=scope, **values)


async def ids_of_chain(ledger: Ledger, id: str, scope: Scope = USER) -> list[str]:
    return [each.id for each in await ledger.chains.chain(id, scope)]


@awaited
async def test_a_chain_is_told_oldest_first_with_all_that_was_kept(place: Place) -> None:
    async with place.opened() as ledger:
        links = [
            link("a", episodes=("e1", "e2")),
            link("b", "a", created_at="2026-03-01T10:00:07+01:00"),
            link("c", "b"),
        ]
        branch = link("b2", "a")
        for each in (*reversed(links), branch):
            await ledger.chains.put(each)
        told = [links[0], replace(links[1], created_at=at(7)), links[2]]
        assert await ledger.chains.chain("c", USER) == told
        assert await ledger.chains.chain("b2", USER) == [links[0], branch]
        assert await ledger.chains.get("b", USER) == told[1]
        assert await ledger.chains.chain("d", USER) == []
        assert await ledger.chains.get("d", USER) is None
        assert (await ledger.stats())["chains"] == 4


@awaited
async def test_what_stands_behind_other_walls_is_not_there(place: Place) -> None:
    async with place.opened() as ledger:
        for each in (link("a"), link("b", "a", ANN_IN_A_RUN), link("c", "b", ANN_IN_A_RUN), link("x", "c", BOB)):
            await ledger.chains.put(each)
        assert await ids_of_chain(ledger, "c") == ["a", "b", "c"], "the wider scope sees what is inside of it"
        assert await ids_of_chain(ledger, "c", ANN_IN_A_RUN) == ["b", "c"], "and no wall is crossed by going back"
        assert await ids_of_chain(ledger, "x", BOB) == ["x"]
        assert await ids_of_chain(ledger, "c", BOB) == []
        assert await ledger.chains.get("a", ANN_IN_A_RUN) is None
        assert not await ledger.chains.delete("a", BOB)
        assert await ids_of_chain(ledger, "a") == ["a"]


@awaited
async def test_cycles_and_gaps_end_a_chain(place: Place) -> None:
    async with place.opened() as ledger:
        for each in (link("self", "self"), link("a", "c"), link("b", "a"), link("c", "b"), link("e", "gone")):
            await ledger.chains.put(each)
        assert await ids_of_chain(ledger, "self") == ["self"]
        assert await ids_of_chain(ledger, "c") == ["a", "b", "c"]
        assert await ids_of_chain(ledger, "e") == ["e"]
        assert await ledger.chains.delete("b", USER)
        assert not await ledger.chains.delete("b", USER)
        assert await ids_of_chain(ledger, "c") == ["c"]
        assert await ids_of_chain(ledger, "a") == ["c", "a"]


@awaited
async def test_a_response_that_comes_again_replaces_itself_and_no_one_elses(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.chains.put(link("a", items=[], episodes=("e1",)))
        whole = link("a", episodes=("e2",))
        await ledger.chains.put(whole)
        assert await ledger.chains.get("a", USER) == whole
        for other in (BOB, ANN_IN_A_RUN, Scope()):
            with pytest.raises(ConflictError):
                await ledger.chains.put(link("a", scope=other))
        assert (await ledger.erase([], ["e1"]))["chains"] == 0, "what it named before it does not name any more"
        assert await ledger.chains.get("a", USER) == whole


@awaited
async def test_bad_links_are_named_and_change_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.chains.put(link("a"))
        for bad, field in (
            (link("a", items=[{"x": {1}}]), "items"),
            (link("a", items=[{"x": float("inf")}]), "items"),
            (link("a", created_at="once"), "created_at"),
            (link("a", items=[{"x": "\ud800"}]), "text"),
        ):
            with pytest.raises(InvalidInputError) as caught:
                await ledger.chains.put(bad)
            assert caught.value.field == field
        assert await ledger.chains.get("a", USER) == link("a")


@pytest.mark.covers("U4")
@awaited
async def test_a_link_loses_its_text_with_a_message_of_it_and_the_chain_goes_on(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="e1"), episode(id="e2")])
        links = [link("a", episodes=("e1",)), link("b", "a", episodes=("e2", "e3")), link("c", "b", episodes=("e4",))]
        for each in links:
            await ledger.chains.put(each)
        before = await ledger.count_places([], ["e2"])
        assert (before["episodes"], before["sessions"], before["chains"]) == (1, 0, 1)
        assert await ledger.erase([], ["e2"]) == before
        emptied = replace(links[1], items=[], episodes=())
        assert await ledger.chains.chain("c", USER) == [links[0], emptied, links[2]]
        assert (await ledger.erase([], ["e2", "e3"]))["chains"] == 0
        assert await ledger.check() == []


@pytest.mark.covers("U4")
@awaited
async def test_a_whole_scope_takes_its_links(place: Place) -> None:
    async with place.opened() as ledger:
        for each in (link("a"), link("b", "a", ANN_IN_A_RUN), link("x", scope=BOB, episodes=("e1",))):
            await ledger.chains.put(each)
        assert (await ledger.count_places([], ["e1"], USER))["chains"] == 3
        assert (await ledger.erase([], ["e1"], USER))["chains"] == 3
        assert await ids_of_chain(ledger, "b") == []
        assert await ledger.chains.chain("x", BOB) == [link("x", scope=BOB, items=[])]
        assert (await ledger.stats())["chains"] == 1


NAMES = ("a", "b", "c", "d")
SCOPES = (USER, ANN_IN_A_RUN, BOB)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "erase"]),
        st.sampled_from(NAMES),
        st.sampled_from([None, *NAMES]),
        st.sampled_from(SCOPES),
        st.sampled_from(["e1", "e2"]),
    ),
    max_size=12,
)


def walked(known: dict[str, Link], id: str | None, scope: Scope) -> list[Link]:
    """The model's chain."""
    found: list[Link] = []
    while id is not None and id in known and scope.holds(known[id].scope) and known[id] not in found:
        found.insert(0, known[id])
        id = known[id].previous_id
    return found


def test_any_order_of_links_agrees_with_a_model(ledger_provider: str, tmp_path_factory) -> None:
    @given(STEPS)
    @awaited
    async def agrees(steps: list[tuple]) -> None:
        known: dict[str, Link] = {}
        async with place.opened() as ledger:
            await ledger.reset()
            for action, name, previous, scope, told in steps:
                mine = name not in known or known[name].scope == scope
                if action == "put" and mine:
                    known[name] = link(name, previous, scope, episodes=(told,))
                    await ledger.chains.put(known[name])
                elif action == "delete":
                    there = name in known and scope.holds(known[name].scope)
                    assert await ledger.chains.delete(name, scope) == there
                    if there:
                        del known[name]
                elif action == "erase":
                    named = [each for each in known.values() if told in each.episodes]
                    assert (await ledger.erase([], [told]))["chains"] == len(named)
                    known |= {each.id: replace(each, items=[], episodes=()) for each in named}
            for asked in (Scope(), *SCOPES):
                for name in NAMES:
                    assert await ledger.chains.chain(name, asked) == walked(known, name, asked)

    place = Place(ledger_provider, tmp_path_factory.mktemp("chains"))
    settings(max_examples=8 if ledger_provider == "postgres" else 40, deadline=None)(agrees)()
