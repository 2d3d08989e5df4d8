"""The contract of ledgers: keys, promotions and the audit, held by every provider."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.backends.ledgers.base import Ledger
from perdure.domain.access import ApiKey, AuditEntry, Promotion, Vote
from perdure.domain.errors import ConflictError, InvalidInputError, NotFoundError
from perdure.domain.memory import new_id
from perdure.domain.scope import Scope
from tests.contracts.ledgers.ledger_desk import job
from tests.contracts.ledgers.ledger_worker import Place, add, at, awaited, settle

pytestmark = pytest.mark.covers("U2", "U4", "X20", "X41", "X42", "X43", "X44", "X45", "X46", "X47")


def key(name: str = "ci", **fields: object) -> ApiKey:
    values = {"id": new_id(), "name": name, "digest": new_id(), "hint": "pk_1", "created_at": at(0), **fields}
    return ApiKey(**values)


def promotion(item: str = "m1", team: str = "blue", **fields: object) -> Promotion:
    values = {
        "id": new_id(),
        "item_id": item,
        "team": team,
        "from_level": "WORKING",
        "target_level": "VALIDATED",
        "justification": "Reviewed by Ōsaka's team 🏯",
        "requested_by": "ann",
        "created_at": at(0),
        **fields,
    }
    return Promotion(**values)


def line(subject: str = "m1", team: str = "blue", **fields: object) -> AuditEntry:
    values = {"id": new_id(), "at": at(0), "team": team, "actor": "ann", "action": "patch", "subject_id": subject}
    return AuditEntry(**{**values, **fields})


# ---------------------------------------------------------------------- keys
@awaited
async def test_a_key_is_found_by_its_digest_until_it_is_revoked(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        assert not await one.keys.any()
        assert await one.keys.list() == []
        first = key("ci", role="service", walls=Scope(project_id="p", team_id="ünï"))
        second = key("laptop")
        await one.keys.add(first)
        await one.keys.add(second)
        assert await two.keys.any()
        assert await two.keys.find(first.digest) == first
        assert await two.keys.find(first.digest.upper()) is None
        assert await two.keys.find("") is None
        revoked = await two.keys.revoke("ci", at(9))
        assert revoked == replace(first, revoked_at=at(9))
        assert await one.keys.find(first.digest) is None
        assert await one.keys.list() == [revoked, second]
        assert await one.keys.revoke(second.id, "2026-03-01T10:00:11+01:00") == replace(second, revoked_at=at(11))
        assert await one.keys.any(), "from the first key on, every address asks for one"
        assert await one.check() == []


@awaited
async def test_of_keys_that_stand_each_has_its_own_name(place: Place) -> None:
    async with place.opened() as ledger:
        first = key()
        await ledger.keys.add(first)
        for bad in (key(), key("other", id=first.id), key("other", digest=first.digest)):
            with pytest.raises(ConflictError, match=bad.name):
                await ledger.keys.add(bad)
        await ledger.keys.add(key("CI"))
        await ledger.keys.revoke("ci", at(1))
        again = key(created_at="")
        await ledger.keys.add(again)
        assert [each.name for each in await ledger.keys.list()] == ["ci", "CI", "ci"]
        assert await ledger.keys.find(again.digest) == replace(again, created_at=at(0))
        with pytest.raises(ConflictError, match="secret"):
            await ledger.keys.add(key("later", digest=first.digest))
        for unknown in ("cI", first.id):
            with pytest.raises(NotFoundError, match=unknown):
                await ledger.keys.revoke(unknown, at(2))
        with pytest.raises(InvalidInputError, match="at must be"):
            await ledger.keys.revoke("ci", "today or so")
        assert (await ledger.keys.find(again.digest)) is not None


@awaited
async def test_an_id_is_looked_for_before_a_name(place: Place) -> None:
    async with place.opened() as ledger:
        first = key("first")
        await ledger.keys.add(first)
        await ledger.keys.add(key(first.id))
        assert (await ledger.keys.revoke(first.id, at(1))).name == "first"
        assert (await ledger.keys.revoke(first.id, at(1))).name == first.id


@awaited
async def test_of_many_who_ask_for_one_name_at_once_one_gets_it(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        ended = await asyncio.gather(
            *(ledger.keys.add(key()) for _ in range(8) for ledger in (one, two)), return_exceptions=True
        )
        assert [type(each) for each in ended if each is not None] == [ConflictError] * 15
        assert len(await one.keys.list()) == 1


# ---------------------------------------------------------------------- promotions
@pytest.mark.covers("X41")
@awaited
async def test_a_promotion_is_kept_behind_its_teams_walls(place: Place) -> None:
    async with place.opened() as ledger:
        kept = promotion(votes=(Vote(by="bob", decision="approved", at=at(1), note="ja — 好"),))
        assert await ledger.promotions.put(kept)
        assert await ledger.promotions.get(kept.id, "blue") == kept
        for id, team in ((kept.id, "red"), (kept.id, "Blue"), ("unknown", "blue")):
            assert await ledger.promotions.get(id, team) is None
        assert await ledger.promotions.list("red") == []
        assert not await ledger.promotions.put(promotion(id=kept.id, team="red")), "an id is given once"
        assert not await ledger.promotions.put(replace(kept, justification="other"))
        assert await ledger.promotions.get(kept.id, "blue") == kept


@pytest.mark.covers("X47")
@awaited
async def test_a_promotion_changes_only_from_what_it_was(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        asked = promotion()
        assert not await one.promotions.put(asked, asked), "what is not there cannot be as it was"
        assert await one.promotions.put(asked)
        voted = replace(asked, votes=(Vote(by="bob", decision="approved", at=at(1)),))
        decided = replace(voted, status="approved", decided_at=at(1))
        assert await one.promotions.put(voted, asked)
        assert not await two.promotions.put(replace(asked, status="rejected", decided_at=at(2)), asked)
        assert await two.promotions.get(asked.id, "blue") == voted
        assert await two.promotions.put(decided, voted)
        assert await one.promotions.list("blue", status="approved") == [decided]
        for moved in (replace(decided, team="red"), replace(decided, id=new_id())):
            with pytest.raises(InvalidInputError, match="keeps its id and its team"):
                await one.promotions.put(moved, decided)
        assert await one.promotions.list("blue") == [decided]
        assert await one.check() == []


@pytest.mark.covers("X47")
@awaited
async def test_of_many_decisions_at_once_one_counts(place: Place) -> None:
    async with place.opened() as one, place.opened() as two:
        asked = promotion()
        await one.promotions.put(asked)
        decisions = [
            replace(asked, status="approved", votes=(Vote(by=f"admin-{n}", decision="approved", at=at(n)),))
            for n in range(12)
        ]
        counted = await asyncio.gather(
            *((one, two)[n % 2].promotions.put(decision, asked) for n, decision in enumerate(decisions))
        )
        assert sorted(counted) == [False] * 11 + [True]
        assert await two.promotions.get(asked.id, "blue") == decisions[counted.index(True)]


@awaited
async def test_promotions_are_listed_page_by_page_oldest_first(place: Place) -> None:
    async with place.opened() as ledger:
        mine = [promotion(f"m{n % 2}", status=("pending", "rejected")[n % 3 == 0]) for n in range(7)]
        theirs = promotion(team="red")
        for each in (*mine[:3], theirs, *mine[3:]):
            await ledger.promotions.put(each)
        listed = ledger.promotions.list
        assert await listed("blue") == mine
        assert await listed("blue", limit=3) == mine[:3]
        assert await listed("blue", limit=3, after=mine[2].id) == mine[3:6]
        assert await listed("blue", after=mine[6].id) == []
        assert await listed("blue", status="rejected") == [mine[0], mine[3], mine[6]]
        assert await listed("blue", item_id="m1", status="pending") == [mine[1], mine[5]]
        assert await listed("blue", item_id="m1", after=mine[1].id, limit=1) == [mine[3]]
        for after in ("unknown", theirs.id):
            with pytest.raises(InvalidInputError, match="after"):
                await listed("blue", after=after)
        with pytest.raises(InvalidInputError, match="limit"):
            await listed("blue", limit=0)


# ---------------------------------------------------------------------- audit
@pytest.mark.covers("X42")
@awaited
async def test_the_audit_is_kept_in_order_behind_its_teams_walls(place: Place) -> None:
    async with place.opened() as ledger:
        lines = [line(f"m{n % 2}", details={"level": ["WORKING", n], "none": None}) for n in range(5)]
        theirs = line(team="red")
        await ledger.audit.add([*lines[:2], theirs])
        await ledger.audit.add(lines[2:])
        await ledger.audit.add([])
        listed = ledger.audit.list
        assert await listed("blue") == lines
        assert await listed("red") == [theirs]
        assert await listed("nobody") == []
        assert await listed("blue", limit=2, after=lines[1].id) == lines[2:4]
        assert await listed("blue", subject_id="m1") == [lines[1], lines[3]]
        for after in ("unknown", theirs.id):
            with pytest.raises(InvalidInputError, match="after"):
                await listed("blue", after=after)
        with pytest.raises(InvalidInputError, match="limit"):
            await listed("blue", limit=0)


@pytest.mark.covers("X42")
@awaited
async def test_a_line_of_the_audit_is_never_changed(place: Place) -> None:
    async with place.opened() as ledger:
        first = line()
        await ledger.audit.add([first])
        await ledger.audit.add([replace(first, actor="somebody else"), line("m2", id=first.id, team="red")])
        assert await ledger.audit.list("blue") == [first]
        assert await ledger.audit.list("red") == []
        with pytest.raises(InvalidInputError, match="details"):
            await ledger.audit.add([line(), line(details={"x": object()})])
        assert await ledger.audit.list("blue") == [first], "all lines of a call, or none"


# ---------------------------------------------------------------------- erasure, upkeep
async def fill(ledger: Ledger) -> tuple[str, Promotion, AuditEntry, ApiKey]:
    change = add("gone", Scope(team_id="blue"))
    await settle(ledger, change)
    asked = promotion(change.memory_id, votes=(Vote(by="bob", decision="approved", at=at(1), note="it says: gone"),))
    told, made = line(change.memory_id), key()
    await ledger.promotions.put(asked)
    await ledger.promotions.put(promotion("another"))
    await ledger.audit.add([told])
    await ledger.keys.add(made)
    await ledger.jobs.add([job(change.memory_id)])
    return change.memory_id, asked, told, made


@pytest.mark.covers("U4")
@awaited
async def test_erasing_a_memory_silences_its_promotions_and_leaves_the_audit(place: Place) -> None:
    async with place.opened() as ledger:
        memory, asked, told, made = await fill(ledger)
        assert (await ledger.count_places([memory], []))["promotions"] == 1
        assert (await ledger.erase([memory], []))["promotions"] == 1
        silent = replace(asked, justification="", votes=(replace(asked.votes[0], note=None),))
        assert await ledger.promotions.get(asked.id, "blue") == silent
        assert (await ledger.promotions.list("blue", item_id="another"))[0].justification
        assert (await ledger.erase([memory], []))["promotions"] == 0
        assert await ledger.audit.list("blue") == [told]
        assert await ledger.keys.list() == [made]
        assert not await ledger.promotions.put(replace(asked, status="approved"), asked), "it is not as it was"
        assert await ledger.check() == []


@pytest.mark.covers("U4")
@awaited
async def test_what_was_said_of_an_erased_memory_is_in_no_byte_of_the_file(tmp_path: Path) -> None:
    place = Place("sqlite", tmp_path)

    def found() -> bool:
        return any(b"it says: gone" in file.read_bytes() for file in tmp_path.glob("history.db*") if file.is_file())

    async with place.opened() as ledger:
        memory, *_ = await fill(ledger)
        assert await asyncio.to_thread(found)
        await ledger.erase([memory], [])
        assert await ledger.scrub()
        assert not await asyncio.to_thread(found)


@awaited
async def test_reset_clears_promotions_and_audit_and_never_keys(place: Place) -> None:
    async with place.opened() as ledger:
        _, asked, told, made = await fill(ledger)
        names = ("jobs", "parked", "keys", "promotions", "audit")
        stats = await ledger.stats()
        assert [stats[name] for name in names] == [1, 0, 1, 2, 1]
        async with ledger.lock(Scope()):
            await ledger.reset()
        stats = await ledger.stats()
        assert [stats[name] for name in names] == [0, 0, 1, 0, 0]
        assert await ledger.keys.find(made.digest) == made
        assert await ledger.promotions.put(asked)
        await ledger.audit.add([told])
        assert await ledger.audit.list("blue") == [told]
        assert await ledger.check() == []


@awaited
async def test_check_finds_what_cannot_be_at_the_desk(place: Place) -> None:
    from sqlalchemy import text

    async with place.opened() as ledger:
        await fill(ledger)

        def spoil() -> None:
            with ledger._database.writing(durable=True) as connection:
                for statement in (
                    "UPDATE audit SET details = '{'",
                    "UPDATE jobs SET batch_id = 'nowhere', state = 'lost'",
                    "UPDATE counters SET value = 1 WHERE name = 'desk'",
                ):
                    connection.execute(text(statement))

        await asyncio.to_thread(spoil)
        found = await ledger.check()
        for words in ("details of audit line", "1 jobs wait for a batch", "1 jobs are of an unknown", "counter 'desk'"):
            assert any(words in sentence for sentence in found), (words, found)
