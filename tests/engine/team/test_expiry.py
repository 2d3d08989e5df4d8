"""EPHEMERAL memories expire or are promoted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import InvalidInputError, NotFoundError
from perdure.frontends.library.portal import PORTAL
from perdure.frontends.library.team import sweep
from tests.conftest import Open
from tests.engine.team.teams import STORES, Join, MovedClock, item, joining, promoted

pytestmark = pytest.mark.covers("U20", "X37", "X38")

QUICK: dict[str, Any] = {"embedder": {"provider": "hashed"}}


def expiry(join: Join, id: str) -> datetime | None:
    found = join("alice").get(id)
    assert found is not None
    return None if found.expires_at is None else datetime.fromisoformat(found.expires_at)


@pytest.mark.covers("X38")
@STORES
def test_what_is_ephemeral_expires_and_is_swept(open_memory: Open, store: str) -> None:
    clock = MovedClock()
    memory = open_memory(vector_store={"provider": store}, **QUICK)
    clock.of(memory)
    join = joining(memory)
    alice, merlin = join("alice"), join("merlin", role="admin")
    raw = alice.upsert(item(truth_level="EPHEMERAL"))
    used = alice.upsert(item(source="a:1"))
    theirs = join("mordred", team="avalon").upsert(item(truth_level="EPHEMERAL", team_scope="avalon"))
    left = (expiry(join, raw) or datetime.max.replace(tzinfo=UTC)) - clock()
    assert timedelta(days=30) - timedelta(minutes=5) < left <= timedelta(days=30)
    assert expiry(join, used) is None
    clock.ahead = timedelta(days=29)
    assert alice.sweep() == 0 and alice.get(raw) is not None

    clock.ahead = timedelta(days=31)
    assert alice.get(raw) is None and alice.history(raw) != []
    assert [each.id for each in alice.get_all().results] == [used]
    assert [each.id for each in alice.search("fundraising target").results] == [used]
    with pytest.raises(NotFoundError):
        alice.patch(raw, {"confidence": 1})
    with pytest.raises(NotFoundError):
        alice.request_promotion(raw, "WORKING", "too late")

    assert alice.sweep() == 1
    assert alice.sweep() == 0
    assert [(record.event, record.actor) for record in alice.history(raw)] == [("ADD", "upsert"), ("DELETE", "expiry")]
    last = merlin.audit(subject_id=raw)[-1]
    assert (last.actor, last.action) == ("perdure", "expire")
    assert alice.get(used) is not None
    assert PORTAL.call(sweep(memory._memory)) == 1
    assert len(join("mordred", team="avalon").history(theirs)) == 2


@pytest.mark.covers("X38")
def test_a_promotion_keeps_it(open_memory: Open) -> None:
    clock = MovedClock()
    memory = open_memory(**QUICK)
    clock.of(memory)
    join = joining(memory)
    id = join("alice").upsert(item(truth_level="EPHEMERAL"))
    promoted(join, id, "WORKING")
    assert expiry(join, id) is None
    clock.ahead = timedelta(days=400)
    assert join("alice").sweep() == 0
    assert join("alice").get(id) is not None


@pytest.mark.covers("X38")
def test_a_new_text_has_its_own_time(open_memory: Open) -> None:
    clock = MovedClock()
    memory = open_memory(**QUICK)
    clock.of(memory)
    join = joining(memory)
    alice = join("alice")
    id = alice.upsert(item(truth_level="EPHEMERAL"))
    clock.ahead = timedelta(days=20)
    assert alice.upsert(item("Again", truth_level="EPHEMERAL")) == id
    clock.ahead = timedelta(days=40)
    assert alice.get(id) is not None
    clock.ahead = timedelta(days=60)
    assert alice.get(id) is None
    another = alice.upsert(item("After it was over"))
    assert another != id
    assert [each.memory for each in alice.get_all().results] == ["After it was over"]
    assert [record.event for record in alice.history(id)] == ["ADD", "UPDATE", "DELETE"]
    assert alice.sweep() == 0


@pytest.mark.covers("X38")
@pytest.mark.parametrize(("days", "expected"), [(0, None), (7, 7)])
def test_the_days_are_the_configurations(open_memory: Open, days: int, expected: int | None) -> None:
    join = joining(open_memory(team={"ephemeral_days": days}, **QUICK))
    id = join("alice").upsert(item(truth_level="EPHEMERAL"))
    found = expiry(join, id)
    if expected is None:
        assert found is None
    else:
        assert found is not None and round((found - datetime.now(UTC)) / timedelta(days=1)) == expected


def test_days_below_none_are_an_error(open_memory: Open) -> None:
    with pytest.raises(InvalidInputError):
        open_memory(team={"ephemeral_days": -1})


def test_many_expired_memories_are_all_swept(open_memory: Open) -> None:
    clock = MovedClock()
    memory = open_memory(vector_store={"provider": "memory"}, episodes="off", **QUICK)
    clock.of(memory)
    join = joining(memory)
    alice = join("alice")
    for number in range(205):
        alice.upsert(item(f"Note {number}", truth_level="EPHEMERAL", source=f"a:{number}"))
    clock.ahead = timedelta(days=31)
    assert alice.sweep() == 205
