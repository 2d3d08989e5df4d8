"""The contract of ledgers: episodes, caches and erasure, held by every provider."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.backends.ledgers.base import Ledger, Remembered
from perdure.backends.ledgers.sql.tables import metadata
from perdure.backends.ledgers.sql.units import HEAD
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_worker import (
    START,
    STORE,
    USER,
    Place,
    add,
    at,
    awaited,
    entry,
    episode,
    remove,
    settle,
    update,
)
from tests.contracts.ledgers.test_ledger_desk_upgrade import at_version
from tests.contracts.ledgers.test_ledger_sessions_upgrade import to_version

pytestmark = pytest.mark.covers("U4")

BOB = Scope(user_id="bob")
ANN_IN_A_RUN = Scope(user_id="ann", run_id="r1")


async def all_pages(ledger: Ledger, scope: Scope, limit: int, **kwargs: bool) -> list[str]:
    seen: list[str] = []
    cursor = None
    while True:
        page = await ledger.list_episodes(scope, limit, cursor, **kwargs)
        assert len(page.episodes) <= limit
        seen += [item.id for item in page.episodes]
        if page.next_cursor is None:
            return seen
        assert len(page.episodes) == limit
        cursor = page.next_cursor


# ---------------------------------------------------------------------- episodes
@awaited
async def test_an_episode_comes_back_as_it_was(place: Place) -> None:
    whole = episode(
        'Grüße aus Łódź 🚋 \n "quoted" \x00 end',
        id="e",
        role="assistant",
        name="Ann",
        message_id="m-1",
        position=3,
        hidden=True,
        pending=True,
        brought={"metadata": {"Łódź": [1, None, "\x00"]}, "type": "episodic"},
        scope=Scope("u", "a", "r", "p", "t", "ro", "w"),
    )
    async with place.opened() as ledger:
        assert await ledger.insert_episodes([whole]) == 1
        assert await ledger.get_episodes(["missing", "e"]) == [whole]
        changed = episode("other words", id="e")
        assert await ledger.insert_episodes([changed, episode(id="new"), episode(id="new")]) == 1
        assert await ledger.get_episodes(["e"]) == [whole], "an id that is known stays as it is"


@awaited
async def test_what_was_brought_is_kept_as_long_as_its_message_waits(place: Place) -> None:
    brought = {"metadata": {"project": "apollo"}}
    async with place.opened() as ledger:
        waits, read = (episode(id=id, pending=True, brought=brought) for id in ("waits", "read"))
        settled = episode(id="settled", brought=brought)
        await ledger.write([entry(add(), "b")], [waits, read, settled])
        await ledger.applied("b")
        assert await ledger.pending_episodes(USER) == [waits, read]
        await ledger.mark_extracted(["read"])
        assert [item.brought for item in await ledger.get_episodes(["waits", "read", "settled"])] == [brought, {}, {}]
        await ledger.hide_episodes(["waits"])
        await ledger.hide_episodes(["waits"], False)
        assert (await ledger.list_episodes(USER)).episodes[0].brought == brought
        assert await ledger.check() == []
        assert (await ledger.erase([], ["waits"]))["episodes"] == 1
        assert await ledger.get_episodes(["waits"]) == []


@awaited
async def test_a_ledger_of_0005_is_upgraded_on_opening_and_its_messages_go_on_waiting(place: Place) -> None:
    ledger = place.handle()
    await ledger.open()
    waits = episode(id="waits", pending=True)
    await ledger.insert_episodes([waits, episode(id="read")])
    await ledger.close()
    await asyncio.to_thread(to_version, ledger, "0005")
    await ledger.open()
    assert await at_version(ledger) == (HEAD, {*metadata.tables, "alembic_version"})
    assert await ledger.pending_episodes(USER) == [waits]
    later = episode(id="later", pending=True, brought={"type": "episodic"})
    await ledger.insert_episodes([later])
    assert await ledger.pending_episodes(USER) == [waits, later]
    assert await ledger.check() == []
    await ledger.close()


@awaited
async def test_many_episodes_are_found_by_id_in_the_order_asked(place: Place) -> None:
    async with place.opened() as ledger:
        ids = [f"e{number}" for number in range(1300)]
        assert await ledger.insert_episodes([episode(id=id) for id in ids]) == 1300
        asked = [*reversed(ids), "e0"]
        assert [item.id for item in await ledger.get_episodes(asked)] == asked


@awaited
async def test_pages_are_oldest_told_first_and_stable_while_others_write(place: Place) -> None:
    async with place.opened() as ledger:
        told = [5, 1, 1, 3, 1, 4, 2]
        await ledger.insert_episodes([episode(seconds=second, id=f"e{n}") for n, second in enumerate(told)])
        await ledger.insert_episodes([episode(id="bob", scope=BOB), episode(id="run", seconds=9, scope=ANN_IN_A_RUN)])
        expected = ["e1", "e2", "e4", "e6", "e3", "e5", "e0", "run"]
        for limit in (1, 2, 3, 8, 100):
            assert await all_pages(ledger, USER, limit) == expected, limit
        assert await all_pages(ledger, ANN_IN_A_RUN, 2) == ["run"]
        assert await all_pages(ledger, Scope(), 4) == ["bob", *expected]
        first = await ledger.list_episodes(USER, 4)
        await ledger.insert_episodes([episode(id="before", seconds=0), episode(id="after", seconds=6)])
        rest = await ledger.list_episodes(USER, 100, first.next_cursor)
        assert [item.id for item in rest.episodes] == ["e3", "e5", "e0", "after", "run"]


@pytest.mark.parametrize("cursor", ["", "x", "2026-03-01T09:00:00.000000+00:00", "1|2|3", f"{at(0)}|-1", f"{at(0)}|x"])
@awaited
async def test_a_cursor_that_no_page_gave_is_an_error(place: Place, cursor: str) -> None:
    async with place.opened() as ledger:
        with pytest.raises(InvalidInputError) as caught:
            await ledger.list_episodes(USER, 5, cursor)
        assert (caught.value.field, caught.value.value) == ("cursor", cursor)


@awaited
async def test_a_limit_below_one_is_an_error(place: Place) -> None:
    async with place.opened() as ledger:
        for call in (ledger.list_episodes, ledger.recent_episodes, ledger.pending_episodes):
            with pytest.raises(InvalidInputError, match="limit"):
                await call(USER, 0)


@awaited
async def test_recent_episodes_are_the_last_visible_ones_in_order(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(seconds=second, id=f"e{second}") for second in (3, 1, 2, 5, 4)])
        await ledger.insert_episodes([episode(seconds=6, id="hidden", hidden=True), episode(id="bob", scope=BOB)])

        async def recent(limit: int, before: str | None = None) -> list[str]:
            return [item.id for item in await ledger.recent_episodes(USER, limit, before)]

        assert await recent(2) == ["e4", "e5"]
        assert await recent(2, at(5)) == ["e3", "e4"]
        assert await recent(9) == ["e1", "e2", "e3", "e4", "e5"]
        assert await recent(9, at(1)) == []


@awaited
async def test_episodes_wait_to_be_extracted(place: Place) -> None:
    async with place.opened() as ledger:
        waiting = [episode(id=f"e{n}", seconds=9 - n, pending=True) for n in range(3)]
        await ledger.write([], [*waiting, episode(id="done"), episode(id="h", pending=True, hidden=True)])
        await ledger.insert_episodes([episode(id="bob", pending=True, scope=BOB)])
        assert [item.id for item in await ledger.pending_episodes(USER)] == ["e0", "e1", "e2"]
        assert [item.id for item in await ledger.pending_episodes(USER, 2)] == ["e0", "e1"]
        await ledger.mark_extracted(["e0", "e2", "nobody"])
        assert [item.id for item in await ledger.pending_episodes(Scope())] == ["e1", "bob"]
        assert (await ledger.stats())["pending"] == 3


@awaited
async def test_hidden_episodes_are_out_of_lists_and_can_be_shown_again(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.insert_episodes([episode(id="a"), episode(id="b"), episode(id="c")])
        await ledger.hide_episodes(["a", "c"])
        assert await all_pages(ledger, USER, 1) == ["b"]
        assert await all_pages(ledger, USER, 1, include_hidden=True) == ["a", "b", "c"]
        assert [item.hidden for item in await ledger.get_episodes(["a", "b"])] == [True, False]
        await ledger.hide_episodes(["a"], hidden=False)
        assert await all_pages(ledger, USER, 1) == ["a", "b"]


# ---------------------------------------------------------------------- caches
@awaited
async def test_an_idempotency_key_answers_for_a_day_in_its_own_scope(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.write([], (), Remembered("k", USER, '{"results": ["ä"]}'))
        assert await ledger.remembered("k", USER) == '{"results": ["ä"]}'
        assert await ledger.remembered("k", ANN_IN_A_RUN) is None
        assert await ledger.remembered("k", BOB) is None
        assert await ledger.remembered("other", USER) is None
        place.now = START + timedelta(hours=23, minutes=59)
        assert await ledger.remembered("k", USER) is not None
        place.now = START + timedelta(hours=24, seconds=1)
        assert await ledger.remembered("k", USER) is None
        await ledger.write([], (), Remembered("k", USER, "again"))
        assert await ledger.remembered("k", USER) == "again"
        assert (await ledger.stats())["remembered"] == 1


@awaited
async def test_values_are_cached_by_key_and_scope(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.cache("k", USER, "one")
        await ledger.cache("k", BOB, "bob's")
        await ledger.cache("k", USER, "two")
        assert await ledger.cached("k", USER) == "two"
        assert await ledger.cached("k", BOB) == "bob's"
        assert await ledger.cached("k", Scope()) is None
        place.now = START + timedelta(days=31)
        assert await ledger.cached("k", USER) is None
        await ledger.cache("new", USER, "x")
        assert (await ledger.stats())["cached"] == 1, "old values are dropped"


@awaited
async def test_fingerprints_are_known_where_scopes_overlap(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.add_fingerprints(ANN_IN_A_RUN, ["f1", "f2", "f2"])
        await ledger.add_fingerprints(ANN_IN_A_RUN, [f"f{n}" for n in range(1, 1200)])
        await ledger.add_fingerprints(BOB, [])
        assert await ledger.known_fingerprints(USER, ["f1", "f1199", "f1200"]) == {"f1", "f1199"}
        assert await ledger.known_fingerprints(Scope(agent_id="x"), ["f1"]) == {"f1"}
        assert await ledger.known_fingerprints(BOB, ["f1"]) == set()
        assert await ledger.known_fingerprints(USER, []) == set()
        place.now = START + timedelta(days=29)
        await ledger.add_fingerprints(ANN_IN_A_RUN, ["f2"])
        place.now = START + timedelta(days=31)
        assert await ledger.known_fingerprints(USER, ["f1", "f2"]) == {"f2"}, "seen again lately"


# ---------------------------------------------------------------------- erasure
@pytest.mark.covers("U4")
@awaited
async def test_erasing_redacts_history_and_counts_each_place(place: Place) -> None:
    async with place.opened() as ledger:
        secret, other = add("secret one"), add("other")
        await settle(ledger, secret, other)
        await settle(ledger, update(secret, "secret two"))
        await ledger.write([entry(remove(update(secret, "secret two")), "b")], [episode(id="e1"), episode(id="e2")])
        await ledger.applied("b")
        await ledger.cache("ann", USER, "x")
        await ledger.cache("names it", BOB, f"about mem_{secret.memory_id}!")
        await ledger.cache("names the message", BOB, "e1")
        await ledger.cache("bob", BOB, "x")
        await ledger.add_fingerprints(ANN_IN_A_RUN, ["f"])
        await ledger.write([], (), Remembered("k", USER, "x"))
        counts = {"history": 3, "episodes": 1, "journal": 3, "cache": 5}
        counts |= dict.fromkeys(("jobs", "promotions", "sessions", "chains"), 0)
        assert await ledger.count_places([secret.memory_id], ["e1"], USER) == counts
        assert await ledger.erase([secret.memory_id], ["e1"], USER) == counts
        records = await ledger.history(secret.memory_id)
        assert [(r.event, r.old_value, r.new_value, r.erased) for r in records] == [
            ("ADD", None, None, True),
            ("UPDATE", None, None, True),
            ("DELETE", None, None, True),
        ]
        assert await ledger.event(secret.id) is None
        assert (await ledger.event(other.id)) == other
        assert [item.id for item in await ledger.get_episodes(["e1", "e2"])] == ["e2"]
        assert await ledger.events_since(USER, at(-1)) == [other]
        assert await ledger.cached("bob", BOB) == "x"
        assert await ledger.cached("names it", BOB) is None
        assert await ledger.erase([secret.memory_id], ["e1"], USER) == dict.fromkeys(counts, 0)
        assert await ledger.check() == []


@awaited
async def test_without_a_scope_only_what_names_an_id_leaves_the_caches(place: Place) -> None:
    async with place.opened() as ledger:
        await ledger.cache("a", USER, "x")
        await ledger.cache("b", USER, "about m-17.")
        assert (await ledger.erase(["m-17"], []))["cache"] == 1
        assert await ledger.cached("a", USER) == "x"


@awaited
async def test_erasing_many_finds_every_mention(place: Place) -> None:
    async with place.opened() as ledger:
        ids = [new_id() for _ in range(600)]
        await ledger.cache("uuid", BOB, f'["mem_{ids[-1]}"]')
        await ledger.cache("other uuid", BOB, f'["{new_id()}"]')
        await ledger.cache("word", BOB, "see message-7")
        assert (await ledger.erase([*ids, "message-7"], []))["cache"] == 2
        assert await ledger.cached("other uuid", BOB) is not None


@awaited
async def test_scrub_is_done_at_once_when_nobody_is_in_the_way(place: Place) -> None:
    async with place.opened() as ledger:
        change = add()
        await settle(ledger, change)
        assert await ledger.scrub()
        await ledger.erase([change.memory_id], [])
        assert await ledger.scrub()
        assert len(await ledger.history(change.memory_id)) == 1
        assert await ledger.unsynced(STORE) == []
