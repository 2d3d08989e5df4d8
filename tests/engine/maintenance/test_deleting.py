"""Upkeep's deletions: prune, expire, quota and eviction, each with history that undo takes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.domain.errors import QuotaError
from perdure.domain.memory import MemoryItem, Slots, Tags
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.maintenance.deletion import Removal, evict
from perdure.engine.maintenance.tasks import is_exempt
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.team.teams import STORES, MovedClock, item, joining

pytestmark = pytest.mark.covers("U4", "U20")

QUICK: dict[str, Any] = {"embedder": {"provider": "hashed"}}
ALL = Scope()


def engine_of(memory: Memory) -> Engine:
    return memory._memory._engine


def say(memory: Memory, text: str, user: str = "ana", **more: Any) -> str:
    return str(memory.add(text, user_id=user, infer=False, **more).results[0].id)


def texts(memory: Memory, user: str = "ana", **more: Any) -> list[str]:
    return [each.memory for each in memory.get_all(user_id=user, include_past=True, **more).results]


def opened(open_memory: Open, store: str = "sqlite", **config: Any) -> tuple[Memory, Engine, MovedClock]:
    clock = MovedClock()
    memory = open_memory(vector_store={"provider": store}, **QUICK, **config)
    clock.of(memory)
    return memory, engine_of(memory), clock


# ------------------------------------------------------------------ prune


@pytest.mark.covers("B8", "U4", "V72")
@STORES
def test_what_has_decayed_is_pruned_with_history_and_can_be_undone(open_memory: Open, store: str) -> None:
    memory, engine, clock = opened(open_memory, store)
    gone, kept = say(memory, "the kettle is blue"), say(memory, "the ladder is red")
    clock.ahead = timedelta(days=50)
    PORTAL.call(_recalled(engine, kept))
    clock.ahead = timedelta(days=60)
    young = say(memory, "the drill is green")
    dry = PORTAL.call(engine.maintenance.prune(ALL, dry_run=True))
    assert [each.id for each in dry.removed] == [gone] and memory.get(gone) is not None
    removal = PORTAL.call(engine.maintenance.prune(ALL))
    assert ([each.id for each in removal.removed], removal.looked_at) == ([gone], 3)
    assert memory.get(gone) is None and memory.get(kept) is not None and memory.get(young) is not None
    last = memory.history(gone)[-1]
    assert (last.event, last.actor, last.reason) == ("DELETE", "prune", "decayed")
    assert PORTAL.call(engine.maintenance.prune(ALL)).count == 0
    memory.undo(last.id)
    assert memory.get(gone) is not None
    assert PORTAL.call(engine.maintenance.prune(ALL)).count == 0, "what was brought back is new again"


async def _recalled(engine: Engine, id: str) -> None:
    found = await engine.read.get(id)
    assert found is not None
    engine.access_counts.note([found])
    await engine.access_counts.write()


@pytest.mark.covers("V72")
def test_feedback_decides_which_of_two_equals_goes_first(open_memory: Open) -> None:
    memory, engine, clock = opened(open_memory)
    good, bad, plain = (say(memory, f"the {what} is blue") for what in ("kettle", "ladder", "drill"))
    PORTAL.call(engine.maintenance.feedback(good, "positive"))
    PORTAL.call(engine.maintenance.feedback(bad, "very_negative"))
    gone = []
    for day in (29, 58, 81):
        clock.ahead = timedelta(days=day)
        gone.append([each.id for each in PORTAL.call(engine.maintenance.prune(ALL)).removed])
    assert gone == [[bad], [plain], [good]]


@pytest.mark.covers("U20")
@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        ({}, False),
        ({"tags": "EPHEMERAL"}, False),
        ({"tags": "WORKING"}, False),
        ({"tags": "VALIDATED"}, True),
        ({"tags": "CANONICAL"}, True),
        ({"tags": "PUBLIC"}, True),
        ({"kind": "summaries", "role": "summary"}, True),
        ({"memory": "User wants the assistant to reply in French"}, True),
        ({"memory": "User prefers tea"}, False),
        ({"slots": Slots("User", "home", "Lisbon")}, True),
        ({"slots": Slots("User", "home", "Lisbon", polarity=False)}, False),
        ({"slots": Slots("User", "hobby", "chess")}, False),
    ],
    ids=str,
)
def test_validated_summaries_directives_and_profile_are_exempt(changes: dict[str, Any], stays: bool) -> None:
    base = MemoryItem(id="1", memory="m", hash="", scope=ALL, created_at="", updated_at="", told_at="")
    level = changes.pop("tags", None)
    tags = None if level is None else Tags(visibility="team", truth_level=level, validation_status="pending")
    assert is_exempt(base.with_(tags=tags, **changes)) is stays


@pytest.mark.covers("U20", "X38")
def test_a_teams_pruned_memory_is_on_record(open_memory: Open) -> None:
    memory, engine, clock = opened(open_memory)
    join = joining(memory)
    id = join("alice").upsert(item(truth_level="WORKING"))
    clock.ahead = timedelta(days=100)
    assert PORTAL.call(engine.maintenance.prune(ALL)).count == 1
    last = join("merlin", role="admin").audit(subject_id=id)[-1]
    assert (last.actor, last.action) == ("perdure", "prune")


# ------------------------------------------------------------------ expire


@pytest.mark.covers("V68")
@STORES
def test_what_is_past_its_expiry_is_deleted_of_persons_and_of_teams(open_memory: Open, store: str) -> None:
    memory, engine, clock = opened(open_memory, store)
    start = clock()
    short = say(memory, "the code is 4711", expires_at=start + timedelta(hours=1))
    long = say(memory, "the visa ends", expires_at=start + timedelta(days=400))
    say(memory, "the kettle is blue")
    team = joining(memory)("alice").upsert(item(truth_level="EPHEMERAL"))
    assert PORTAL.call(engine.maintenance.expire.everywhere()) == 0
    clock.ahead = timedelta(days=40)
    assert [each.id for each in PORTAL.call(engine.maintenance.expire(ALL, dry_run=True)).removed] == [short]
    assert PORTAL.call(engine.maintenance.expire(Scope(user_id="ben"))).count == 0
    assert PORTAL.call(engine.maintenance.expire.everywhere()) == 2
    assert sorted(texts(memory)) == ["the kettle is blue", "the visa ends"]
    assert memory.get(long) is not None
    for id in (short, team):
        past = PORTAL.call(engine.read.history(id, Scope(team_id="camelot") if id == team else ALL))
        assert past == [] or (past[-1].event, past[-1].actor) == ("DELETE", "expiry")
    assert [record.actor for record in memory.history(short)] == ["add", "expiry"]


# ------------------------------------------------------------------ quota


@pytest.mark.covers("B8", "V75")
@STORES
def test_the_least_valued_go_and_other_users_lose_nothing(open_memory: Open, store: str) -> None:
    memory, engine, clock = opened(open_memory, store, upkeep={"max_memories_per_user": 3})
    first = say(memory, "the kettle is blue", run_id="one")
    for number in range(5):
        say(memory, f"bens fact {number}", user="ben")
    clock.ahead = timedelta(days=1)
    weak = say(memory, "the ladder is red", run_id="two")
    PORTAL.call(engine.maintenance.feedback(weak, "very_negative"))
    PORTAL.call(_recalled(engine, first))
    clock.ahead = timedelta(days=2)
    say(memory, "the drill is green")
    clock.ahead = timedelta(days=3)
    say(memory, "the saw is sharp")
    PORTAL.call(engine.maintenance.quotas.settle())
    assert sorted(texts(memory)) == ["the drill is green", "the kettle is blue", "the saw is sharp"]
    assert len(texts(memory, "ben")) == 3
    last = memory.history(weak)[-1]
    assert (last.event, last.actor) == ("DELETE", "quota")
    assert PORTAL.call(engine.maintenance.quotas(ALL)).count == 0


@pytest.mark.covers("V75")
def test_closing_leaves_nobody_beyond_the_quota(open_memory: Open) -> None:
    config = {"upkeep": {"max_memories_per_user": 2}, **QUICK}
    with open_memory(**config) as memory:
        memory.add_facts([f"the kettle number {number} is blue" for number in range(6)], user_id="ana")
    with open_memory(**QUICK) as memory:
        assert len(texts(memory)) == 2


@pytest.mark.covers("V75")
@STORES
def test_a_full_user_is_refused_whole_and_others_are_not(open_memory: Open, store: str) -> None:
    full = {"max_memories_per_user": 2, "when_full": "refuse"}
    memory, _, _ = opened(open_memory, store, upkeep=full)
    ids = [say(memory, "the kettle is blue"), say(memory, "the ladder is red")]
    with pytest.raises(QuotaError, match="'ana' may have 2 memories") as refused:
        say(memory, "the drill is green")
    assert refused.value.code == "quota_exceeded" and "drill" not in str(refused.value)
    assert texts(memory) == ["the kettle is blue", "the ladder is red"]
    assert say(memory, "the drill is green", user="ben")
    memory.update(ids[0], "the kettle is white")
    memory.delete(ids[1])
    assert say(memory, "the saw is sharp")
    memory.undo(memory.history(ids[1])[-1].id)
    assert len(texts(memory)) == 3, "what is taken back is not refused"


@pytest.mark.covers("V75")
def test_the_sweeper_trims_to_a_quota_that_was_lowered(open_memory: Open) -> None:
    with open_memory(**QUICK) as memory:
        for number in range(6):
            say(memory, f"fact {number}", user="ana" if number % 2 else "ben")
    memory, engine, _ = opened(open_memory, upkeep={"max_memories_per_user": 2})
    dry = PORTAL.call(engine.maintenance.quotas(ALL, dry_run=True))
    assert (dry.count, len(texts(memory)), len(texts(memory, "ben"))) == (2, 3, 3)
    assert PORTAL.call(engine.maintenance.quotas(Scope(user_id="ana"))).count == 1
    assert (len(texts(memory)), len(texts(memory, "ben"))) == (2, 3)
    assert PORTAL.call(engine.maintenance.quotas(ALL)).count == 1


# ------------------------------------------------------------------ eviction


@pytest.mark.covers("K54")
@pytest.mark.covers("K54")
@pytest.mark.parametrize("episodes", ["keep", "search"])
@pytest.mark.parametrize("most", [1, 4, 6, 7, 500])
def test_the_oldest_facts_and_turns_go_until_within(open_memory: Open, episodes: str, most: int) -> None:
    memory, engine, _ = opened(open_memory, episodes=episodes)
    talk, other = {"user_id": "ana", "run_id": "talk"}, {"user_id": "ana", "run_id": "other"}
    for text in ("I live in Lisbon.", "I have a cat called Miso.", "I play the cello."):
        memory.add(text, **talk)
        memory.add(text, **other)
    scope = Scope(user_id="ana", run_id="talk")
    elsewhere = PORTAL.call(_entries(engine, Scope(user_id="ana", run_id="other")))
    before = PORTAL.call(_entries(engine, scope))
    assert len(before) == 6
    dry = PORTAL.call(evict(engine.kernel, scope, most, dry_run=True))
    assert PORTAL.call(_entries(engine, scope)) == before
    removal: Removal = PORTAL.call(evict(engine.kernel, scope, most))
    assert removal.count == dry.count == max(0, 6 - most)
    assert PORTAL.call(_entries(engine, scope)) == before[removal.count :]
    assert PORTAL.call(_entries(engine, Scope(user_id="ana", run_id="other"))) == elsewhere
    assert PORTAL.call(evict(engine.kernel, scope, most)).count == 0
    for gone in removal.removed:
        assert [record.actor for record in memory.history(gone.id)][-1] == "evict"


async def _entries(engine: Engine, scope: Scope) -> list[str]:
    """Texts of facts and messages of a conversation, oldest first; of one moment the message before the fact."""
    ledger = engine.kernel.ledger
    assert ledger is not None
    said = [(each.told_at, 0, each.content) for each in (await ledger.list_episodes(scope, 500)).episodes]
    page = await engine.read.get_all(scope, limit=500, filters=None, cursor=None, as_of=None, include_past=True)
    facts = [(each.told_at, 1, each.memory) for each in page.results if each.kind == "facts"]
    return [text for _, _, text in sorted([*said, *facts])]


@pytest.mark.covers("K54")
@pytest.mark.covers("K54")
@pytest.mark.parametrize("episodes", ["keep", "search", "off"])
def test_messages_that_are_memories_count_once_and_undo_brings_both_back(open_memory: Open, episodes: str) -> None:
    memory, engine, _ = opened(open_memory, episodes=episodes)
    scope = Scope(user_id="ana", run_id="talk")
    ids = [say(memory, f"turn {number}", run_id="talk") for number in range(5)]
    assert PORTAL.call(evict(engine.kernel, scope, 5)).count == 0
    assert [each.id for each in PORTAL.call(evict(engine.kernel, scope, 3)).removed] == ids[:2]
    assert PORTAL.call(evict(engine.kernel, scope, 3)).count == 0
    memory.undo(memory.history(ids[1])[-1].id)
    assert PORTAL.call(evict(engine.kernel, scope, 3, dry_run=True)).looked_at == 4


@pytest.mark.covers("K54")
@pytest.mark.covers("K54")
def test_zero_is_any_number_and_summaries_stay(open_memory: Open) -> None:
    memory, engine, _ = opened(open_memory)
    say(memory, "the kettle is blue", run_id="talk")
    summary = say(memory, "they talked of kettles", run_id="talk")
    PORTAL.call(_as_summary(engine, summary))
    scope = Scope(user_id="ana", run_id="talk")
    assert PORTAL.call(evict(engine.kernel, scope, 0)).count == 0
    say(memory, "the ladder is red", run_id="talk")
    assert PORTAL.call(evict(engine.kernel, scope, 1)).count >= 1
    assert memory.get(summary) is not None


async def _as_summary(engine: Engine, id: str) -> None:
    kernel = engine.kernel
    point = await kernel.store.get(kernel.collection, id)
    assert point is not None
    await kernel.store.update(kernel.collection, id, payload={**point.payload, "role": "summary", "kind": "summaries"})


# ------------------------------------------------------------------ two at once


@pytest.mark.covers("U20")
def test_two_sweepers_delete_each_memory_once(tmp_path: Path) -> None:
    config = {"path": str(tmp_path / "memory"), **QUICK}
    clock = MovedClock()
    with Memory(config) as one, Memory(config) as two:
        clock.of(one)
        clock.of(two)
        ids = [say(one, f"fact {number}") for number in range(20)]
        clock.ahead = timedelta(days=100)

        async def both() -> list[Removal]:
            return await asyncio.gather(*(engine_of(each).maintenance.prune(ALL) for each in (one, two)))

        removals = PORTAL.call(both())
        assert sum(removal.count for removal in removals) == 20
        assert all([record.actor for record in one.history(id)] == ["add", "prune"] for id in ids)
