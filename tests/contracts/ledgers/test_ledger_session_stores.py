"""The contract of ledgers: sessions are of one store each, for ledgers are shared; held by every provider."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sqlalchemy import inspect

from perdure.backends.ledgers.base import Ledger
from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.session import Said, session_id
from tests.contracts.ledgers.ledger_desk import job
from tests.contracts.ledgers.ledger_worker import USER, Place, at, awaited
from tests.contracts.ledgers.test_ledger_desk_upgrade import at_version
from tests.contracts.ledgers.test_ledger_sessions_upgrade import to_version

A, B = "a" * 12, "b" * 12
OLD = session_id("s", USER)


async def counted(ledger: Ledger, store: str = "", name: str = "s", moment: int = 1) -> tuple[str, int]:
    turn = await ledger.sessions.open_turn(name, USER, [], at(moment), store)
    return turn.session_id, turn.number


@awaited
async def test_stores_of_one_ledger_have_sessions_of_their_own(place: Place) -> None:
    async with place.opened() as ledger:
        one, other = session_id("s", USER, A), session_id("s", USER, B)
        assert len({one, other, OLD}) == 3
        assert [await counted(ledger, store) for store in (A, A, B)] == [(one, 1), (one, 2), (other, 1)]
        said = Said(scope=USER, name="s", store=B, at=at(2))
        kept = await ledger.sessions.keep([said, replace(said, store=A)])
        assert [(turn.session_id, turn.number) for turn in kept if turn] == [(other, 2), (one, 3)]
        found = await ledger.sessions.get("s", USER, A)
        assert found is not None and (found.id, found.store, found.turns) == (one, A, 3)
        assert found == await ledger.sessions.by_id(one)
        assert await ledger.sessions.get("s", USER, "c") is None
        assert [each.id for each in await ledger.sessions.idle(at(9), store=A)] == [one]
        assert [each.id for each in await ledger.sessions.idle(at(9), 1, store=B)] == [other]
        assert {each.id for each in await ledger.sessions.idle(at(9))} == {one, other}
        assert {each.id for each in await ledger.sessions.list(USER)} == {one, other}
        assert await ledger.check() == []


@awaited
async def test_one_of_before_stores_were_told_apart_is_of_the_first_that_goes_on_with_it(place: Place) -> None:
    async with place.opened() as ledger:
        assert await counted(ledger) == (OLD, 1)
        found = [await ledger.sessions.get("s", USER, store) for store in (A, B)]
        assert [each.id for each in found if each] == [OLD, OLD], "it is nobody's yet"
        assert await counted(ledger, A) == (OLD, 2)
        assert await ledger.sessions.get("s", USER, B) is None
        assert await counted(ledger, B) == (session_id("s", USER, B), 1)
        assert await counted(ledger, A) == (OLD, 3)
        assert await counted(ledger) == (OLD, 4), "who names no store means whatever there is"
        assert (await ledger.sessions.by_id(OLD)).store == A


@awaited
async def test_one_of_before_stores_were_told_apart_is_of_the_first_that_finds_it_idle(place: Place) -> None:
    async with place.opened() as ledger, place.opened() as other:
        for name in ("s", "t"):
            await counted(ledger, name=name)
        found = await asyncio.gather(
            *(each.sessions.idle(at(9), store=mark) for each, mark in ((ledger, A), (other, B)))
        )
        ids = [each.id for some in found for each in some]
        assert sorted(ids) == sorted([OLD, session_id("t", USER)]), "each is one store's"
        for mark, some in zip((A, B), found, strict=True):
            assert [each.store for each in some] == [mark] * len(some)
            assert await ledger.sessions.idle(at(9), store=mark) == some, "and stays it"


@awaited
async def test_a_ledger_of_0004_is_upgraded_on_opening_and_its_sessions_are_of_the_store_that_works_on_them(
    place: Place,
) -> None:
    ledger = place.handle()
    await ledger.open()
    for name in ("s", "t"):
        await counted(ledger, name=name)
    await ledger.jobs.add([job(OLD, kind=f"session@{A}"), job(OLD, kind="entities@" + B)])
    await ledger.close()
    await asyncio.to_thread(to_version, ledger, "0004")
    columns = await asyncio.to_thread(_columns, ledger)
    assert "store" not in columns, "so it was left by the fourth migration's code"

    await ledger.open()
    assert await at_version(ledger) == (HEAD, {*metadata.tables, "alembic_version"})
    assert {each.name: each.store for each in await ledger.sessions.list(USER)} == {"s": A, "t": ""}
    assert await counted(ledger, A) == (OLD, 2)
    assert await ledger.check() == []
    await ledger.close()


def _columns(ledger: Ledger) -> set[str]:
    ledger._database.open()
    try:
        with ledger._database.reading() as connection:
            return {column["name"] for column in inspect(connection).get_columns("sessions")}
    finally:
        ledger._database.close()
