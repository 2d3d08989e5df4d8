"""The contract of ledgers: settings that people change while a service runs, held by every provider."""

from __future__ import annotations

import asyncio

import pytest

from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import Place, awaited


@awaited
async def test_settings_are_laid_over_and_outlive_the_process_and_a_reset(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        assert await one.settings.get("ünï") == {}
        assert await one.settings.merge("ünï", {"a": [1, {"b": None}], "text": "it's 中文\n"}) == {
            "a": [1, {"b": None}],
            "text": "it's 中文\n",
        }
        assert await two.settings.merge("ünï", {"a": None, "c": True}) == {"text": "it's 中文\n", "c": True}
        assert await one.settings.merge("another", {"a": 1}) == {"a": 1}
        async with two.lock(Scope()):
            await two.reset()
    async with place.opened() as again:
        assert await again.settings.get("ünï") == {"text": "it's 中文\n", "c": True}
        assert await again.settings.get("another") == {"a": 1}
        assert await again.check() == []


@awaited
async def test_settings_of_two_writers_at_once_are_both_kept(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        await asyncio.gather(*(each.settings.merge("s", {f"{n}": n}) for n, each in enumerate([one, two] * 8)))
        assert await one.settings.get("s") == {f"{n}": n for n in range(16)}


@awaited
async def test_what_is_no_json_is_refused_and_changes_nothing(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.settings.merge("s", {"a": 1})
        with pytest.raises(InvalidInputError):
            await ledger.settings.merge("s", {"b": object()})
        assert await ledger.settings.get("s") == {"a": 1}
