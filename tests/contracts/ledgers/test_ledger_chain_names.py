"""The contract of ledgers: what a response names more and more of, an erasure finds."""

from __future__ import annotations

import pytest

from perdure.backends.ledgers.base import Ledger
from tests.contracts.ledgers.ledger_worker import USER, Place, awaited, episode
from tests.contracts.ledgers.test_ledger_chains import link

pytestmark = pytest.mark.covers("U22", "V90")


async def text_of(ledger: Ledger, id: str) -> list[dict[str, object]]:
    found = await ledger.chains.get(id, USER)
    assert found is not None
    return found.items


@pytest.mark.covers("V90")
@awaited
async def test_an_answer_that_is_named_later_takes_the_text_with_it(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="e1"), episode(id="e2"), episode(id="e3")])
        await ledger.chains.put(link("a", episodes=("e1",)))
        await ledger.chains.put(link("b", "a", episodes=("e3",)))
        assert await ledger.chains.name("a", ["e1", "e2"])
        found = await ledger.chains.get("a", USER)
        assert found is not None
        assert found.episodes == ("e1", "e2")
        assert (await ledger.erase([], ["e2"]))["chains"] == 1
        assert await text_of(ledger, "a") == []
        assert await text_of(ledger, "b") != []
        assert not await ledger.chains.name("a", ["e3"]), "what is empty stays so, and names nothing"
        assert (await ledger.erase([], ["e3"]))["chains"] == 1


@pytest.mark.covers("U22")
@awaited
async def test_what_was_erased_meanwhile_takes_the_text_at_once(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="e1"), episode(id="e2")])
        await ledger.chains.put(link("a", episodes=("e1",)))
        await ledger.erase([], ["e2"])
        assert not await ledger.chains.name("a", ["e1", "e2"])
        assert await text_of(ledger, "a") == []
        assert not await ledger.chains.name("unknown", ["e1"])
