"""A team's memory beside personal memory, with many writers at once, and without a ledger."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure import (
    AsyncTeamMemory,
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LedgerError,
    Memory,
    NotFoundError,
    PromotionRequiredError,
    ScopeError,
    TeamMemory,
)
from perdure.domain.memory import new_id
from tests.conftest import Open
from tests.engine.team.teams import STORES, Join, item, joining, promoted
from tests.engine.transfer.transfers import export, load

pytestmark = pytest.mark.covers("U22", "X22", "X33")


# ------------------------------------------------------------------ beside personal memory
@pytest.mark.covers("U22")
def test_personal_memory_has_no_way_to_a_teams(quick: Memory, join: Join) -> None:
    id = join("alice").upsert(item())
    event = join("alice").history(id)[0].id
    assert quick.get(id) is None
    assert quick.history(id) == []
    assert quick.search("fundraising target", user_id="alice").results == []
    with pytest.raises(ScopeError):
        quick.get_all()
    for change in (
        lambda: quick.update(id, "mine"),
        lambda: quick.delete(id),
        lambda: quick.delete(id, erase=True),
        lambda: quick.undo(event),
    ):
        with pytest.raises(NotFoundError):
            change()
    quick.forget(id=id)
    assert join("alice").get(id) is not None
    assert len(join("alice").history(id)) == 1


def test_a_team_has_no_way_to_personal_memory(quick: Memory, join: Join) -> None:
    id = quick.add("The target is 5M€", infer=False, user_id="alice").results[0].id
    alice = join("alice", role="admin")
    assert alice.get(id) is None and alice.history(id) == []
    assert alice.search("target", visibility=None).results == []
    with pytest.raises(NotFoundError):
        alice.delete(id, erase=True)
    assert quick.get(id) is not None


def test_walls_of_the_memory_hold_for_its_members(quick: Memory) -> None:
    with pytest.raises(ForbiddenError):
        TeamMemory(quick.within(user_id="alice"), team="excalibur", member="alice")
    everywhere = TeamMemory(quick, team="excalibur", member="alice")
    inside = TeamMemory(quick.within(project_id="fundraising"), team="excalibur", member="alice")
    id = everywhere.upsert(item(project_scope="legal"))
    assert inside.get(id) is None
    with pytest.raises(ForbiddenError):
        inside.upsert(item(project_scope="legal", source="a:1"))
    with pytest.raises(ForbiddenError):
        inside.upsert(item(project_scope=None, source="a:1"))
    own = inside.upsert(item(source="a:1"))
    with pytest.raises(ForbiddenError):
        inside.patch(own, {"project_scope": "legal"})
    assert [each.id for each in inside.get_all().results] == [own]


@pytest.mark.parametrize(
    "given",
    [{"team": ""}, {"team": 3}, {"member": " "}, {"role": "king"}, {"projects": "fundraising"}, {"projects": [1]}],
    ids=str,
)
def test_a_member_is_checked(quick: Memory, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        TeamMemory(quick, **{"team": "excalibur", "member": "alice", **given})


@pytest.mark.covers("X22")
def test_an_archive_carries_a_teams_memory_with_its_tags_or_not_at_all(tmp_path: Path) -> None:
    quick = {"embedder": {"provider": "hashed"}}
    with Memory({"path": str(tmp_path / "from"), **quick}) as memory:
        id = joining(memory)("alice").upsert(item(truth_level="EPHEMERAL"))
        found = joining(memory)("alice").get(id)
    lines = export(tmp_path / "from", **quick)
    assert load(tmp_path / "to", lines, **quick).refused == 0
    with Memory({"path": str(tmp_path / "to"), **quick}) as memory:
        assert joining(memory)("alice").get(id) == found
        assert memory.get(id) is None
    tagless = [line.replace('"truth_level"', '"no_level"').replace('"tags"', '"no_tags"') for line in lines]
    told = '{"messages": "I like tea", "team_id": "excalibur", "user_id": "ana", "infer": false}'
    stated = '{"memory": "The target is 2M", "team_id": "excalibur", "source": "a:1"}'
    report = load(tmp_path / "other", [*tagless, told, stated], **quick)
    assert report.refused == 4, report.refusals
    with Memory({"path": str(tmp_path / "other"), **quick}) as memory:
        assert joining(memory)("alice", role="admin").get_all().results == []
        assert memory.get_all(user_id="ana").results == []


# ------------------------------------------------------------------ many at once, and none at all
@STORES
def test_two_upserts_of_one_source_at_once_make_one_item(open_memory: Open, store: str) -> None:
    join = joining(open_memory(vector_store={"provider": store}, embedder={"provider": "hashed"}))

    def write(number: int) -> str:
        return join(f"member-{number % 3}").upsert(item(f"Text {number}"))

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(write, range(16)))
    alice = join("alice")
    assert len(ids) == 1
    assert [each.id for each in alice.get_all().results] == [*ids]
    assert len(alice.history(ids.pop())) == 16
    assert len(join("merlin", role="admin").audit()) == 16


def test_two_upserts_at_once_in_two_engines(tmp_path: Path) -> None:
    config = {"path": str(tmp_path), "embedder": {"provider": "hashed"}}
    with Memory(config) as first, Memory(config) as second, ThreadPoolExecutor(4) as pool:
        joins = [joining(first), joining(second)]
        ids = set(pool.map(lambda number: joins[number % 2]("alice").upsert(item(f"Text {number}")), range(12)))
        assert len(ids) == 1
        assert len(joins[1]("bob").get_all().results) == 1


def test_without_a_ledger_nothing_is_changed_and_all_is_read(tmp_path: Path) -> None:
    with Memory({"path": str(tmp_path), "embedder": {"provider": "hashed"}}) as memory:
        id = joining(memory)("alice").upsert(item())
    broken = tmp_path / "no-ledger"
    broken.mkdir()
    store = {"provider": "sqlite", "config": {"path": str(next(tmp_path.glob("*memor*.db")))}}
    config = {"vector_store": store, "history": {"db_path": str(broken)}, "embedder": {"provider": "hashed"}}
    with Memory(config) as memory:
        alice = joining(memory)("alice", role="admin")
        assert alice.get(id) is not None
        for change in (
            lambda: alice.upsert(item("Changed")),
            lambda: alice.patch(id, {"confidence": 0}),
            lambda: alice.delete(id),
            lambda: alice.request_promotion(id, "VALIDATED", "please"),
            lambda: alice.decide(new_id(), "approved"),
            alice.promotions,
            alice.audit,
            alice.sweep,
        ):
            with pytest.raises(LedgerError, match="no ledger"):
                change()
        found = alice.get(id)
        assert found is not None and found.memory == "The Q2 fundraising target is 2M€"


def test_local_opens_and_closes_its_own(tmp_path: Path) -> None:
    with TeamMemory.local(tmp_path, team="excalibur", member="alice") as alice:
        id = alice.upsert(item())
    with TeamMemory.local(tmp_path, team="excalibur", member="bob", role="reader", projects=["legal"]) as bob:
        found = bob.get(id)
    assert found is not None
    with Memory.local(tmp_path) as memory:
        with TeamMemory(memory, team="excalibur", member="alice") as alice:
            assert alice.get(id) is not None
        assert memory.get_all(user_id="ana").results == []


async def a_promoted_memory(path: Path) -> str:
    async with AsyncTeamMemory.local(path, team="excalibur", member="merlin", role="admin") as merlin:
        id = await merlin.upsert(item())
        asked = await merlin.request_promotion(id, "VALIDATED", "seen it")
        with pytest.raises(ConflictError):
            await merlin.decide(asked.id, "approved")
            await merlin.decide(asked.id, "approved")
        found = await merlin.get(id)
        assert found is not None and found.tags is not None
        return found.tags.truth_level


def test_awaited(tmp_path: Path) -> None:

    assert asyncio.run(a_promoted_memory(tmp_path)) == "VALIDATED"


def test_a_promoted_memory_keeps_its_level_when_it_is_written_again(join: Join) -> None:
    alice = join("alice")
    id = alice.upsert(item())
    promoted(join, id, "VALIDATED")
    with pytest.raises(PromotionRequiredError):
        alice.upsert(item())
    assert alice.upsert(item(truth_level="VALIDATED")) == id
