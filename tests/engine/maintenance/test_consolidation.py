"""Consolidation where upkeep finds it: which memories are merged, and which never."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Memory, MemoryStore
from perdure.domain.errors import ConflictError
from perdure.domain.maintenance import Consolidation
from perdure.domain.scope import Scope
from perdure.engine.core.kernel import Kernel
from perdure.engine.maintenance import consolidation
from perdure.engine.maintenance.consolidation import consolidate_scope
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open

pytestmark = pytest.mark.covers("B12", "V69")

ANA = Scope(user_id="ana")
HAWAII = ("Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000")
MERGED = "Hawaii budget is $12,000 (updated from initial $10,000)"


def kernel_of(memory: Memory) -> Kernel:
    return memory._memory._engine.kernel


def tidy(memory: Memory, scope: Scope = ANA, **given: Any) -> list[Consolidation]:
    memory.get_all(user_id="nobody")  # opens it
    return PORTAL.call(consolidate_scope(kernel_of(memory), scope, **given))


def keep(memory: Memory, *texts: str, **fields: Any) -> list[str]:
    store = MemoryStore(memory)
    fields.setdefault("user_id", "ana")
    return [store.store(text, **fields).id for text in texts]


def texts(memory: Memory, user: str = "ana") -> list[str]:
    return sorted(item.memory for item in memory.get_all(user_id=user).results)


@pytest.fixture(params=["sqlite", "memory"])
def both(request: pytest.FixtureRequest, open_memory: Open) -> Memory:
    return open_memory(embedder={"provider": "hashed"}, vector_store={"provider": request.param})


@pytest.mark.covers("V69")
def test_what_belongs_together_becomes_one_and_the_rest_stays(both: Memory) -> None:
    keep(both, *HAWAII, "User likes tea", "User lives in Porto")
    (done,) = tidy(both)
    assert done.memory.memory == MERGED
    assert sorted(item.memory for item in done.removed) == sorted(HAWAII)
    assert texts(both) == sorted([MERGED, "User likes tea", "User lives in Porto"])
    assert tidy(both) == [], "again there is nothing to do"


@pytest.mark.covers("V69")
def test_a_dry_run_says_the_same_and_changes_nothing(both: Memory) -> None:
    keep(both, *HAWAII)
    (dry,) = tidy(both, dry_run=True)
    assert texts(both) == sorted(HAWAII)
    (done,) = tidy(both)
    assert (dry.memory.memory, dry.removed) == (done.memory.memory, done.removed)
    assert dry.dry_run


@pytest.mark.covers("V69")
def test_only_from_a_number_of_memories_on(both: Memory) -> None:
    keep(both, *HAWAII)
    assert tidy(both, at_least=4) == []
    keep(both, "User likes tea")
    assert len(tidy(both, at_least=4)) == 1


@pytest.mark.covers("B12")
def test_types_projects_and_users_are_never_mixed(both: Memory) -> None:
    keep(both, HAWAII[0])
    keep(both, HAWAII[2], type="episodic")
    keep(both, HAWAII[2], project_id="p")
    keep(both, HAWAII[2], user_id="bob")
    assert tidy(both) == []
    assert tidy(both, Scope()) == [], "not by a sweep of all either"
    assert len(texts(both)) == 3


@pytest.mark.covers("V69")
def test_what_is_kept_out_of_prompts_is_not_merged_and_by_hand_it_stays_so(both: Memory) -> None:
    first, second, third = keep(both, *HAWAII)
    quarantine(both, third, "tool", "instruction")
    assert tidy(both) == []
    merged = both.get(MemoryStore(both).consolidate([first, second, third]).id)
    assert merged is not None
    assert (merged.quarantined, merged.origin) == ("instruction", "tool")


def quarantine(memory: Memory, shown: str, origin: str, why: str) -> None:
    async def mark() -> None:
        kernel = kernel_of(memory)
        item = await memory._memory.get(shown)
        assert item is not None
        row = await kernel.store.get(kernel.collection, item.id)
        assert row is not None
        payload = item.with_(origin=origin, quarantined=why).to_payload()
        await kernel.store.update(kernel.collection, item.id, payload=payload)

    PORTAL.call(mark())


@pytest.mark.covers("V69")
def test_distinct_statements_stay_apart_where_nobody_asked(both: Memory) -> None:
    keep(both, "User's sister lives in Porto", "User's brother lives in Porto")
    assert tidy(both) == [], "joined, a later word on the one would cost the other"


@pytest.mark.covers("V69")
def test_wishes_of_how_to_be_answered_are_left_alone(both: Memory) -> None:
    said = ("User wants the assistant to answer in French", "User wants the assistant to answer in French briefly")
    keep(both, *said)
    assert tidy(both) == []


@pytest.mark.covers("V69")
def test_insights_are_left_alone(both: Memory) -> None:
    store = MemoryStore(both)
    keep(both, *[f"User deployed the {name}" for name in ("shop", "shop again", "shop today")])
    store.reflect(user_id="ana")
    merged = tidy(both)
    assert all(item.source != "reflection" for done in merged for item in done.removed)


@pytest.mark.covers("B12")
def test_the_newest_hundred(quick: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidation, "NEWEST", 3)
    keep(quick, "User likes green tea", "User likes green tea", "User has a dog", "User owns a boat")
    assert tidy(quick) == [], "of the two that are alike one is too old"


@pytest.mark.covers("V69")
def test_a_later_word_still_finds_the_merged_memory(quick: Memory) -> None:
    keep(quick, *HAWAII)
    (done,) = tidy(quick)
    (event,) = quick.add_facts(["Hawaii budget is $15,000"], user_id="ana").results
    assert (event.event, event.id) == ("UPDATE", done.memory.id)


@pytest.mark.covers("V69")
def test_as_of_and_undo(quick: Memory) -> None:
    keep(quick, *HAWAII)
    before = quick.get_all(user_id="ana").results[-1].updated_at
    (done,) = tidy(quick)
    assert sorted(item.memory for item in quick.get_all(user_id="ana", as_of=before).results) == sorted(HAWAII)
    quick.rollback(user_id="ana", to=before)
    assert texts(quick) == sorted(HAWAII)
    assert quick.get(done.memory.id) is None


@pytest.mark.covers("V69")
def test_another_writer_meanwhile(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_memory(embedder={"provider": "hashed"})
    ids = keep(memory, *HAWAII[:2])
    engine_embedding = kernel_of(memory).embedding
    asked, real = [], engine_embedding.query

    async def query(text: str) -> Any:
        asked.append(text)
        if len(asked) == 1:
            monkeypatch.setattr(engine_embedding, "query", real)
            await memory._memory.update(ids[0], "Budget for Hawaii is $11,000")
        return await real(text)

    monkeypatch.setattr(engine_embedding, "query", query)
    merged = MemoryStore(memory).consolidate(ids)
    assert "$11,000" in merged.content
    assert "$10,000" not in merged.content


@pytest.mark.covers("V69")
def test_another_writer_each_time_is_told(quick: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = keep(quick, *HAWAII[:2])
    monkeypatch.setattr(consolidation, "_stamp", lambda row: object())
    with pytest.raises(ConflictError):
        MemoryStore(quick).consolidate(ids)
    assert texts(quick) == sorted(HAWAII[:2])


# ------------------------------------------------------------------ by a model
def scripted(open_memory: Open, *answers: Any) -> Memory:
    llm = {"provider": "scripted", "config": {"answers": list(answers)}}
    return open_memory(embedder={"provider": "hashed"}, llm=llm, curator="llm")


@pytest.mark.covers("V69")
def test_a_model_merges_a_group_whole(open_memory: Open) -> None:
    text = "User's sister and brother live in Porto"
    memory = scripted(open_memory, {"memory": text})
    keep(memory, "User's sister lives in Porto", "User's brother lives in Porto")
    (done,) = tidy(memory)
    assert (done.by, done.memory.memory) == ("llm", text)


@pytest.mark.covers("V69")
def test_a_model_that_fails_leaves_it_to_the_rules(open_memory: Open) -> None:
    memory = scripted(open_memory, {"error": "server"})
    keep(memory, HAWAII[0], HAWAII[2])
    (done,) = tidy(memory)
    assert (done.by, done.memory.memory) == ("rules", MERGED)
